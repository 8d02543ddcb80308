"""Rules of elementwise operators. Reference for every backward: tools/autograd/derivatives.yaml of PyTorch."""

from __future__ import annotations

from collections.abc import Callable

from membudget.sized.casts import elementwise
from membudget.sized.graph import Gradients, Node
from membudget.sized.session import Session
from membudget.sized.tensor import Storage, Tensor


def gradient_name(node: Node, index: int = 0) -> str:
    """What the gradient of input `index` is called; a gradient of a gradient does not pile words up."""
    return f"gradient of {node.inputs[index].name}"


def new_gradient(session: Session, node: Node, like: Tensor) -> Tensor:
    """The gradient of the only input, a new tensor of its shape and dtype where `like` lives."""
    meta = node.inputs[0]
    return session.new(gradient_name(node), meta.shape, meta.dtype, like=like)


def both_sides(node: Node, side: Callable[[int], Tensor]) -> list[Tensor | None]:
    """The gradients of two inputs that want one: that of the second side comes first."""
    sides: list[Tensor | None] = [None, None]
    for index in (1, 0):
        if node.needs(index):
            sides[index] = side(index)
    return sides


def number(session: Session) -> Tensor:
    """A Python number beside a tensor: 8 bytes, always on the host."""
    if session.device == "cpu":
        tensor = session.new("number", (), "fp64")
    else:
        tensor = Tensor((), "fp64", Storage("number", None, -1))
    tensor.wrapped_number = True
    return tensor


def mul(session: Session, a: Tensor, b: Tensor) -> Tensor:
    """a * b; saves each side only if the other needs a gradient."""
    node = session.node("mul", (a, b), _mul_backward)
    if node is not None:
        session.save_operands(node, a, b)
    return session.attach(elementwise(session, "product", a, b), node)


def _mul_backward(session: Session, node: Node, grads: Gradients, saved: list[Tensor]) -> Gradients:
    (grad,) = grads
    assert grad is not None
    others = (saved[0], saved[-1])
    return both_sides(node, lambda index: elementwise(session, gradient_name(node, index), grad, others[index]))


def scale(session: Session, x: Tensor, factor: float) -> Tensor:
    """x * factor for a Python number."""
    return mul(session, x, number(session))


def divide(session: Session, x: Tensor, divisor: float) -> Tensor:
    """x / divisor for a Python number."""
    other = number(session)
    node = session.node("div", (x, other), _div_backward)
    if node is not None:
        session.save(node, other)
    return session.attach(elementwise(session, "quotient", x, other), node)


def _div_backward(session: Session, node: Node, grads: Gradients, saved: list[Tensor]) -> Gradients:
    (grad,) = grads
    assert grad is not None
    return elementwise(session, gradient_name(node), grad, saved[0]), None


def divide_by(session: Session, x: Tensor, divisor: Tensor) -> Tensor:
    """x / divisor for a tensor without a graph; saves the divisor."""
    node = session.node("div", (x, divisor), _div_backward)
    if node is not None:
        session.save(node, divisor)
    return session.attach(elementwise(session, "quotient", x, divisor), node)


def add_number(session: Session, x: Tensor, value: float) -> Tensor:
    """x + value for a Python number."""
    return add(session, x, number(session))


def add(session: Session, a: Tensor, b: Tensor) -> Tensor:
    """a + b; saves nothing."""
    node = session.node("add", (a, b), _add_backward)
    return session.attach(elementwise(session, "sum", a, b), node)


def _add_backward(session: Session, node: Node, grads: Gradients, saved: list[Tensor]) -> Gradients:
    (grad,) = grads
    return grad if node.needs(0) else None, grad if node.needs(1) else None


def sub(session: Session, a: Tensor, b: Tensor) -> Tensor:
    """a - b; saves nothing, but the gradient of b is a negated copy."""
    node = session.node("sub", (a, b), _sub_backward)
    return session.attach(elementwise(session, "difference", a, b), node)


def _sub_backward(session: Session, node: Node, grads: Gradients, saved: list[Tensor]) -> Gradients:
    (grad,) = grads
    assert grad is not None
    right = elementwise(session, gradient_name(node, 1), grad) if node.needs(1) else None
    return grad if node.needs(0) else None, right


def neg(session: Session, x: Tensor) -> Tensor:
    """-x; saves nothing."""
    node = session.node("neg", (x,), _one_new)
    return session.attach(elementwise(session, "negative", x), node)


