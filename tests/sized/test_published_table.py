"""Held memory and peaks of eager losses in units of one bf16 logits tensor, beyond the logits and targets.

Measured with the CPU allocator's own events at 512 tokens x 16,384 entries, 8 chunks, leaf logits in bf16; the
TV row was also measured on a GPU (9 units). Both the engine and the allocator must give every cell.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate
from typing import Any

import pytest
import torch

from membudget.losses.torch_ops import TorchOps
from membudget.programs.section import LOGITS_METHODS
from membudget.programs.terms import TermSettings
from membudget.sized.namespace import SizedOps
from membudget.timeline import Recorder
from tests.allocator_events import timeline_events, torch_events

TOKENS, VOCAB, NUM_CHUNKS = 512, 16_384, 8
UNIT_BYTES = TOKENS * VOCAB * 2

ROWS: dict[str, tuple[str, dict[str, Any], str, tuple[float, float, float]]] = {
    "CE": ("cross_entropy", {}, "whole", (1, 1, 3)),
    "CE upcast": ("cross_entropy", {"upcast": True}, "whole", (2, 4, 6)),
    "KL native": ("kl", {}, "whole", (2, 5, 5)),
    "KL fp32": ("kl", {"softmax_dtype": "fp32"}, "whole", (4, 10, 10)),
    "reverse KL fp32": ("reverse_kl", {"softmax_dtype": "fp32"}, "whole", (6, 10, 10)),
    "TV fp32": ("tv", {"softmax_dtype": "fp32"}, "whole", (4, 6, 9)),
    "KL fp32, 8 slices": ("kl", {"softmax_dtype": "fp32"}, "chunked_slices", (4, 4.75, 5.125)),
    "KL fp32, 8 splits": ("kl", {"softmax_dtype": "fp32"}, "chunked", (4, 4.75, 4.75)),
    "KL fp32, 8 slices, checkpoint": ("kl", {"softmax_dtype": "fp32"}, "slices_checkpoint", (0, 1.25, 2.125)),
    "KL fp32, 8 splits, checkpoint": ("kl", {"softmax_dtype": "fp32"}, "chunked_checkpoint", (0, 1.25, 2)),
}


def slices_checkpoint(ops: Any, terms: Any, logits: Any, targets: Any, labels: Any, chunk: int, divisor: float) -> Any:
    """The loop people write with slices, a checkpoint around each chunk."""

    def chunk_loss(x: Any, t: Any) -> Any:
        return LOGITS_METHODS["whole"](ops, terms, x, t, None, 0, divisor)

    total = None
    for start in range(0, TOKENS, chunk):
        x, t = (ops.slice_rows(of, start, start + chunk) for of in (logits, targets))
        loss = ops.checkpoint(chunk_loss, x, t)
        total = loss if total is None else ops.add(total, loss)
    return total


def units(nbytes: int) -> float:
    return round(nbytes / UNIT_BYTES, 3)


def method_of(name: str) -> Callable[..., Any]:
    return slices_checkpoint if name == "slices_checkpoint" else LOGITS_METHODS[name]


@pytest.mark.parametrize("row", ROWS)
def test_engine(row: str) -> None:
    term, settings, method, expected = ROWS[row]
    recorder = Recorder("forward")
    ops = SizedOps(recorder, "cpu")
    logits = ops.external("logits", (TOKENS, VOCAB), "bf16", requires_grad=True)
    targets = ops.external("targets", (TOKENS, VOCAB), "bf16")
    labels = ops.external("labels", (TOKENS,), "int64")
    terms = (TermSettings(term, **settings),)
    loss = method_of(method)(ops, terms, logits, targets, labels, TOKENS // NUM_CHUNKS, 1.0)
    held_bytes = recorder.total_bytes
    recorder.phase("backward")
    ops.run_backward(loss)
    timeline = recorder.build()
    forward_peak = timeline.peak(("forward",)).nbytes
    assert (units(held_bytes), units(forward_peak), units(timeline.peak().nbytes)) == expected
    running = list(accumulate(timeline_events(timeline)))
    assert max(running) == timeline.peak().nbytes


@pytest.mark.parametrize("row", ROWS)
def test_allocator(row: str) -> None:
    term, settings, method, expected = ROWS[row]
    ops = TorchOps()
    logits = torch.randn(TOKENS, VOCAB, dtype=torch.bfloat16, requires_grad=True)
    targets = torch.randn(TOKENS, VOCAB, dtype=torch.bfloat16)
    labels = torch.randint(0, VOCAB, (TOKENS,))
    terms = (TermSettings(term, **settings),)
    marker = 12_345

    def step() -> None:
        loss = method_of(method)(ops, terms, logits, targets, labels, TOKENS // NUM_CHUNKS, 1.0)
        torch.empty(marker, dtype=torch.uint8)  # an event that marks the end of forward
        loss.backward()

    events = torch_events(step)
    forward_events = events.index(marker)
    running = list(accumulate(events))
    held, forward_peak = running[forward_events - 1], max(running[:forward_events])
    assert (units(held), units(forward_peak), units(max(running))) == expected
