"""Graphs nobody thought of: hypothesis chains operators over two leaves, the CPU allocator judges."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.sized.test_graphs import ROWS, assert_graph_agrees

BINARY = ("mul", "add", "sub", "minimum", "logaddexp")
UNARY = ("neg", "exp", "tanh", "log_softmax", "softmax")
COMPOSED: dict[str, Callable[[Any, Any, Any], Any]] = {
    "fp32": lambda ops, x, y: ops.exp(ops.to(x, "fp32")),
    "half": lambda ops, x, y: ops.scale(x, 0.5),
    "column": lambda ops, x, y: ops.sub(x, ops.logsumexp(y)),
    "detached": lambda ops, x, y: ops.mul(x, ops.detach(y)),
    "checkpoint": lambda ops, x, y: ops.checkpoint(lambda u, v: ops.exp(ops.mul(ops.tanh(u), ops.neg(v))), x, y),
}
ENDS: dict[str, Callable[[Any, Any, int], list[Any]]] = {
    "whole": lambda ops, x, size: [x],
    "splits": lambda ops, x, size: [ops.exp(piece) for piece in ops.split(x, size)],
    "slices": lambda ops, x, size: [ops.exp(ops.slice_rows(x, at, at + size)) for at in range(0, ROWS, size)],
}
"""How the last tensor is summed."""

steps = st.tuples(st.sampled_from([*BINARY, *UNARY, *COMPOSED]), st.integers(0, 9), st.integers(0, 9))


def apply(ops: Any, name: str, x: Any, y: Any) -> Any:
    if name in COMPOSED:
        return COMPOSED[name](ops, x, y)
    return getattr(ops, name)(x, y) if name in BINARY else getattr(ops, name)(x)


@settings(max_examples=200, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(
    steps=st.lists(steps, min_size=1, max_size=8),
    end=st.sampled_from(list(ENDS)),
    size=st.sampled_from([1, 5, 6, 12]),
    dtype=st.sampled_from(["fp32", "bf16", "fp16"]),
)
def test_any_graph_agrees(steps: list[tuple[str, int, int]], end: str, size: int, dtype: str) -> None:
    def program(ops: Any, a: Any, b: Any, w: Any) -> Any:
        values = [a, b]
        for name, x, y in steps:
            values.append(apply(ops, name, values[x % len(values)], values[y % len(values)]))
        total = ops.sum_all(values[len(values) // 2])
        for part in ENDS[end](ops, values[-1], size):
            total = ops.add(total, ops.sum_all(part))
        return total

    assert_graph_agrees(program, dtype)
