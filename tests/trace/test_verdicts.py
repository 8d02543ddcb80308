"""Three losses of users, in plain PyTorch, and what the trace says of each."""

from __future__ import annotations

from pathlib import Path

import pytest

from membudget.trace.arguments import Sizes
from membudget.trace.function import trace_target
from membudget.trace.result import Trace

LOSSES = Path(__file__).parent / "losses"
TOKENS, VOCAB = 512, 4096
FULL_BYTES = TOKENS * VOCAB * 2
"""One tensor of logits in bf16."""


def traced(name: str, chunk: int = 64) -> Trace:
    return trace_target(f"{LOSSES / name}.py:loss", Sizes(TOKENS, VOCAB), {"chunk": chunk}, ())


def line_of(name: str, text: str) -> int:
    lines = (LOSSES / f"{name}.py").read_text().splitlines()
    (number,) = [index for index, line in enumerate(lines, 1) if text in line]
    return number


def test_summing_chunks_does_not_reduce_what_is_held() -> None:
    trace = traced("sums_chunks")
    (finding,) = trace.findings
    assert finding.kind == "loop_holds"
    assert finding.text.startswith("held memory is not reduced by this loop: ")
    assert (finding.first_line, finding.last_line) == (
        line_of("sums_chunks", "for start in"),
        line_of("sums_chunks", "total = total +"),
    )
    # Two fp32 tensors of full size: log_softmax and softmax of every chunk.
    assert finding.nbytes == 4 * FULL_BYTES
    assert finding.nbytes == traced("sums_chunks", TOKENS).totals.held_bytes // FULL_BYTES * FULL_BYTES
    for text in ("F.log_softmax(", "F.softmax("):
        assert f"line {line_of('sums_chunks', text)} " in finding.text


def test_checkpoints_do() -> None:
    trace = traced("checkpoints")
    (finding,) = trace.findings
    assert finding.kind == "loop_frees"
    assert "not reduced" not in finding.text
    assert trace.totals.held_bytes < FULL_BYTES // 100
    assert finding.first_line == line_of("checkpoints", "for x, t in")


def test_a_metric_that_was_not_detached_holds_its_chunks() -> None:
    trace = traced("keeps_metric")
    holds, left = trace.findings
    lines = [line_of("keeps_metric", text) for text in ("log_q = F.log_softmax", "entropies.append(")]
    assert holds.kind == "loop_holds"
    assert holds.nbytes == left.nbytes == 2 * FULL_BYTES
    assert left.kind == "alive_after_backward"
    assert [left.first_line, left.last_line] == lines
    assert "metric that was not detached" in left.text
    assert str(line_of("keeps_metric", "checkpoint(chunk_loss")) not in holds.text.partition("in all:")[2].split()


@pytest.mark.parametrize("name", ["sums_chunks", "checkpoints"])
def test_nothing_is_left_after_backward(name: str) -> None:
    """But the loss and the gradient of the logits."""
    timeline = traced(name).timeline
    left = [each.nbytes for each in timeline.allocations if each.dies is None]
    assert sorted(left) == [512, FULL_BYTES]


def test_the_lines_of_the_peak_are_those_of_the_loss() -> None:
    owned = dict(traced("sums_chunks", TOKENS).peak_lines)
    file = str(LOSSES / "sums_chunks.py")
    for text in ("F.log_softmax(", "F.softmax("):
        assert owned[f"{file}:{line_of('sums_chunks', text)}"] >= 2 * FULL_BYTES
    assert sum(owned.values()) == traced("sums_chunks", TOKENS).peak.nbytes
