"""Sizes as people write and read them: GB is 10^9 bytes, GiB is 2^30 bytes, nothing is guessed.

    size    = number [" "] unit          "95 GB"   "0.5GiB"   "12205424640 B"
    number  = digits ["." digits]        ASCII digits, no sign, no exponent, no separators
    unit    = B | kB | KB | MB | GB | TB | KiB | MiB | GiB | TiB

A number without a unit is refused: "95" is 95,000,000,000 bytes to one reader and 102,005,473,280 to another.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from membudget.errors import SizeError

GB: Final = 10**9
GIB: Final = 2**30

UNITS: Final[dict[str, int]] = {
    "B": 1,
    "kB": 10**3,
    "KB": 10**3,
    "MB": 10**6,
    "GB": GB,
    "TB": 10**12,
    "KiB": 2**10,
    "MiB": 2**20,
    "GiB": GIB,
    "TiB": 2**40,
}
"""Bytes per unit."""

MAX_BYTES: Final = 10**18
"""1 EB: no GPU and no checkpoint comes near it, so more is a typing error."""

MAX_LENGTH: Final = 64
"""Characters of a size; also what keeps the arithmetic on it exact and quick."""

_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?([A-Za-z]+)")
_LENIENT = re.compile(r"(-?)([0-9][0-9_,]*)?(\.[0-9]*)?([eE][-+]?[0-9]+)?(\s*)([A-Za-z]*)(.*)", re.DOTALL)


def parse_size(value: object) -> int:
    """Bytes of a size such as "95 GB" or "88.5 GiB", exactly.

    Zero is a size; whoever needs more than zero says so. Raises SizeError with the cause and what to write.
    """
    if not isinstance(value, str):
        raise SizeError(_not_a_text(value))
    if len(value) > MAX_LENGTH:
        raise SizeError(f"this is {len(value):,} characters long, too long for a size; {_EXAMPLE}")
    match = _SIZE.fullmatch(value)
    if match is None or match[2] not in UNITS:
        raise SizeError(f"{_quoted(value)} is not a size: {_cause(value)}")
    nbytes, parts = _bytes(match[1], match[2])
    if nbytes > MAX_BYTES:
        raise SizeError(f"{_quoted(value)} is more than 1 EB (10^18 bytes), the most this tool reads")
    if parts:
        raise SizeError(f"{_quoted(value)} is {nbytes:,}.{parts} bytes, not a whole number of bytes")
    return nbytes


def format_gib(nbytes: int) -> str:
    """`11.37 GiB`. What would round to zero without being zero reads `< 0.01 GiB`."""
    return _format(nbytes, GIB, "GiB")


def format_gb(nbytes: int) -> str:
    """`12.21 GB`. What would round to zero without being zero reads `< 0.01 GB`."""
    return _format(nbytes, GB, "GB")


def format_both(nbytes: int) -> str:
    """`95.00 GB = 88.48 GiB`; sizes too small for these units in exact bytes."""
    if 0 < abs(nbytes) < GIB // 100:
        return format_exact(nbytes)
    return f"{format_gb(nbytes)} = {format_gib(nbytes)}"


def format_exact(nbytes: int) -> str:
    """`12,205,424,640 B`."""
    return f"{nbytes:,} B"


def format_pair(left: int, right: int, style: Callable[[int], str] = format_both) -> tuple[str, str]:
    """Two sizes side by side; where rounding would show different sizes as equal, both in exact bytes."""
    texts = style(left), style(right)
    if left != right and texts[0] == texts[1]:
        return format_exact(left), format_exact(right)
    return texts


def _format(nbytes: int, unit_bytes: int, unit: str) -> str:
    text = f"{nbytes / unit_bytes:.2f}"
    if nbytes and float(text) == 0:
        return f"< 0.01 {unit}" if nbytes > 0 else f"> -0.01 {unit}"
    return f"{text} {unit}"


_EXAMPLE = 'write a number and a unit, such as "95 GB" or "95 GiB"'


def _quoted(text: str) -> str:
    return '"' + "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text) + '"'


def _bytes(number: str, unit: str) -> tuple[int, str]:
    """Whole bytes, and the decimal digits of what is left: exact for any number of digits."""
    whole, _, fraction = number.partition(".")
    nbytes, rest = divmod(int(whole + fraction) * UNITS[unit], 10 ** len(fraction))
    return nbytes, str(rest).zfill(len(fraction)).rstrip("0") if rest else ""


def _readings(number: str, prefix: str = "G") -> str:
    """`write "95 GB" (95,000,000,000 bytes) or "95 GiB" (102,005,473,280 bytes)`."""
    choices = []
    for unit in (f"{prefix}B", f"{prefix}iB"):
        nbytes, parts = _bytes(number, unit)
        if nbytes <= MAX_BYTES and not parts:
            choices.append(f'"{number} {unit}" ({nbytes:,} bytes)')
    return "write " + " or ".join(choices) if choices else _EXAMPLE


def _not_a_text(value: object) -> str:
    if value is None:
        return f"nothing is given; {_EXAMPLE}"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return f"{_kind(value)} is not a size; {_EXAMPLE}"
    if value < 0:
        return "a size cannot be negative"
    # nan, infinities and numbers too long to print have no readings worth spelling out.
    if not value <= MAX_BYTES or "e" in repr(value):
        return f"this number is not a size; {_EXAMPLE}"
    number = repr(value).removesuffix(".0")
    return f"{number} has no unit; {_unit_choices(number)}"


def _kind(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return "a list"
    return "a group of keys" if isinstance(value, dict) else "this value"


def _unit_choices(number: str) -> str:
    """What to write for a number without a unit; beyond a million GB it must have meant bytes."""
    if _bytes(number, "GB")[0] > 10**15 and "." not in number:
        return f'for bytes write "{number} B"'
    return _readings(number)


def _cause(text: str) -> str:
    """Why a text is not a size, and what to write instead."""
    match = _LENIENT.fullmatch(text)
    assert match is not None  # the pattern matches any text
    sign, whole, fraction, exponent, _, unit, rest = match.groups()
    if any(c.isdigit() and not c.isascii() for c in text):
        return f"only the digits 0 to 9 are read; {_EXAMPLE}"
    if whole is None and not (fraction and len(fraction) > 1):
        return f"it does not begin with a number; {_EXAMPLE}"
    if sign:
        return "a size cannot be negative"
    if exponent:
        return f"an exponent is not read; {_EXAMPLE}"
    digits = re.sub("[_,]", "", whole or "0")
    number = digits if fraction in (None, ".") else f"{digits}{fraction}"
    if unit == "" and rest == "":
        return f"{_shape_cause(whole, fraction) or 'it has no unit'}; {_unit_choices(number)}"
    cause = _shape_cause(whole, fraction) or _tail_cause(unit, rest)
    if unit in ("B", "b"):
        return f'{cause}; write "{number} B"'
    prefix = unit[:1].upper()
    return f"{cause}; {_readings(number, prefix) if prefix and prefix in 'KMGT' else _EXAMPLE}"


def _shape_cause(whole: str | None, fraction: str | None) -> str:
    if whole is None or fraction == ".":
        return f"digits are missing {'before' if whole is None else 'after'} the point"
    if "," in whole or "_" in whole:
        return "separators between digits are not read"
    return ""


def _tail_cause(unit: str, rest: str) -> str:
    if unit in UNITS:
        return f"{_quoted(rest)} after the unit is not read" if rest else "at most one space goes between"
    if unit.upper() in ("K", "M", "G", "T", "KI", "MI", "GI", "TI"):
        return f'the unit "{unit}" lacks its B'
    if unit.upper() in {known.upper() for known in UNITS}:
        return f'the unit "{unit}" is spelled otherwise (a small b can mean bits)'
    return f"{_quoted(unit or rest.strip())} is not a unit (B, kB, MB, GB, TB, KiB, MiB, GiB, TiB)"
