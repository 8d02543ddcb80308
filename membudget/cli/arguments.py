"""Texts of the command line -> values, with a message that says what to write instead."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TypeVar

from membudget.errors import SizeError, UsageError

T = TypeVar("T")

_COUNT = re.compile(r"[0-9]+(_[0-9]+)*")
_SHOWN = 60
"""How much of a wrong value a message repeats."""


def choose(option: str, value: str, choices: Mapping[str, T]) -> T:
    """What a value of an option stands for; UsageError with the nearest value when it is no choice."""
    if value in choices:
        return choices[value]
    raise UsageError(f"{option}: no {_quoted(value)}{_hint(value, choices)}")


def parse_count(option: str, text: str, largest: int) -> int:
    """A whole number from 1 to `largest`, written 24576 or 24_576."""
    digits = text.replace("_", "")
    if not _COUNT.fullmatch(text):
        written = text.replace(",", "").strip()
        hint = f"write {written}" if written.isascii() and written.isdigit() else "write it like 24576 or 24_576"
        raise UsageError(f"{option}: {_quoted(text)} is not a whole number; {hint[:_SHOWN]}")
    # The length is looked at first: Python refuses to read numbers of thousands of digits.
    if len(digits) > 30 or int(digits) > largest:
        raise UsageError(f"{option}: {_quoted(text)} is more than {largest:,}, the most that is priced")
    if int(digits) == 0:
        raise UsageError(f"{option}: must be at least 1")
    return int(digits)


def parse_positive(option: str, text: str, below: float = float("inf")) -> float:
    """A finite number above 0 and under `below`."""
    try:
        value = float(text)
    except ValueError:
        raise UsageError(f"{option}: {_quoted(text)} is not a number") from None
    if not 0 < value < below:
        bound = f"between 0 and {below:g}, both excluded" if below != float("inf") else "finite and above 0"
        raise UsageError(f"{option}: {_quoted(text)} is not {bound}")
    return value


def parse_limit(text: str | None) -> int | None:
    """Bytes of --limit; UsageError that says what to write."""
    if text is None:
        return None
    from membudget.units import parse_size

    try:
        limit = parse_size(text)
    except SizeError as error:
        raise UsageError(f"--limit: {error}") from error
    if limit == 0:
        raise UsageError('--limit: a limit of nothing fits nothing; write, for example, "95 GB"')
    return limit


def _hint(value: str, choices: Iterable[str]) -> str:
    from membudget.config.suggest import did_you_mean

    names = list(choices)
    return f"{did_you_mean(value, names)}; choose one of {', '.join(names)}"


def _quoted(text: str) -> str:
    cut = text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."
    return f'"{cut}"'
