"""--check: today's predictions against what was measured, within a tolerance."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from membudget.errors import UsageError
from membudget.probe.checking import Tolerance, check_measurement, parse_tolerance
from membudget.probe.measurement import Measurement
from membudget.probe.probing import Options
from tests.probe.examples import FakeDevice, measured


@pytest.mark.parametrize(
    ("text", "allowed", "refused", "shown"),
    [
        ("0", 0, 1, "0 B"),
        ("0%", 0, 1, "0 B"),
        ("1%", 10_000, 10_001, "1 %"),
        ("0.5 %", 5000, 5001, "0.5 %"),
        ("100%", 10**6, 10**6 + 1, "100 %"),
        ("0.0001%", 1, 2, "0.0001 %"),
        ("1 kB", 1000, 1001, "1,000 B"),
        ("512 B", 512, 513, "512 B"),
    ],
)
def test_tolerances(text: str, allowed: int, refused: int, shown: str) -> None:
    tolerance = parse_tolerance(text)
    assert str(tolerance) == shown
    for sign in (1, -1):
        assert tolerance.allows(sign * allowed, 10**6)
        assert not tolerance.allows(sign * refused, 10**6)


@pytest.mark.parametrize("text", ["", "1", "%", "-1%", "1 percent", "1e3%", "abc", "10 XB", "1%%", " 1%", "\u0661%"])
def test_not_a_tolerance(text: str) -> None:
    with pytest.raises(UsageError, match=r'--tolerance: .* neither a percentage nor a size; write "1%" of what was'):
        parse_tolerance(text)


def test_more_than_everything() -> None:
    with pytest.raises(UsageError, match='--tolerance: "101%" is more than all of it'):
        parse_tolerance("101%")


@given(st.text(max_size=60).filter(lambda text: text.strip("0123456789.% kKMGTiB") != ""))
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--tolerance: "):
        parse_tolerance(text)


@given(st.text("0123456789.% kMGiB", max_size=9))
def test_texts_like_tolerances_are_read_or_refused(text: str) -> None:
    with suppress(UsageError):
        assert parse_tolerance(text).allows(0, 0)


def test_equal_passes() -> None:
    checked = check_measurement(measured(), Tolerance())
    assert (checked.passed, checked.parted, checked.moved) == (True, (), ())


def test_what_parts_is_named() -> None:
    measurement = measured(FakeDevice(excess=512))
    checked = check_measurement(measurement, Tolerance())
    assert [row.method for row in checked.parted] == ["whole", "fused_head"]
    assert check_measurement(measurement, Tolerance(nbytes=512)).passed
    # 512 B are far more of what the fused head takes than of what the whole logits take.
    shares = sorted(512 / (row.measured_bytes or 1) for row in measurement.rows)
    between = parse_tolerance(f"{50 * (shares[0] + shares[1]):.6f}%")
    assert [row.method for row in check_measurement(measurement, between).parted] == ["fused_head"]


def test_the_engine_of_today_judges_not_the_prediction_in_the_file() -> None:
    measurement = measured()
    row = measurement.rows[0]
    assert row.predicted_bytes is not None
    old = row.model_copy(update={"predicted_bytes": row.predicted_bytes + 512, "difference_bytes": -512})
    checked = check_measurement(measurement.model_copy(update={"rows": (old,)}), Tolerance())
    assert checked.passed
    assert checked.measurement.rows == (row,)
    assert checked.moved == ((row, row.predicted_bytes + 512),)


def test_parts_of_the_tokens_are_predicted_as_parts() -> None:
    measurement = measured(FakeDevice(free_bytes=400_000), (("whole", None),), Options(scale=4))
    assert measurement.rows[0].scale == 4
    assert check_measurement(measurement, Tolerance()).passed


def test_cpu_measurements_follow_the_rules_of_the_cpu() -> None:
    measurement = measured(FakeDevice(kind="cpu"))
    assert check_measurement(measurement, Tolerance()).passed
    as_cuda = Measurement.model_validate({**dict(measurement), "kind": "cuda"})
    assert not check_measurement(as_cuda, Tolerance()).passed


def test_nothing_measured_is_nothing_to_check() -> None:
    with pytest.raises(UsageError, match="nothing to check: no row of this file was measured"):
        check_measurement(measured(FakeDevice(free_bytes=0)), Tolerance())
