from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from membudget.config.scalars import MAX_DIGITS, ScalarError, resolve


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None),
        ("~", None),
        ("null", None),
        ("NULL", None),
        ("true", True),
        ("False", False),
        ("12", 12),
        ("-3", -3),
        ("+4", 4),
        ("0", 0),
        ("1e9", 10**9),
        ("15E2", 1500),
        ("10e-1", 1),
        ("1.5", 1.5),
        ("1.5e3", 1500.0),
        ("64.0", 64.0),
        ("15e-1", 1.5),
        ("1e-3", 0.001),
        (".5", 0.5),
        ("5.", 5.0),
        ("-.inf", -math.inf),
        (".INF", math.inf),
    ],
)
def test_the_core_schema(text: str, value: object) -> None:
    read = resolve(text)
    assert read == value
    assert type(read) is type(value)


def test_not_a_number() -> None:
    assert math.isnan(float(resolve(".nan") or 0))


@pytest.mark.parametrize(
    "text",
    [
        *("yes", "no", "on", "off", "y", "tRUE", "inf", "nan", "=", "2026-01-01", "190:20:30"),
        *("1_000", "1,000", "1 000", "0x10", "0o17", "95 GB", "\u0661", "1e", "--1", "1.2.3"),
    ],
)
def test_what_only_some_readers_take_for_something_else_is_a_text(text: str) -> None:
    assert resolve(text) == text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("010", "a leading zero makes 010 octal for some readers; write 10, "),
        ("-007", "a leading zero makes -007 octal for some readers; write -7, "),
        ("00", "a leading zero makes 00 octal for some readers; write 0, "),
        ("9" * 101, "this number has 101 digits"),
        ("9" * 100_000, "this number has 100,000 digits"),
        ("1e400", "this number is larger than any quantity here"),
        ("-1.0e999999999999", "this number is larger than any quantity here"),
        ("0." + "1" * 200, "this number is 202 characters long"),
    ],
)
def test_refused_numbers(text: str, message: str) -> None:
    with pytest.raises(ScalarError) as error:
        resolve(text)
    assert str(error.value).startswith(message)


@given(st.integers(-(10**MAX_DIGITS) // 100, 10**MAX_DIGITS // 100))
def test_whole_numbers_are_exact(number: int) -> None:
    assert resolve(str(number)) == number


@given(st.integers(1, 10**30), st.integers(0, 60))
def test_exponents_are_exact(mantissa: int, exponent: int) -> None:
    assert resolve(f"{mantissa}e{exponent}") == mantissa * 10**exponent
    assert resolve(f"{mantissa}{'0' * exponent}e-{exponent}") == mantissa


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_floats_as_python_writes_them(number: float) -> None:
    assert resolve(repr(number)) == number


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        value = resolve(text)
    except ScalarError:
        return
    assert value is None or isinstance(value, bool | int | float) or value == text
