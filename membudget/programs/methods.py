"""Methods that start from logits in full: how terms meet logits [tokens, vocab] that exist already."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from membudget.programs.operators import Operators, T
from membudget.programs.terms import TermSettings, plus, sum_of_terms

Terms = tuple[TermSettings, ...]


def whole(
    ops: Operators[T], terms: Terms, logits: T, targets: T | None, labels: T | None, chunk: int, divisor: float
) -> T:
    """One pass over all tokens."""
    return sum_of_terms(ops, terms, logits, targets, labels, divisor)


def chunked(
    ops: Operators[T], terms: Terms, logits: T, targets: T | None, labels: T | None, chunk: int, divisor: float
) -> T:
    """A loop over `split`, losses summed: every chunk's saved tensors stay until backward."""
    total: T | None = None
    for x, t, y in _splits(ops, logits, targets, labels, chunk):
        total = plus(ops, total, sum_of_terms(ops, terms, x, t, y, divisor))
    assert total is not None
    return total


def chunked_slices(
    ops: Operators[T], terms: Terms, logits: T, targets: T | None, labels: T | None, chunk: int, divisor: float
) -> T:
    """The same loop over `x[i:i+c]`: each slice's gradient is a tensor of the full size."""
    total: T | None = None
    for start in range(0, ops.num_rows(logits), chunk):
        x, t, y = _slices(ops, logits, targets, labels, start, start + chunk)
        total = plus(ops, total, sum_of_terms(ops, terms, x, t, y, divisor))
    assert total is not None
    return total


def chunked_checkpoint(
    ops: Operators[T], terms: Terms, logits: T, targets: T | None, labels: T | None, chunk: int, divisor: float
) -> T:
    """Each chunk's loss under its own checkpoint: held memory is that of the logits and targets."""

    def chunk_loss(x: T, t: T | None, y: T | None) -> T:
        return sum_of_terms(ops, terms, x, t, y, divisor)

    total: T | None = None
    for x, t, y in _splits(ops, logits, targets, labels, chunk):
        total = plus(ops, total, ops.checkpoint(chunk_loss, x, t, y))
    assert total is not None
    return total


def grad_in_forward(
    ops: Operators[T], terms: Terms, logits: T, targets: T | None, labels: T | None, chunk: int, divisor: float
) -> T:
    """Forward computes loss and gradient chunk by chunk; backward scales the gradient in place."""

    def forward(logits: T) -> tuple[T, tuple[T, ...]]:
        gradient = ops.empty_like(logits, "gradient of logits")
        total: T | None = None
        for start in range(0, ops.num_rows(logits), chunk):
            x, t, y = _slices(ops, logits, targets, labels, start, start + chunk)
            loss, part = loss_and_gradient(ops, terms, x, t, y, divisor)
            ops.copy_rows(gradient, start, start + chunk, part)
            del part
            total = loss if total is None else ops.add_(total, loss)
        assert total is not None
        return total, (gradient,)

    def backward(upstream: T, gradient: T) -> tuple[T | None, ...]:
        return (ops.scale_(gradient, upstream),)

    return ops.function(forward, backward, logits)


def cpu(
    ops: Operators[T], terms: Terms, logits: T, targets: T | None, labels: T | None, chunk: int, divisor: float
) -> T:
    """Logits and targets are copied to the host and the terms computed there; the gradient travels back."""
    x = ops.to_host(logits)
    t = None if targets is None else ops.to_host(targets)
    y = None if labels is None else ops.to_host(labels)
    loss = sum_of_terms(ops, terms, x, t, y, divisor)
    return ops.to_device(loss, logits)


def loss_and_gradient(
    ops: Operators[T], terms: Terms, logits: T, targets: T | None, labels: T | None, divisor: float
) -> tuple[T, T]:
    """The loss of some tokens, and its gradient with respect to their logits."""
    with ops.enable_grad():
        x = ops.leaf(logits)
        loss = sum_of_terms(ops, terms, x, targets, labels, divisor)
        (gradient,) = ops.gradients_of(loss, (x,))
    return ops.detach(loss), gradient


def _splits(
    ops: Operators[T], logits: T, targets: T | None, labels: T | None, chunk: int
) -> Iterator[tuple[T, T | None, T | None]]:
    xs = ops.split(logits, chunk)
    ts = pieces(ops, targets, chunk, len(xs))
    ys = pieces(ops, labels, chunk, len(xs))
    return zip(xs, ts, ys, strict=True)


def pieces(ops: Operators[T], x: T | None, chunk: int, count: int) -> Sequence[T | None]:
    """The chunks of a tensor that may not exist."""
    return [None] * count if x is None else ops.split(x, chunk)


def _slices(
    ops: Operators[T], logits: T, targets: T | None, labels: T | None, start: int, stop: int
) -> tuple[T, T | None, T | None]:
    t = None if targets is None else ops.slice_rows(targets, start, stop)
    y = None if labels is None else ops.slice_rows(labels, start, stop)
    return ops.slice_rows(logits, start, stop), t, y
