"""Texts of the command line."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from membudget.cli.arguments import choose, parse_count, parse_limit, parse_positive
from membudget.errors import UsageError


@given(st.integers(1, 10**9))
def test_counts_round_trip(number: int) -> None:
    assert parse_count("--n", str(number), 10**9) == number
    assert parse_count("--n", f"{number:_}", 10**9) == number


@given(st.text(max_size=40))
def test_a_count_is_a_number_or_refused(text: str) -> None:
    try:
        number = parse_count("--n", text, 99)
    except UsageError:
        return
    assert 1 <= number <= 99
    assert int(text) == number


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("24,576", '--n: "24,576" is not a whole number; write 24576'),
        ("1e9", '--n: "1e9" is not a whole number; write it like 24576 or 24_576'),
        ("", '--n: "" is not a whole number; write it like 24576 or 24_576'),
        ("-1", '--n: "-1" is not a whole number; write it like 24576 or 24_576'),
        ("1__0", '--n: "1__0" is not a whole number; write it like 24576 or 24_576'),
        ("\u0663", '--n: "\u0663" is not a whole number; write it like 24576 or 24_576'),
        ("0", "--n: must be at least 1"),
        ("100", '--n: "100" is more than 99, the most that is priced'),
        ("9" * 10_000, f'--n: "{"9" * 57}..." is more than 99, the most that is priced'),
    ],
)
def test_counts_that_are_refused(text: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_count("--n", text, 99)
    assert str(caught.value) == message


@given(st.floats(min_value=0, exclude_min=True, allow_infinity=False))
def test_positive_round_trips(number: float) -> None:
    assert parse_positive("--t", repr(number)) == number


def test_limit() -> None:
    assert parse_limit(None) is None
    assert parse_limit("95 GB") == 95 * 10**9
    with pytest.raises(UsageError, match="a limit of nothing fits nothing"):
        parse_limit("0 B")


def test_choose() -> None:
    assert choose("--format", "json", {"json": 1, "table": 2}) == 1
    with pytest.raises(UsageError) as caught:
        choose("--format", "xml", {"json": 1, "table": 2})
    assert str(caught.value) == '--format: no "xml"; choose one of json, table'
