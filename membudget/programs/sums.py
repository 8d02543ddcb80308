"""How a term adds its tokens up: all alike, or each times a weight of its own.

All alike, whole tensors are summed in their dtype, as plain code does. With weights, rows are summed first; the sums
of rows are copied to fp32, so that neither many tokens nor a narrow dtype spoil the total, and rows of weight zero
count nothing whatever they hold.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, Protocol

from membudget.programs.operators import Operators, T


class Sums(Protocol[T]):
    """What terms need to add up tokens."""

    def cross_entropy(self, x: T, labels: T) -> T: ...
    def nll_loss(self, log_probs: T, labels: T) -> T: ...
    def kl_div(self, x: T, target: T, *, log_target: bool) -> T: ...
    def elements(self, x: T) -> T:
        """The sum of x [tokens, anything]."""

    def rows(self, x: T) -> T:
        """The sum of x [tokens]."""

    def tokens_minus(self, total: T, logits: T) -> T:
        """The number of tokens, each as much as it weighs, minus a total."""


@dataclass(frozen=True, slots=True)
class PlainSums(Generic[T]):
    """Every token once."""

    ops: Operators[T]

    def cross_entropy(self, x: T, labels: T) -> T:
        return self.ops.cross_entropy(x, labels)

    def nll_loss(self, log_probs: T, labels: T) -> T:
        return self.ops.nll_loss(log_probs, labels)

    def kl_div(self, x: T, target: T, *, log_target: bool) -> T:
        return self.ops.kl_div(x, target, log_target=log_target)

    def elements(self, x: T) -> T:
        return self.ops.sum_all(x)

    def rows(self, x: T) -> T:
        return self.ops.sum_all(x)

    def tokens_minus(self, total: T, logits: T) -> T:
        return self.ops.add_number(self.ops.neg(total), float(self.ops.num_rows(logits)))


@dataclass(frozen=True, slots=True)
class WeightedSums(Generic[T]):
    """Every token times its weight."""

    ops: Operators[T]
    weights: T
    """[tokens], fp32; fp64 beside logits in fp64."""

    def cross_entropy(self, x: T, labels: T) -> T:
        return self.rows(self.ops.cross_entropy_rows(x, labels))

    def nll_loss(self, log_probs: T, labels: T) -> T:
        return self.rows(self.ops.nll_loss_rows(log_probs, labels))

    def kl_div(self, x: T, target: T, *, log_target: bool) -> T:
        return self.rows(self.ops.kl_div_rows(x, target, log_target=log_target))

    def elements(self, x: T) -> T:
        return self.rows(self.ops.sum_rows(x))

    def rows(self, x: T) -> T:
        ops = self.ops
        x = ops.to(x, ops.dtype_of(self.weights))
        x = ops.fill_with_zero(x, ops.is_zero(self.weights))
        return ops.sum_all(ops.mul(x, self.weights))

    def tokens_minus(self, total: T, logits: T) -> T:
        return self.ops.sub(self.ops.sum_all(self.weights), total)


def shielded(ops: Operators[T], logits: T, weights: T) -> T:
    """The same logits; in backward, gradients of rows of weight zero become zero in place.

    A weight of zero alone does not stop infinities and NaN: zero times those is NaN.
    """

    def forward(logits: T) -> tuple[T, tuple[T, ...]]:
        return logits, (weights,)

    def backward(upstream: T, weights: T) -> tuple[T | None, ...]:
        return (ops.fill_rows_with_zero_(upstream, ops.is_zero(weights)),)

    return ops.function(forward, backward, logits)
