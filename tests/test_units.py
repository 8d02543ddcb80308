from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from membudget.errors import ExitCode, SizeError
from membudget.units import (
    GB,
    GIB,
    MAX_BYTES,
    UNITS,
    format_both,
    format_exact,
    format_gb,
    format_gib,
    format_pair,
    parse_size,
)

BOTH = 'write "95 GB" (95,000,000,000 bytes) or "95 GiB" (102,005,473,280 bytes)'
OTHERWISE = "spelled otherwise (a small b can mean bits)"
EXAMPLE = 'write a number and a unit, such as "95 GB" or "95 GiB"'


@pytest.mark.parametrize(
    ("text", "nbytes"),
    [
        ("0 B", 0),
        ("95 GB", 95_000_000_000),
        ("95GB", 95_000_000_000),
        ("95 GiB", 102_005_473_280),
        ("94.97 GB", 94_970_000_000),
        ("0.5 GiB", 536_870_912),
        ("1.5 kB", 1500),
        ("1.5 KB", 1500),
        ("512 MiB", 536_870_912),
        ("12205424640 B", 12_205_424_640),
        ("007 MB", 7_000_000),
        ("1.000000001 GB", 1_000_000_001),
        ("1000000 TB", MAX_BYTES),
    ],
)
def test_a_size_is_read_exactly(text: str, nbytes: int) -> None:
    assert parse_size(text) == nbytes


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("95", f'"95" is not a size: it has no unit; {BOTH}'),
        ("95G", f'"95G" is not a size: the unit "G" lacks its B; {BOTH}'),
        ("95Gi", f'"95Gi" is not a size: the unit "Gi" lacks its B; {BOTH}'),
        ("95.GB", f'"95.GB" is not a size: digits are missing after the point; {BOTH}'),
        (
            "95gb",
            f'"95gb" is not a size: the unit "gb" is {OTHERWISE}; {BOTH}',
        ),
        ("95 GB per gpu", f'"95 GB per gpu" is not a size: " per gpu" after the unit is not read; {BOTH}'),
        ("95GB/s", f'"95GB/s" is not a size: "/s" after the unit is not read; {BOTH}'),
        ("95GB\n", f'"95GB\\n" is not a size: "\\n" after the unit is not read; {BOTH}'),
        ("95  GB", f'"95  GB" is not a size: at most one space goes between; {BOTH}'),
        (
            "1,000MB",
            '"1,000MB" is not a size: separators between digits are not read; '
            'write "1000 MB" (1,000,000,000 bytes) or "1000 MiB" (1,048,576,000 bytes)',
        ),
        (
            ".5 GB",
            '".5 GB" is not a size: digits are missing before the point; '
            'write "0.5 GB" (500,000,000 bytes) or "0.5 GiB" (536,870,912 bytes)',
        ),
        (
            "95 PB",
            '"95 PB" is not a size: "PB" is not a unit (B, kB, MB, GB, TB, KiB, MiB, GiB, TiB); ' + EXAMPLE,
        ),
        (
            "95 b",
            f'"95 b" is not a size: the unit "b" is {OTHERWISE}; write "95 B"',
        ),
        ("-1 GB", '"-1 GB" is not a size: a size cannot be negative'),
        ("nan GB", f'"nan GB" is not a size: it does not begin with a number; {EXAMPLE}'),
        (" 95 GB", f'" 95 GB" is not a size: it does not begin with a number; {EXAMPLE}'),
        ("", f'"" is not a size: it does not begin with a number; {EXAMPLE}'),
        ("1e999999999 GB", f'"1e999999999 GB" is not a size: an exponent is not read; {EXAMPLE}'),
        ("\u0669\u0665 GB", f'"\u0669\u0665 GB" is not a size: only the digits 0 to 9 are read; {EXAMPLE}'),
        (
            "95\x1b[31m",
            '"95\\x1b[31m" is not a size: "\\x1b[31m" is not a unit (B, kB, MB, GB, TB, KiB, MiB, '
            f"GiB, TiB); {EXAMPLE}",
        ),
        ("9" * 1000 + " GB", f"this is 1,003 characters long, too long for a size; {EXAMPLE}"),
        ("1000000.1 TB", '"1000000.1 TB" is more than 1 EB (10^18 bytes), the most this tool reads'),
        ("1.5 B", '"1.5 B" is 1.5 bytes, not a whole number of bytes'),
        ("0.1 GiB", '"0.1 GiB" is 107,374,182.4 bytes, not a whole number of bytes'),
        ("102005473280", '"102005473280" is not a size: it has no unit; for bytes write "102005473280 B"'),
        (95, f"95 has no unit; {BOTH}"),
        (95.0, f"95 has no unit; {BOTH}"),
        (0.1, '0.1 has no unit; write "0.1 GB" (100,000,000 bytes)'),
        (102_005_473_280, '102005473280 has no unit; for bytes write "102005473280 B"'),
        (-1, "a size cannot be negative"),
        (float("nan"), f"this number is not a size; {EXAMPLE}"),
        (float("inf"), f"this number is not a size; {EXAMPLE}"),
        (True, f"true is not a size; {EXAMPLE}"),
        (None, f"nothing is given; {EXAMPLE}"),
        ([95], f"a list is not a size; {EXAMPLE}"),
        ({"GB": 95}, f"a group of keys is not a size; {EXAMPLE}"),
        (b"95 GB", f"this value is not a size; {EXAMPLE}"),
    ],
)
def test_what_is_refused_says_why_and_what_to_write(value: object, message: str) -> None:
    with pytest.raises(SizeError) as error:
        parse_size(value)
    assert str(error.value) == message


