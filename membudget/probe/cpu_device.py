"""The CPU as a device: the real loss over a small vocabulary and hidden size, scaled to the full ones."""

from __future__ import annotations

from time import perf_counter

import torch

from membudget.calculator.loss_request import LossRequest
from membudget.calculator.section_totals import section_totals
from membudget.errors import CannotMeasureError
from membudget.losses.section import torch_section
from membudget.probe.cpu_events import Phases, recorded, torch_events
from membudget.probe.device import NO_CODE, Sample
from membudget.probe.prediction import Kind, inputs_bytes, predicted
from membudget.probe.scaling import Sizes, at_sizes, scaled, small_sizes
from membudget.timeline import Timeline
from membudget.units import format_gb

SECTION_PHASES = 3
"""targets, forward, backward: the section alone."""

MOST_BYTES = 2 * 10**9
"""What a run at small sizes may take, so that it takes no machine down."""

LITTLE_WORK = 10**9
"""Multiplications of one product of hidden states and head that a CPU does in a moment."""

MISSING = {
    "fused_kernel": NO_CODE,
    "compiled": "priced by rule (modelled): what torch.compile makes of a loss for a CPU says nothing about CUDA",
}
"""Methods that do not run here, and why."""


class CpuDevice:
    """Tokens and chunks at full size, vocabulary and hidden size small; see scaling."""

    kind: Kind = "cpu"
    name = "CPU allocator"
    driver = None
    torch_version = str(torch.__version__)
    method = "real code on the CPU at a reduced size, scaled; CPU allocator, no 512-byte blocks"

    def __init__(self) -> None:
        # The profiler's first start takes a second or two; they are no part of the first row's time.
        torch_events(lambda: None)

    def warnings(self) -> list[str]:
        return []

    def missing(self, method: str) -> str:
        return MISSING.get(method, "")

    def refusal(self, request: LossRequest) -> str:
        """Many tokens, or a kl_topk that needs a large vocabulary, are too much even at the small sizes."""
        largest = at_sizes(request, small_sizes(request)[-1])
        needed = inputs_bytes(largest) + section_totals(predicted(largest, "cpu")).peak_bytes
        if needed <= MOST_BYTES:
            return ""
        return f"even at a reduced size it takes {format_gb(needed)}; the most is {format_gb(MOST_BYTES)}"

    def run(self, request: LossRequest) -> Sample:
        """Scaled; a method that chooses chunks by vocabulary or hidden size only as it is, if that is little work."""
        try:
            return _scaled_run(request)
        except CannotMeasureError:
            if request.tokens * request.vocab * request.hidden > LITTLE_WORK:
                raise
            start = perf_counter()
            (timeline,) = recorded([_section_alone(request)])
            return _sample(timeline, perf_counter() - start)


def _scaled_run(request: LossRequest) -> Sample:
    sizes = small_sizes(request)
    start = perf_counter()
    timelines = recorded(_section_alone(at_sizes(request, each)) for each in sizes)
    seconds = (perf_counter() - start) / len(sizes)
    return _sample(scaled(timelines, sizes, Sizes(request.vocab, request.hidden)), seconds)


def _sample(timeline: Timeline, seconds: float) -> Sample:
    totals = section_totals(timeline)
    return Sample(totals.peak_bytes, totals.held_bytes, 1000 * seconds, timeline=timeline)


def _section_alone(request: LossRequest) -> Phases:
    return torch_section(request).phases()[:SECTION_PHASES]
