"""Methods that start from logits in full: how terms meet logits [tokens, vocab] that exist already."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from membudget.programs.operators import Operators, T
from membudget.programs.terms import TermSettings, plus, sum_of_terms

Terms = tuple[TermSettings, ...]


def whole(
    ops: Operators[T],
    terms: Terms,
    logits: T,
    targets: T | None,
    labels: T | None,
    chunk: int,
    divisor: float,
    token_weights: T | None = None,
) -> T:
    """One pass over all tokens."""
    return sum_of_terms(ops, terms, logits, targets, labels, divisor, token_weights)


def chunked(
    ops: Operators[T],
    terms: Terms,
    logits: T,
    targets: T | None,
    labels: T | None,
    chunk: int,
    divisor: float,
    token_weights: T | None = None,
) -> T:
    """A loop over `split`, losses summed: every chunk's saved tensors stay until backward."""
    total: T | None = None
    for x, t, y, w in _splits(ops, logits, targets, labels, token_weights, chunk):
        total = plus(ops, total, sum_of_terms(ops, terms, x, t, y, divisor, w))
    assert total is not None
    return total


def chunked_slices(
    ops: Operators[T],
    terms: Terms,
    logits: T,
    targets: T | None,
    labels: T | None,
    chunk: int,
    divisor: float,
    token_weights: T | None = None,
) -> T:
    """The same loop over `x[i:i+c]`: each slice's gradient is a tensor of the full size."""
    total: T | None = None
    for start in range(0, ops.num_rows(logits), chunk):
        x, t, y, w = _slices(ops, logits, targets, labels, token_weights, start, start + chunk)
        total = plus(ops, total, sum_of_terms(ops, terms, x, t, y, divisor, w))
    assert total is not None
    return total


def chunked_checkpoint(
    ops: Operators[T],
    terms: Terms,
    logits: T,
    targets: T | None,
    labels: T | None,
    chunk: int,
    divisor: float,
    token_weights: T | None = None,
) -> T:
    """Each chunk's loss under its own checkpoint: held memory is that of the logits and targets."""

    def chunk_loss(x: T, t: T | None, y: T | None, w: T | None) -> T:
        return sum_of_terms(ops, terms, x, t, y, divisor, w)

    total: T | None = None
    for x, t, y, w in _splits(ops, logits, targets, labels, token_weights, chunk):
        total = plus(ops, total, ops.checkpoint(chunk_loss, x, t, y, w))
    assert total is not None
    return total


def grad_in_forward(
    ops: Operators[T],
    terms: Terms,
    logits: T,
    targets: T | None,
    labels: T | None,
    chunk: int,
    divisor: float,
    token_weights: T | None = None,
) -> T:
    """Forward computes loss and gradient chunk by chunk; backward scales the gradient in place."""

    def forward(logits: T) -> tuple[T, tuple[T, ...]]:
        gradient = ops.empty_like(logits, "gradient of logits")
        total: T | None = None
        for start in range(0, ops.num_rows(logits), chunk):
            x, t, y, w = _slices(ops, logits, targets, labels, token_weights, start, start + chunk)
            loss, part = loss_and_gradient(ops, terms, x, t, y, divisor, w)
            ops.copy_rows(gradient, start, start + chunk, part)
            del part
            total = loss if total is None else ops.add_(total, loss)
        assert total is not None
        return total, (gradient,)

    def backward(upstream: T, gradient: T) -> tuple[T | None, ...]:
        return (ops.scale_(gradient, upstream),)

    return ops.function(forward, backward, logits, once="grad_in_forward")


def cpu(
    ops: Operators[T],
    terms: Terms,
    logits: T,
    targets: T | None,
    labels: T | None,
    chunk: int,
    divisor: float,
    token_weights: T | None = None,
) -> T:
    """Logits and targets are copied to the host and the terms computed there; the gradient travels back."""
    x = ops.to_host(logits)
    t = None if targets is None else ops.to_host(targets)
    y = None if labels is None else ops.to_host(labels)
    w = None if token_weights is None else ops.to_host(token_weights)
    loss = sum_of_terms(ops, terms, x, t, y, divisor, w)
    return ops.to_device(loss, logits)


def loss_and_gradient(
    ops: Operators[T],
    terms: Terms,
    logits: T,
    targets: T | None,
    labels: T | None,
    divisor: float,
    token_weights: T | None = None,
) -> tuple[T, T]:
    """The loss of some tokens, and its gradient with respect to their logits."""
    with ops.enable_grad():
        x = ops.leaf(logits)
        loss = sum_of_terms(ops, terms, x, targets, labels, divisor, token_weights)
        (gradient,) = ops.gradients_of(loss, (x,))
    return ops.detach(loss), gradient


def _splits(
    ops: Operators[T], logits: T, targets: T | None, labels: T | None, token_weights: T | None, chunk: int
) -> Iterator[tuple[T, T | None, T | None, T | None]]:
    xs = ops.split(logits, chunk)
    ts = pieces(ops, targets, chunk, len(xs))
    ys = pieces(ops, labels, chunk, len(xs))
    ws = pieces(ops, token_weights, chunk, len(xs))
    return zip(xs, ts, ys, ws, strict=True)


def pieces(ops: Operators[T], x: T | None, chunk: int, count: int) -> Sequence[T | None]:
    """The chunks of a tensor that may not exist."""
    return [None] * count if x is None else ops.split(x, chunk)


def _slices(
    ops: Operators[T],
    logits: T,
    targets: T | None,
    labels: T | None,
    token_weights: T | None,
    start: int,
    stop: int,
) -> tuple[T, T | None, T | None, T | None]:
    t = piece(ops, targets, start, stop)
    y = piece(ops, labels, start, stop)
    w = piece(ops, token_weights, start, stop)
    return ops.slice_rows(logits, start, stop), t, y, w


def piece(ops: Operators[T], x: T | None, start: int, stop: int) -> T | None:
    """Some rows of a tensor that may not exist."""
    return None if x is None else ops.slice_rows(x, start, stop)