def exp(session: Session, x: Tensor) -> Tensor:
    """exp(x); saves its output."""
    return _saves_output(session, "exp", x)


def tanh(session: Session, x: Tensor) -> Tensor:
    """tanh(x); saves its output."""
    return _saves_output(session, "tanh", x)


def _saves_output(session: Session, name: str, x: Tensor) -> Tensor:
    node = session.node(name, (x,), _one_new)
    output = elementwise(session, name, x)
    if node is not None:
        session.save_output(node, output)
    return session.attach(output, node)


def _one_new(session: Session, node: Node, grads: Gradients, saved: list[Tensor]) -> Gradients:
    """One new tensor of the gradient's shape: grad * f(saved)."""
    (grad,) = grads
    assert grad is not None
    return (elementwise(session, gradient_name(node), grad, *saved),)


def equal(session: Session, a: Tensor, b: Tensor) -> Tensor:
    """a == b, one byte per element, no graph."""
    return elementwise(session, "equal", a, b, dtype="bool")


def is_zero(session: Session, x: Tensor) -> Tensor:
    """x == 0, one byte per element, no graph."""
    return elementwise(session, "zeros", x, number(session), dtype="bool")


def fill_with_zero(session: Session, x: Tensor, mask: Tensor) -> Tensor:
    """x.masked_fill(mask, 0), a copy; saves the mask."""
    node = session.node("fill", (x,), _fill_backward)
    if node is not None:
        session.save(node, mask)
    return session.attach(session.new("filled", x.shape, x.dtype, like=x), node)


def _fill_backward(session: Session, node: Node, grads: Gradients, saved: list[Tensor]) -> Gradients:
    (grad,) = grads
    assert grad is not None
    return (new_gradient(session, node, grad),)


def fill_rows_with_zero_(session: Session, x: Tensor, mask: Tensor) -> Tensor:
    """x.masked_fill_(mask.unsqueeze(-1), 0), in place."""
    return x


def minimum(session: Session, a: Tensor, b: Tensor) -> Tensor:
    """Elementwise minimum; saves both sides."""
    node = session.node("minimum", (a, b), _minimum_backward)
    if node is not None:
        session.save(node, a, b)
    return session.attach(elementwise(session, "minimum", a, b), node)


def _minimum_backward(session: Session, node: Node, grads: Gradients, saved: list[Tensor]) -> Gradients:
    """Per needed side: where(self == other, grad / 2, grad).masked_fill_(self > other, 0)."""
    (grad,) = grads
    assert grad is not None

    def side(index: int) -> Tensor:
        two = number(session)
        half = elementwise(session, f"{node.scope} half of the gradient", grad, two)
        del two
        equal_mask = elementwise(session, f"{node.scope} mask", *saved, dtype="bool")
        result = elementwise(session, gradient_name(node, index), half)
        greater_mask = elementwise(session, f"{node.scope} mask", *saved, dtype="bool")
        del half, equal_mask, greater_mask
        return result

    return both_sides(node, side)


def logaddexp(session: Session, a: Tensor, b: Tensor) -> Tensor:
    """log(exp(a) + exp(b)); saves both sides."""
    node = session.node("logaddexp", (a, b), _logaddexp_backward)
    if node is not None:
        session.save(node, a, b)
    return session.attach(elementwise(session, "logaddexp", a, b), node)


def _logaddexp_backward(session: Session, node: Node, grads: Gradients, saved: list[Tensor]) -> Gradients:
    """Per needed side: grad / (1 + exp(other - self))."""
    (grad,) = grads
    assert grad is not None

    def side(index: int) -> Tensor:
        difference = elementwise(session, f"{node.scope} difference", *saved)
        exponential = elementwise(session, f"{node.scope} exp", difference)
        one = number(session)
        denominator = elementwise(session, f"{node.scope} denominator", exponential, one)
        del one
        return elementwise(session, gradient_name(node, index), grad, denominator)

    return both_sides(node, side)


def scale_(session: Session, buffer: Tensor, factor: Tensor) -> Tensor:
    """buffer *= factor for a tensor without dimensions, in place."""
    if session.device == "cpu" and factor.dtype != buffer.dtype:
        cast = session.new(f"{buffer.dtype} copy", factor.shape, buffer.dtype, like=factor)
        del cast
    return buffer


def add_(session: Session, total: Tensor, x: Tensor) -> Tensor:
    """total += x in place; both of one dtype."""
    assert total.dtype == x.dtype
    return total
