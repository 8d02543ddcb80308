"""Graphs that no loss program has: residuals, shared gradients, other layouts. The CPU allocator judges these too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from membudget.losses.torch_ops import DTYPES, TorchOps
from membudget.sized.namespace import SizedOps
from membudget.timeline import Recorder
from tests.allocator_events import canonical, explain_difference, timeline_events, torch_events

ROWS, COLUMNS, WIDTH = 12, 40, 24
Program = Callable[[Any, Any, Any, Any], Any]
"""(ops, a [12, 40], b [12, 40], w [40, 24]) -> a scalar."""


SHAPES = ((ROWS, COLUMNS), (ROWS, COLUMNS), (COLUMNS, WIDTH))


def assert_graph_agrees(program: Program, dtype: str = "fp32", times: int = 1) -> None:
    """Run the program `times` times on the same leaves, forward and backward, by torch and by the engine."""
    allocator = allocator_of_graph(program, dtype, times)
    assert not (found := difference_of_graph(allocator, program, SizedOps, dtype, times)), found


def allocator_of_graph(program: Program, dtype: str = "fp32", times: int = 1) -> list[int]:
    """What the CPU allocator reports."""
    ops = TorchOps()
    leaves = [torch.randn(shape).to(DTYPES[dtype]).requires_grad_() for shape in SHAPES]

    def real() -> None:
        for _ in range(times):
            torch.autograd.backward(program(ops, *leaves))

    return canonical(torch_events(real))


def difference_of_graph(
    allocator: list[int], program: Program, sized_ops: Callable[..., Any], dtype: str = "fp32", times: int = 1
) -> str:
    """Empty when an engine with the namespace `sized_ops` says the same."""
    recorder = Recorder()
    sized = sized_ops(recorder, "cpu")
    shadows = [
        sized.external(name, shape, dtype, requires_grad=True) for name, shape in zip("abw", SHAPES, strict=True)
    ]
    for _ in range(times):
        sized.run_backward(program(sized, *shadows))
    engine = canonical(timeline_events(recorder.build()))
    assert allocator
    return "" if allocator == engine else explain_difference(allocator, engine)


GRAPHS: dict[str, Program] = {
    # One gradient goes to two leaves: the first copies, the last steals.
    "sum of two leaves": lambda ops, a, b, w: ops.sum_all(ops.exp(ops.add(a, b))),
    "a leaf twice": lambda ops, a, b, w: ops.sum_all(ops.exp(ops.add(a, a))),
    "three leaves of one gradient": lambda ops, a, b, w: ops.sum_all(ops.exp(ops.add(ops.add(a, b), a))),
    "residual": lambda ops, a, b, w: ops.sum_all(ops.exp(ops.add(a, ops.tanh(ops.mul(a, b))))),
    # An expanded gradient has no bytes of its own: nobody may steal or add to it.
    "expanded gradient to a leaf": lambda ops, a, b, w: ops.sum_all(a),
    "expanded gradients added": lambda ops, a, b, w: ops.add(ops.sum_all(a), ops.sum_all(a)),
    "expanded and dense gradients": lambda ops, a, b, w: ops.add(ops.sum_all(a), ops.sum_all(ops.exp(a))),
    "dense and expanded gradients": lambda ops, a, b, w: ops.add(ops.sum_all(ops.exp(a)), ops.sum_all(a)),
    "a chain of dense gradients meets an expanded one": lambda ops, a, b, w: ops.add(
        ops.sum_all(ops.exp(ops.exp(a))), ops.sum_all(a)
    ),
    "expanded gradient to softmax": lambda ops, a, b, w: ops.sum_all(ops.softmax(a)),
    "expanded gradient to log_softmax": lambda ops, a, b, w: ops.sum_all(ops.sum_rows(ops.log_softmax(a))),
    "expanded gradient to a product": lambda ops, a, b, w: ops.sum_all(ops.matmul(a, w)),
    "expanded gradient to a transposed product": lambda ops, a, b, w: ops.sum_all(ops.matmul(a, ops.t(b))),
    # Inputs of two dtypes are copied to one; their gradients are copied back.
    "minimum of two dtypes": lambda ops, a, b, w: ops.sum_all(ops.minimum(ops.to(a, "bf16"), b)),
    "a column of another dtype": lambda ops, a, b, w: ops.sum_all(
        ops.mul(a, ops.sub(b, ops.logsumexp(ops.to(a, "bf16"))))
    ),
    # Layouts of products.
    "weight not transposed": lambda ops, a, b, w: ops.sum_all(ops.exp(ops.matmul(a, w))),
    "weight transposed": lambda ops, a, b, w: ops.sum_all(ops.exp(ops.matmul(a, ops.t(b)))),
    "left side transposed": lambda ops, a, b, w: ops.sum_all(ops.exp(ops.matmul(ops.t(a), b))),
    "a weight twice": lambda ops, a, b, w: ops.sum_all(ops.mul(ops.matmul(a, w), ops.exp(ops.matmul(b, w)))),
    "transposed twice": lambda ops, a, b, w: ops.sum_all(ops.exp(ops.t(ops.t(a)))),
    "transposed leaf": lambda ops, a, b, w: ops.sum_all(ops.exp(ops.t(a))),
    "a row whose gradient is a column": lambda ops, a, b, w: ops.sum_all(
        ops.mul(ops.t(ops.leaf(ops.slice_rows(w, 0, 1))), ops.logsumexp(ops.matmul(ops.t(w), ops.t(a))))
    ),
    "a side that needs no gradient": lambda ops, a, b, w: ops.sum_all(ops.matmul(ops.neg(a), ops.detach(w))),
    # Chunks of which some get no gradient.
    "one of the chunks": lambda ops, a, b, w: ops.sum_all(ops.exp(ops.split(a, 5)[1])),
    "the last chunk, and the whole": lambda ops, a, b, w: ops.add(
        ops.sum_all(ops.exp(ops.split(a, 5)[-1])), ops.sum_all(ops.tanh(a))
    ),
    "two slices": lambda ops, a, b, w: ops.sum_all(ops.mul(ops.slice_rows(a, 0, 6), ops.exp(ops.slice_rows(a, 6, 12)))),
    # Recomputation, and forward without a graph.
    "custom Function": lambda ops, a, b, w: ops.sum_all(
        ops.function(lambda x: (ops.exp(ops.neg(ops.exp(x))), (x,)), lambda upstream, x: (ops.mul(upstream, x),), a)
    ),
    "checkpoint": lambda ops, a, b, w: ops.sum_all(
        ops.checkpoint(lambda x, y: ops.exp(ops.mul(ops.tanh(x), ops.exp(y))), a, b)
    ),
    "nested checkpoints": lambda ops, a, b, w: ops.sum_all(
        ops.checkpoint(
            lambda x, y: ops.tanh(ops.checkpoint(lambda u, v: ops.exp(ops.mul(ops.tanh(u), v)), x, ops.exp(y))), a, b
        )
    ),
}


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("name", GRAPHS)
def test_graph(name: str, times: int) -> None:
    """The second time gradients are there already and are added to in place."""
    assert_graph_agrees(GRAPHS[name], times=times)


def test_cuda_fuses_the_cast_of_fp16_into_softmax() -> None:
    """The half-to-float kernel exists for fp16 only; bf16 is copied first."""
    for dtype, names in (("fp16", ["softmax"]), ("bf16", ["fp32 copy of x", "softmax"])):
        recorder = Recorder()
        ops = SizedOps(recorder, "cuda")
        ops.softmax(ops.external("x", (4, 128), dtype), "fp32")
        assert [a.name for a in recorder.build().allocations] == names


def test_cuda_brings_gradients_back_from_the_host() -> None:
    """On a GPU the host's tensors leave no events; what comes back does: the loss, and the gradient of x."""
    recorder = Recorder()
    ops = SizedOps(recorder, "cuda")
    x = ops.external("x", (4, 128), "bf16", requires_grad=True)
    ops.run_backward(ops.to_device(ops.sum_all(ops.exp(ops.to_host(x))), x))
    assert [a.name for a in recorder.build().allocations] == ["total", "gradient seed", "gradient of x"]
