"""The formats of `probe`, and what a plan says of a measurement."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from membudget.calculator.result import MeasuredLoss
from membudget.probe.checking import Tolerance, check_measurement
from membudget.probe.measurement import Measurement, Row
from membudget.probe.probing import Options
from membudget.report import probe_json, probe_table
from membudget.report.measured_words import measured_lines
from membudget.report.probe_result import ProbeReport
from membudget.report.probe_table import percent_apart
from membudget.report.screen import Screen
from tests.probe.examples import FakeDevice, measured
from tests.report.golden import assert_golden

WANTED = (("whole", None), ("fused_head_grad_in_forward", 8), ("fused_kernel", None), ("liger", None))


def row(measured_bytes: int, predicted_bytes: int, method: str = "whole") -> Row:
    return Row(
        terms=("kl",),
        method=method,  # type: ignore[arg-type]
        status="measured",
        predicted_bytes=predicted_bytes,
        measured_bytes=measured_bytes,
        difference_bytes=measured_bytes - predicted_bytes,
    )


def with_rows(*rows: Row) -> ProbeReport:
    return ProbeReport(measured().model_copy(update={"rows": rows}))


def one_line(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize("width", [80, 120])
def test_golden(width: int) -> None:
    measurement = measured(FakeDevice(excess=512, others=("others use this GPU",)), WANTED)
    assert_golden(f"probe_{width}.txt", probe_table.render(ProbeReport(measurement), Screen(width)))


def test_golden_of_a_part_of_the_tokens() -> None:
    measurement = measured(FakeDevice(free_bytes=400_000, excess=512), WANTED[:1], Options(scale=4))
    assert_golden("probe_part_100.txt", probe_table.render(ProbeReport(measurement), Screen(100)))


@pytest.mark.parametrize(
    ("apart", "text"),
    [(0, "0"), (1, "<0.01"), (-1, ">-0.01"), (5_000, "+0.50"), (-5_000, "-0.50"), (10**6, "+100.00")],
)
def test_per_cent_of_what_was_measured(apart: int, text: str) -> None:
    assert percent_apart(row(10**6, 10**6 - apart)) == text


def test_rows_without_a_measurement_have_no_difference() -> None:
    assert percent_apart(Row(terms=("kl",), method="whole", status="skipped")) == ""
    assert percent_apart(row(0, 0)) == "0"
    assert percent_apart(row(0, 5)) == "-500.00"


def test_nothing_measured_is_said() -> None:
    text = probe_table.render(ProbeReport(measured(FakeDevice(free_bytes=0))), Screen(120))
    assert text.endswith("nothing was measured\n")


def test_an_equal_peak_with_other_events_is_said() -> None:
    same = row(5, 5).model_copy(update={"same_events": True})
    other = row(5, 5, "cpu").model_copy(update={"same_events": False})
    text = one_line(probe_table.render(with_rows(same, other), Screen(120)))
    assert "cpu: the peak is the predicted one, but not every allocation and free on the way to it" in text
    assert "every allocation and free is the predicted one" not in text
    text = one_line(probe_table.render(with_rows(same), Screen(120)))
    assert text.endswith("every allocation and free is the predicted one, in order")


def test_the_host_of_a_cpu_is_explained() -> None:
    report = ProbeReport(measured(FakeDevice(kind="cpu"), (("cpu", None),)))
    assert "host and device are one here" in probe_table.render(report, Screen(120))


def test_a_prediction_that_moved_is_said() -> None:
    measurement = measured()
    old = measurement.rows[0].model_copy(update={"predicted_bytes": 7})
    checked = check_measurement(measurement.model_copy(update={"rows": (old,)}), Tolerance())
    text = one_line(probe_table.render(ProbeReport(checked.measurement, checked), Screen(120)))
    assert "whole: the prediction was 7 B when it was measured" in text
    assert text.endswith("1 measured row, within a tolerance of 0 B")


@settings(max_examples=40, deadline=None)
@given(
    sizes=st.lists(st.tuples(st.integers(0, 10**15), st.integers(0, 10**15)), min_size=1, max_size=5),
    width=st.integers(1, 200),
)
def test_no_number_is_cut_at_any_width(sizes: list[tuple[int, int]], width: int) -> None:
    report = with_rows(*(row(measured, predicted) for measured, predicted in sizes))
    words = set(re.split(r"\s+", probe_table.render(report, Screen(width))))
    wanted = {number for pair in sizes for number in (*pair, pair[0] - pair[1])}
    assert {f"{number:,}" for number in wanted} <= words


def test_names_are_never_markup() -> None:
    report = ProbeReport(measured(FakeDevice(name="[red]GPU [0]")))
    assert "on [red]GPU [0], driver CUDA 13.0" in probe_table.render(report, Screen(120))


def test_json_is_the_file() -> None:
    measurement = measured()
    text = probe_json.render(ProbeReport(measurement), Screen())
    document = json.loads(text)
    assert Measurement.model_validate_json(text) == measurement
    assert [document[key] for key in ("schema_version", "device", "driver", "torch")] == [
        1,
        "Fake GPU",
        "CUDA 13.0",
        "2.13.0",
    ]
    contract = {
        "terms": ["kl"],
        "method": "fused_head",
        "chunk": 8,
        "predicted_bytes": measurement.rows[1].predicted_bytes,
        "measured_bytes": measurement.rows[1].measured_bytes,
        "difference_bytes": 0,
        "status": "measured",
        "milliseconds": 2.5,
    }
    assert contract.items() <= document["rows"][1].items()


def test_a_plan_beside_its_measurement() -> None:
    found = MeasuredLoss("m.json", "GPU", "fused_head", 4096, 1000, 1512)
    assert measured_lines(found) == [
        "measurement m.json: loss section alone, fused_head, chunk 4,096: predicted 1,000 B, measured 1,512 B, "
        "+512 bytes apart",
        "measured on GPU",
    ]
    nothing = MeasuredLoss("m.json", "GPU", "whole", None, reason="nothing in it")
    assert measured_lines(nothing) == ["measurement m.json: nothing in it"]