def test_a_number_too_long_to_print_is_refused() -> None:
    with pytest.raises(SizeError, match="this number is not a size"):
        parse_size(10**5000)


def test_a_refused_size_is_bad_input_and_a_value_error() -> None:
    assert SizeError.exit_code == ExitCode.BAD_INPUT
    assert issubclass(SizeError, ValueError)


def test_a_fraction_too_fine_for_a_byte_is_refused_and_not_rounded() -> None:
    """Arithmetic with 28 digits would round this to one byte."""
    with pytest.raises(SizeError, match="not a whole number of bytes"):
        parse_size("1." + "0" * 40 + "1 B")


@given(st.integers(0, 10**9), st.text("0123456789", max_size=12), st.sampled_from(sorted(UNITS)))
def test_reading_is_exact_for_any_digits(whole: int, fraction: str, unit: str) -> None:
    text = f"{whole}.{fraction} {unit}" if fraction else f"{whole} {unit}"
    scaled = int(f"{whole}{fraction}") * UNITS[unit]
    is_whole = scaled % 10 ** len(fraction) == 0
    if is_whole and scaled <= MAX_BYTES * 10 ** len(fraction):
        assert parse_size(text) == scaled // 10 ** len(fraction)
    else:
        with pytest.raises(SizeError):
            parse_size(text)


def answer(value: object) -> int | str:
    """The size, or the text of the refusal."""
    try:
        return parse_size(value)
    except SizeError as error:
        return str(error)


@given(st.text())
def test_only_what_the_grammar_says_is_read(text: str) -> None:
    read = answer(text)
    if isinstance(read, int):
        assert re.fullmatch(r"[0-9]+(\.[0-9]+)? ?([kK]?B|[MGT]B|[KMGT]iB)", text)
        assert 0 <= read <= MAX_BYTES
    else:
        assert read.isprintable()


ALMOST_SIZES = r"[-+]?[0-9][0-9_,]{0,5}\.?[0-9]{0,3}[ \t]{0,2}[A-Za-z]{0,4}[ /a-z]{0,4}"


@given(st.from_regex(ALMOST_SIZES, fullmatch=True))
def test_a_suggested_size_is_read_and_is_as_large_as_it_says(text: str) -> None:
    for suggestion, nbytes in re.findall(r'"([^"]+)" \(([0-9,]+) bytes\)', str(answer(text))):
        assert parse_size(suggestion) == int(nbytes.replace(",", ""))


def test_formats() -> None:
    logits_bytes = 24_576 * 248_320 * 2
    assert format_gb(logits_bytes) == "12.21 GB"
    assert format_gib(logits_bytes) == "11.37 GiB"
    assert format_both(95 * GB) == "95.00 GB = 88.48 GiB"
    assert format_exact(logits_bytes) == "12,205,424,640 B"


def test_a_margin_keeps_its_sign() -> None:
    assert format_gb(-12_205_424_640) == "-12.21 GB"
    assert format_both(-95 * GB) == "-95.00 GB = -88.48 GiB"
    assert format_exact(-1) == "-1 B"


def test_what_is_not_zero_never_reads_as_zero() -> None:
    assert format_gb(0) == "0.00 GB"
    assert format_gb(1) == "< 0.01 GB"
    assert format_gib(-1) == "> -0.01 GiB"
    assert format_both(0) == "0.00 GB = 0.00 GiB"
    assert format_both(4_000_000) == "4,000,000 B"


def test_a_pair_that_differs_is_never_shown_as_equal() -> None:
    assert format_pair(95 * GB, 96 * GB, format_gb) == ("95.00 GB", "96.00 GB")
    assert format_pair(95 * GB, 95 * GB + 1, format_gb) == ("95,000,000,000 B", "95,000,000,001 B")
    assert format_pair(95 * GB, 95 * GB, format_gb) == ("95.00 GB", "95.00 GB")


@given(st.integers(-MAX_BYTES, MAX_BYTES), st.integers(-(10**8), 10**8))
def test_pairs_read_differently_exactly_when_they_differ(left: int, difference: int) -> None:
    texts = format_pair(left, left + difference)
    assert (texts[0] == texts[1]) == (difference == 0)


@given(st.integers(0, 10**10))
def test_exact_multiples_survive_formatting_and_reading(hundredths: int) -> None:
    nbytes = hundredths * GB // 100
    if nbytes <= MAX_BYTES:
        assert parse_size(format_gb(nbytes)) == nbytes


@given(st.integers(0, 10**8))
def test_whole_gib_survive_formatting_and_reading(gib: int) -> None:
    assert parse_size(format_gib(gib * GIB)) == gib * GIB


@given(st.integers(-MAX_BYTES, MAX_BYTES))
def test_a_rounded_size_is_within_half_of_its_last_digit(nbytes: int) -> None:
    if abs(nbytes) >= GB:
        hundredths = round(float(format_gb(nbytes).removesuffix(" GB")) * 100)
        # Beyond 2^53 the float in between adds a little.
        assert abs(hundredths * GB - 100 * nbytes) <= GB // 2 + abs(nbytes) // 2**40
