"""Plain scalars by the core schema of YAML 1.2, without what two readers may read differently.

null ~ (nothing)             null           Null, NULL too
true false                   bool           True, TRUE too; yes, no, on, off are texts
12  -3                       int
1e9                          int            integral and without a point: a count may be written so
1.5  1e-3  .inf  .nan        float
010                          refused        8 in YAML 1.1, 10 in YAML 1.2
1_000  0x10  2026-01-01      text           so a field that wants a number says what to write
"""

from __future__ import annotations

import re

MAX_DIGITS = 100
"""Digits of a number; far more than any quantity has, few enough to compute with at once."""

_NULL = re.compile(r"null|Null|NULL|~|")
_BOOL = re.compile(r"(true|True|TRUE)|false|False|FALSE")
_INT = re.compile(r"[-+]?[0-9]+")
_LEADING_ZERO = re.compile(r"[-+]?0[0-9]+")
_INTEGRAL = re.compile(r"([-+]?[0-9]+)[eE]([-+]?[0-9]+)")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_SPECIAL = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")


class ScalarError(ValueError):
    """A scalar that reads as a number but is refused; the text says why."""


def resolve(text: str) -> bool | int | float | str | None:
    """The value of a plain (unquoted) scalar. Raises ScalarError."""
    if _NULL.fullmatch(text):
        return None
    if match := _BOOL.fullmatch(text):
        return match[1] is not None
    if _INT.fullmatch(text):
        return _int(text)
    if _FLOAT.fullmatch(text):
        return _float(text)
    return float(text.replace(".", "")) if _SPECIAL.fullmatch(text) else text


def _int(text: str) -> int:
    if _LEADING_ZERO.fullmatch(text):
        sign = "-" if text[0] == "-" else ""
        digits = text.lstrip("+-0") or "0"
        raise ScalarError(
            f"a leading zero makes {text[:20]} octal for some readers; "
            f'write {sign}{digits[:20]}, or "{text[:20]}" in quotes if it is a text'
        )
    if len(text) > MAX_DIGITS:
        raise ScalarError(f"this number has {len(text):,} digits; no quantity here is that large")
    return int(text)


def _float(text: str) -> int | float:
    if len(text) > MAX_DIGITS:
        raise ScalarError(f"this number is {len(text):,} characters long; {MAX_DIGITS} are read")
    value = float(text)
    if abs(value) == float("inf"):
        raise ScalarError("this number is larger than any quantity here")
    match = _INTEGRAL.fullmatch(text)
    if match is None or not value.is_integer() or len(match[2]) > 4:
        return value
    power = int(match[2])
    whole, rest = divmod(int(match[1]) * 10 ** max(power, 0), 10 ** max(-power, 0))
    return value if rest else whole
