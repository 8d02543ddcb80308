"""How long a trace takes, against torch.distributed._tools.MemTracker on the same code in the same run.

    python -m benchmarks.trace [RUNS]

Both run real code on fake tensors: the KL of ddtree.yaml at full size (24,576 x 248,320), whole and in 24 chunks, and
forward and backward of a causal language model of 1.2 billion parameters (4 x 2,048 tokens). Printed are the medians,
the ratio, and the peaks that each reports; those of MemTracker are not rounded to blocks, and contain what a dispatch
mode does to autograd. Last, `membudget trace ddtree.yaml` in a fresh interpreter, the import of torch included
(target: under 3 s on an idle machine).
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed._tools.mem_tracker import MemTracker

from benchmarks.causal_lm import CausalLM, Shape
from membudget.allocator import block_bytes
from membudget.trace.tracing import DEVICE, faking, observed, observing
from membudget.units import format_both

TOKENS, VOCAB = 24_576, 248_320
BATCH, LENGTH = 4, 2048
COMMAND_TARGET_SECONDS = 3.0

Step = Callable[[], Tensor]
Setup = Callable[[str], tuple[Step, list[Any]]]
"""Builds a step on a device; returns it and what exists before it."""


def kl(logits: Tensor, targets: Tensor) -> Tensor:
    return F.kl_div(logits.log_softmax(-1), targets.softmax(-1), reduction="sum")


def whole_loss(device: str) -> tuple[Step, list[Any]]:
    logits, targets = _logits(device)
    return lambda: kl(logits, targets), [logits, targets]


def chunked_loss(device: str) -> tuple[Step, list[Any]]:
    logits, targets = _logits(device)

    def step() -> Tensor:
        pieces = zip(torch.split(logits, 1024), torch.split(targets, 1024), strict=True)
        return torch.stack([kl(x, t) for x, t in pieces]).sum()

    return step, [logits, targets]


def _logits(device: str) -> tuple[Tensor, Tensor]:
    logits = torch.empty(TOKENS, VOCAB, dtype=torch.bfloat16, device=device).requires_grad_()
    return logits, torch.empty(TOKENS, VOCAB, dtype=torch.bfloat16, device=device)


def language_model(device: str) -> tuple[Step, list[Any]]:
    model = CausalLM(Shape(), device)
    ids = torch.zeros(BATCH, LENGTH, dtype=torch.int64, device=device)
    return lambda: model(ids), [model, ids]


def traced(setup: Setup) -> tuple[float, int]:
    """Seconds, and the peak in bytes beyond what was there before."""
    with faking():
        step, _ = setup(DEVICE)
        start = time.perf_counter()
        with observing({}) as observer:
            torch.autograd.backward(step())
            timeline, _ = observed(observer, block_bytes, [])
        return time.perf_counter() - start, timeline.peak().nbytes


def tracked(setup: Setup) -> tuple[float, int]:
    """The same by MemTracker, which is told of what was there before."""
    with FakeTensorMode():
        step, external = setup("cpu")
        start = time.perf_counter()
        tracker = MemTracker()
        tracker.track_external(*external)
        with tracker:
            torch.autograd.backward(step())
        seconds = time.perf_counter() - start
        peak_bytes = tracker.get_tracker_snapshot("peak")[torch.device("cpu")]["Total"]
        outside = sum(_external_bytes(each) for each in external)
    return seconds, peak_bytes - outside


def _external_bytes(value: Any) -> int:
    tensors = [value] if isinstance(value, Tensor) else list(value.parameters())
    return sum(tensor.untyped_storage().nbytes() for tensor in tensors)


def compare(name: str, setup: Setup, runs: int) -> None:
    """Print medians, ratio and both peaks; the two take turns, and the first turn is not counted."""
    turns = [(traced(setup), tracked(setup)) for _ in range(runs + 1)][1:]
    trace_seconds = statistics.median(turn[0][0] for turn in turns)
    tracker_seconds = statistics.median(turn[1][0] for turn in turns)
    (_, trace_bytes), (_, tracker_bytes) = turns[0]
    print(
        f"{name}: trace / MemTracker {trace_seconds / tracker_seconds:.2f} "
        f"({trace_seconds * 1000:.0f} ms / {tracker_seconds * 1000:.0f} ms); peak beyond inputs "
        f"{format_both(trace_bytes)} (trace), {format_both(tracker_bytes)} (MemTracker)"
    )


def main() -> int:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    compare("kl of ddtree, whole", whole_loss, runs)
    compare("kl of ddtree, 24 chunks", chunked_loss, runs)
    compare("causal language model, 1.2 B", language_model, runs)
    seconds = []
    for _ in range(runs):
        start = time.perf_counter()
        subprocess.run([sys.executable, "-m", "membudget", "trace", "ddtree.yaml"], check=True, capture_output=True)
        seconds.append(time.perf_counter() - start)
    met = statistics.median(seconds) < COMMAND_TARGET_SECONDS
    print(
        f"membudget trace ddtree.yaml: {statistics.median(seconds):.2f} s "
        f"(target {COMMAND_TARGET_SECONDS:g} s) {'ok' if met else 'MISSED'}"
    )
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
