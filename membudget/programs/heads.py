"""Methods that start from hidden states: head and loss together, so that logits never exist in full."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic

from membudget.programs.methods import Terms, loss_and_gradient, pieces
from membudget.programs.operators import Operators, T
from membudget.programs.terms import plus, sum_of_terms


@dataclass(frozen=True, slots=True)
class Heads(Generic[T]):
    """What logits are made of: hidden [tokens, hidden], weight [vocab, hidden]; the teacher's where one is needed."""

    hidden: T
    weight: T
    teacher_hidden: T | None
    teacher_weight: T | None
    labels: T | None
    """Token ids; None when the teacher's argmax serves."""
    train_weight: bool


def logits_of(ops: Operators[T], hidden: T, weight: T, name: str = "logits") -> T:
    """hidden @ weight.T"""
    return ops.matmul(hidden, ops.t(weight), name)


def targets_of(ops: Operators[T], hidden: T | None, weight: T | None, name: str = "targets") -> T | None:
    """The teacher's logits, without a graph; None when there is no teacher."""
    if hidden is None or weight is None:
        return None
    with ops.no_grad():
        return logits_of(ops, hidden, weight, name)


def fused_head(ops: Operators[T], terms: Terms, heads: Heads[T], chunk: int, divisor: float) -> T:
    """Hidden states in chunks, head and loss of each under a checkpoint."""

    def chunk_loss(hidden: T, teacher_hidden: T | None, labels: T | None) -> T:
        targets = targets_of(ops, teacher_hidden, heads.teacher_weight, "chunk targets")
        logits = logits_of(ops, hidden, heads.weight, "chunk logits")
        return sum_of_terms(ops, terms, logits, targets, labels, divisor)

    hidden = ops.split(heads.hidden, chunk)
    teacher = pieces(ops, heads.teacher_hidden, chunk, len(hidden))
    labels = pieces(ops, heads.labels, chunk, len(hidden))
    total: T | None = None
    for h, t, y in zip(hidden, teacher, labels, strict=True):
        total = plus(ops, total, ops.checkpoint(chunk_loss, h, t, y))
    assert total is not None
    return total


def fused_head_grad_in_forward(ops: Operators[T], terms: Terms, heads: Heads[T], chunk: int, divisor: float) -> T:
    """The gradients of hidden states (and head) are computed in forward; backward scales them in place."""

    def forward(hidden: T, weight: T) -> tuple[T, tuple[T, ...]]:
        gradient = ops.empty_like(hidden, "gradient of hidden states")
        of_weight = (ops.zeros_like(weight, "gradient of head weight"),) if heads.train_weight else ()
        total: T | None = None
        for start in range(0, ops.num_rows(hidden), chunk):
            loss, of_logits = _chunk_gradient(ops, terms, heads, start, start + chunk, divisor)
            h = ops.slice_rows(hidden, start, start + chunk)
            ops.copy_rows(gradient, start, start + chunk, ops.matmul(of_logits, weight, "chunk gradient"))
            for buffer in of_weight:
                ops.add_product_(buffer, ops.t(of_logits), h)
            del of_logits
            total = loss if total is None else ops.add_(total, loss)
        assert total is not None
        return total, (gradient, *of_weight)

    def backward(upstream: T, gradient: T, *of_weight: T) -> tuple[T | None, ...]:
        scaled = ops.scale_(gradient, upstream)
        return scaled, ops.scale_(of_weight[0], upstream) if of_weight else None

    return ops.function(forward, backward, heads.hidden, heads.weight)


def _chunk_gradient(
    ops: Operators[T], terms: Terms, heads: Heads[T], start: int, stop: int, divisor: float
) -> tuple[T, T]:
    targets = None
    if heads.teacher_hidden is not None:
        piece = ops.slice_rows(heads.teacher_hidden, start, stop)
        targets = targets_of(ops, piece, heads.teacher_weight, "chunk targets")
    logits = logits_of(ops, ops.slice_rows(heads.hidden, start, stop), heads.weight, "chunk logits")
    labels = None if heads.labels is None else ops.slice_rows(heads.labels, start, stop)
    return loss_and_gradient(ops, terms, logits, targets, labels, divisor)
