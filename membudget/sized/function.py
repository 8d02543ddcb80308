"""Custom autograd Functions: a forward that runs without a graph and a backward written by hand."""

from __future__ import annotations

from collections.abc import Callable

from membudget.sized.graph import Gradients, Node
from membudget.sized.session import Session
from membudget.sized.tensor import Tensor

Forward = Callable[..., tuple[Tensor, tuple[Tensor, ...]]]
"""inputs -> (output, what to save)."""

BackwardOf = Callable[..., tuple[Tensor | None, ...]]
"""(upstream gradient, *saved) -> a gradient per input."""


def function(session: Session, forward: Forward, backward: BackwardOf, *inputs: Tensor, once: str = "") -> Tensor:
    """Run `forward(*inputs)` without a graph; in a backward pass, `backward` supplies the gradients.

    An input that is returned becomes a view, so that it is still itself. A graph runs backward once: `once` is met.
    """
    node = session.node("function", inputs, _function_backward)
    with session.grad_mode(False):
        output, saved = forward(*inputs)
    if any(output is x for x in inputs):
        output = session.view(output, output.shape, output.strides)
    if node is not None:
        node.context = backward
        session.save(node, *saved)
    return session.attach(output, node)


def _function_backward(session: Session, node: Node, grads: Gradients, saved: list[Tensor]) -> Gradients:
    backward = node.context
    assert callable(backward)
    with session.scope(node.scope):
        result: Gradients = backward(grads[0], *saved)
    return result


def leaf(session: Session, x: Tensor) -> Tensor:
    """x.detach().requires_grad_(): the same bytes, the beginning of a new graph."""
    tensor = session.alias(x)
    tensor.requires_grad = True
    return tensor
