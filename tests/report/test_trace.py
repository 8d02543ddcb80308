"""The formats of `trace`."""

from __future__ import annotations

import json

import pytest

from membudget.report import trace_json, trace_table
from membudget.report.screen import Screen
from membudget.report.trace_rows import MOST_ROWS, rows_of, split_line, text_of_line
from membudget.timeline import Recorder
from membudget.trace.result import Finding, Trace
from tests.report.golden import assert_golden

GB = 10**9


def sample(*, same: bool | None = None, extra_lines: int = 0) -> Trace:
    """Four chunks of 1 GB held by one line, a gradient without a line in backward."""
    recorder = Recorder("forward")
    for _ in range(4):
        recorder.allocate("log_softmax", "loss", GB, shape=(512, 1000), dtype="bf16", line="/src/losses.py:7")
    for number in range(extra_lines):
        recorder.allocate(f"scalar {number}", "loss", 512, line=f"/src/losses.py:{number + 10}")
    recorder.phase("backward")
    recorder.allocate("gradient", "loss", 2 * GB, provenance="modelled")
    finding = Finding("loop_holds", "/src/losses.py", 6, 8, 4 * GB, "held memory is not reduced by this loop: 6-8")
    return Trace(
        name="losses.py:kl",
        settings="2,048 tokens x 1,000 vocab, bf16",
        timeline=recorder.build(),
        findings=(finding,),
        plan_peak_bytes=None if same is None else 6 * GB,
        equals_plan=same,
        notes=("a note",),
    )


@pytest.mark.parametrize("width", [80, 120])
def test_table(width: int) -> None:
    assert_golden(f"trace_{width}.txt", trace_table.render(sample(same=True), Screen(width)))


def test_only_lines() -> None:
    text = trace_table.render(sample(), Screen(80, only_lines=True))
    assert text.splitlines()[0] == "losses.py:kl: peak 6.00 GB = 5.59 GiB (6,000,000,000 B) in loss backward"
    assert [line.split() for line in text.splitlines()[3:]] == [
        ["/src/losses.py:7", "4.00", "4,000,000,000", "67", "%"],
        ["no", "line", "of", "yours", "2.00", "2,000,000,000", "33", "%"],
    ]


def test_a_difference_from_the_plan_is_said() -> None:
    text = trace_table.render(sample(same=False), Screen(80))
    assert "DIFFERS from plan's loss section, whose peak is 6.00 GB" in " ".join(text.split())
    assert "plan's loss section" not in trace_table.render(sample(), Screen(80))


def test_many_small_items_are_one_row() -> None:
    text = trace_table.render(sample(extra_lines=MOST_ROWS + 5), Screen(80))
    assert "7 smaller items" in text


def test_json() -> None:
    document = json.loads(trace_json.render(sample(same=True), Screen()))
    assert {
        key: document[key] for key in ("held_bytes", "forward_peak_bytes", "backward_peak_bytes", "peak_bytes")
    } == {
        "held_bytes": 4 * GB,
        "forward_peak_bytes": 4 * GB,
        "backward_peak_bytes": 6 * GB,
        "peak_bytes": 6 * GB,
    }
    assert document["peak_phase"] == "backward"
    assert document["lines"] == [
        {"file": "/src/losses.py", "line": 7, "bytes": 4 * GB},
        {"file": "", "line": 0, "bytes": 2 * GB},
    ]
    assert [(item["name"], item["count"], item["bytes"]) for item in document["items"]] == [
        ("log_softmax", 4, 4 * GB),
        ("gradient", 1, 2 * GB),
    ]
    assert document["plan"] == {"peak_bytes": 6 * GB, "same_sequence": True}


def test_rows_keep_every_byte() -> None:
    trace = sample(extra_lines=3)
    assert sum(row.nbytes for row in rows_of(trace.at_peak)) == trace.peak.nbytes


def test_lines_are_shown_from_the_working_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.getcwd", lambda: "/src")
    assert split_line("/src/losses.py:7") == ("losses.py", 7)
    assert text_of_line("/other/losses.py:7") == "/other/losses.py:7"
    assert text_of_line("") == "no line of yours"
