"""Methods that start from hidden states: head and loss together, so that logits never exist in full."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic

from membudget.programs.methods import Terms, loss_and_gradient, piece, pieces
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
    token_weights: T | None = None
    """[tokens], fp32: what each token counts, 0 for one that is left out; None for every token once."""
    divisor: T | None = None
    """Without dimensions, beside token weights: the loss is divided by it, and not by the number of tokens."""
    targets: T | None = None
    """The teacher's logits in full, for methods that would compute them from teacher_hidden, which is None then."""

    @property
    def teacher(self) -> T | None:
        """What is cut into chunks to get the teacher's logits."""
        return self.teacher_hidden if self.targets is None else self.targets


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

    def chunk_loss(hidden: T, teacher: T | None, labels: T | None, token_weights: T | None) -> T:
        targets = _chunk_targets(ops, heads, teacher)
        logits = logits_of(ops, hidden, heads.weight, "chunk logits")
        return sum_of_terms(ops, terms, logits, targets, labels, divisor, token_weights)

    hidden = ops.split(heads.hidden, chunk)
    teacher = pieces(ops, heads.teacher, chunk, len(hidden))
    labels = pieces(ops, heads.labels, chunk, len(hidden))
    token_weights = pieces(ops, heads.token_weights, chunk, len(hidden))
    total: T | None = None
    for h, t, y, w in zip(hidden, teacher, labels, token_weights, strict=True):
        total = plus(ops, total, ops.checkpoint(chunk_loss, h, t, y, w))
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

    return ops.function(forward, backward, heads.hidden, heads.weight, once="fused_head_grad_in_forward")


def _chunk_gradient(
    ops: Operators[T], terms: Terms, heads: Heads[T], start: int, stop: int, divisor: float
) -> tuple[T, T]:
    targets = _chunk_targets(ops, heads, piece(ops, heads.teacher, start, stop))
    logits = logits_of(ops, ops.slice_rows(heads.hidden, start, stop), heads.weight, "chunk logits")
    labels = piece(ops, heads.labels, start, stop)
    token_weights = piece(ops, heads.token_weights, start, stop)
    return loss_and_gradient(ops, terms, logits, targets, labels, divisor, token_weights)


def _chunk_targets(ops: Operators[T], heads: Heads[T], teacher: T | None) -> T | None:
    """The teacher's logits of a chunk, from what there is of the teacher."""
    return teacher if heads.targets is not None else targets_of(ops, teacher, heads.teacher_weight, "chunk targets")
