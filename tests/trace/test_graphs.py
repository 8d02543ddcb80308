"""Graphs that no loss has, traced: against the CPU allocator, and where a CPU casts, against the engine."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from membudget.allocator import block_bytes
from membudget.losses.torch_ops import DTYPES, TorchOps
from membudget.sequence import canonical, signed_bytes
from membudget.sized.namespace import SizedOps
from membudget.timeline import Recorder, Timeline
from membudget.trace.tracing import DEVICE, faking, observed, observing
from tests.allocator_events import explain_difference
from tests.sized.test_graphs import GRAPHS, SHAPES, Program, allocator_of_graph
from tests.sized.test_random_graphs import ENDS, apply, steps
from tests.trace.comparing import without_scalars

TWO_DTYPES = {"minimum of two dtypes", "a column of another dtype"}
"""Graphs in which a CPU copies an operand to the other's dtype; a GPU casts as it reads."""


def traced_graph(program: Program, dtype: str, *, blocks: bool) -> Timeline:
    with faking():
        leaves = [torch.empty(shape, dtype=DTYPES[dtype], device=DEVICE).requires_grad_() for shape in SHAPES]
        with observing({}) as observer:
            torch.autograd.backward(program(TorchOps(), *leaves))
            timeline, _ = observed(observer, block_bytes if blocks else lambda nbytes: nbytes, [])
    return timeline


def engine_on_cuda(program: Program, dtype: str) -> Timeline:
    recorder = Recorder()
    ops = SizedOps(recorder, "cuda")
    leaves = [ops.external(name, shape, dtype, requires_grad=True) for name, shape in zip("abw", SHAPES, strict=True)]
    ops.run_backward(program(ops, *leaves))
    return recorder.build()


def assert_equals_the_allocator(program: Program) -> None:
    allocator = without_scalars(allocator_of_graph(program))
    traced = without_scalars(signed_bytes(traced_graph(program, "fp32", blocks=False)))
    assert traced == allocator, explain_difference(allocator, traced)


def assert_equals_the_engine(program: Program, dtype: str) -> None:
    engine = canonical(signed_bytes(engine_on_cuda(program, dtype)))
    traced = canonical(signed_bytes(traced_graph(program, dtype, blocks=True)))
    assert traced == engine, explain_difference(engine, traced)


@pytest.mark.parametrize("name", sorted(set(GRAPHS) - TWO_DTYPES))
def test_graph(name: str) -> None:
    assert_equals_the_allocator(GRAPHS[name])


@pytest.mark.parametrize("dtype", ["fp32", "bf16", "fp16"])
@pytest.mark.parametrize("name", GRAPHS)
def test_graph_on_cuda(name: str, dtype: str) -> None:
    assert_equals_the_engine(GRAPHS[name], dtype)


@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(
    steps=st.lists(steps, min_size=1, max_size=8),
    end=st.sampled_from(list(ENDS)),
    size=st.sampled_from([1, 5, 6, 12]),
    dtype=st.sampled_from(["fp32", "bf16", "fp16"]),
)
def test_random_graphs(steps: list[tuple[str, int, int]], end: str, size: int, dtype: str) -> None:
    def program(ops: Any, a: Any, b: Any, w: Any) -> Any:
        values = [a, b]
        for name, x, y in steps:
            values.append(apply(ops, name, values[x % len(values)], values[y % len(values)]))
        total = ops.sum_all(values[len(values) // 2])
        for part in ENDS[end](ops, values[-1], size):
            total = ops.add(total, ops.sum_all(part))
        return total

    if dtype == "fp32":
        assert_equals_the_allocator(program)
    assert_equals_the_engine(program, dtype)
