"""The loss section of a training step: groups of terms, each with its method, over shared logits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from membudget.programs import heads as head_methods
from membudget.programs import kernels, libraries, methods
from membudget.programs.heads import Heads
from membudget.programs.methods import Terms
from membudget.programs.operators import Operators, T
from membudget.programs.terms import plus

LOGITS_METHODS: dict[str, Callable[..., Any]] = {
    "whole": methods.whole,
    "chunked": methods.chunked,
    "chunked_slices": methods.chunked_slices,
    "chunked_checkpoint": methods.chunked_checkpoint,
    "grad_in_forward": methods.grad_in_forward,
    "cpu": methods.cpu,
    "compiled": kernels.compiled,
    "fused_kernel": kernels.fused_kernel,
}
"""Methods that need logits in full."""

HEAD_METHODS: dict[str, Callable[..., Any]] = {
    "fused_head": head_methods.fused_head,
    "fused_head_grad_in_forward": head_methods.fused_head_grad_in_forward,
}
"""Methods that compute the logits themselves, chunk by chunk."""

LIBRARY_METHODS: dict[str, Callable[..., Any]] = {
    "torch_linear_cross_entropy": libraries.torch_linear_cross_entropy,
    "liger": libraries.liger,
    "cut_cross_entropy": libraries.cut_cross_entropy,
}
"""Methods that leave logits to a library; they compute cross_entropy alone."""

_FROM_HIDDEN_STATES = {**HEAD_METHODS, **LIBRARY_METHODS}


@dataclass(frozen=True, slots=True)
class Group:
    """Terms that are computed together: one method, one chunk."""

    terms: Terms
    method: str
    chunk: int
    """Tokens per chunk; 0 for methods that do not chunk."""

    @property
    def needs_logits(self) -> bool:
        return self.method in LOGITS_METHODS


def section_loss(
    ops: Operators[T], groups: tuple[Group, ...], heads: Heads[T], logits: T | None, targets: T | None, divisor: float
) -> T:
    """The sum over all groups. logits are None when no group needs them in full.

    The divisor is that of `heads`, where there is one.
    """
    weights = () if heads.token_weights is None else (heads.token_weights,)
    if heads.divisor is not None:
        divisor = 1.0
    total: T | None = None
    for group in groups:
        if group.needs_logits:
            method = LOGITS_METHODS[group.method]
            loss = method(ops, group.terms, logits, targets, heads.labels, group.chunk, divisor, *weights)
        else:
            loss = _FROM_HIDDEN_STATES[group.method](ops, group.terms, heads, group.chunk, divisor)
        total = plus(ops, total, loss)
    assert total is not None
    return total if heads.divisor is None else ops.divide_by(total, heads.divisor)
