"""Rules of views, chunks, gathers and products: what moves data around rather than computing on it."""

from __future__ import annotations

from membudget.sized.elementwise import both_sides, gradient_name, new_gradient
from membudget.sized.graph import Gradients, Node
from membudget.sized.session import Session
from membudget.sized.tensor import Tensor, contiguous_strides
from membudget.timeline import Dim


def rows(size: int, whole: int) -> int:
    """The number of rows of a piece, named for what it is."""
    return whole if size == whole else Dim(size, "chunk")


def split(session: Session, x: Tensor, size: int) -> list[Tensor]:
    """x.split(size): views; the gradient is one concatenation after all pieces."""
    node = session.node("split", (x,), _split_backward)
    total = x.shape[0]
    pieces = []
    for index, start in enumerate(range(0, total, size)):
        length = min(size, total - start)
        shape = (rows(length, total), *x.shape[1:])
        pieces.append(session.attach(session.view(x, shape, x.strides), node, index))
    if node is not None:
        node.num_outputs = len(pieces)
    return pieces


def _split_backward(session: Session, node: Node, grads: Gradients, saved: list[Tensor]) -> Gradients:
    first = next(grad for grad in grads if grad is not None)
    zeros = [
        session.new(f"{node.scope} zeros", output.shape, output.dtype, like=first)
        for grad, output in zip(grads, node.outputs, strict=True)
        if grad is None
    ]
    whole = new_gradient(session, node, first)
    zeros.clear()
    return (whole,)


def slice_rows(session: Session, x: Tensor, start: int, stop: int) -> Tensor:
    """x[start:stop]: a view; the gradient is zeros of the whole tensor, even for a slice that is the whole."""
    node = session.node("slice", (x,), _slice_backward)
    total = x.shape[0]
    shape = (rows(min(stop, total) - start, total), *x.shape[1:])
    return session.attach(session.view(x, shape, x.strides), node)


def _slice_backward(session: Session, node: Node, grads: Gradients, saved: list[Tensor]) -> Gradients:
    (grad,) = grads
    assert grad is not None
    return (new_gradient(session, node, grad),)


def gather(session: Session, x: Tensor, index: Tensor) -> Tensor:
    """x.gather(-1, index); saves both, and the gradient is zeros of the whole tensor."""
    node = session.node("gather", (x,), _gather_backward)
    if node is not None:
        session.save(node, x, index)
    output = session.new("gathered", index.shape, x.dtype, like=x)
    _cpu_scatter_buffer(session, output)
    return session.attach(output, node)


def _cpu_scatter_buffer(session: Session, output: Tensor) -> None:
    """On a CPU, half precision is gathered and scattered through an fp32 buffer (ScatterGatherKernel.cpp)."""
    if session.device == "cpu" and output.dtype in ("bf16", "fp16"):
        session.new("fp32 buffer", output.shape, "fp32", like=output)


def _gather_backward(session: Session, node: Node, grads: Gradients, saved: list[Tensor]) -> Gradients:
    (grad,) = grads
    assert grad is not None
    whole = new_gradient(session, node, grad)
    _cpu_scatter_buffer(session, whole)
    return (whole,)


def t(session: Session, x: Tensor) -> Tensor:
    """The transpose of a matrix, a view."""
    node = session.node("t", (x,), _t_backward)
    return session.attach(_transposed(session, x), node)


def _transposed(session: Session, x: Tensor) -> Tensor:
    strides = x.strides or contiguous_strides(x.shape)
    shape = (x.shape[1], x.shape[0])
    flipped: tuple[int, ...] | None = (strides[1], strides[0])
    return session.view(x, shape, None if flipped == contiguous_strides(shape) else flipped)


def _t_backward(session: Session, node: Node, grads: Gradients, saved: list[Tensor]) -> Gradients:
    (grad,) = grads
    assert grad is not None
    return (_transposed(session, grad),)


def matmul(session: Session, a: Tensor, b: Tensor, name: str = "matmul") -> Tensor:
    """a @ b for matrices; saves each side only if the other needs a gradient.

    The gradient of a transposed side is computed transposed, so that a weight behind it can steal it.
    """
    node = session.node("matmul", (a, b), _matmul_backward)
    if node is not None:
        session.save_operands(node, a, b)
        node.context = (_is_transposed(a), _is_transposed(b))
    return session.attach(session.new(name, (a.shape[0], b.shape[1]), a.dtype, like=a), node)


def _is_transposed(x: Tensor) -> bool:
    return x.strides is not None and x.strides == (1, x.shape[0])


def _matmul_backward(session: Session, node: Node, grads: Gradients, saved: list[Tensor]) -> Gradients:
    (grad,) = grads
    assert grad is not None
    return both_sides(node, lambda index: _matmul_side(session, node, grad, index))


def _matmul_side(session: Session, node: Node, grad: Tensor, index: int) -> Tensor:
    """One product; an expanded gradient is copied for each."""
    assert isinstance(node.context, tuple)
    meta = node.inputs[index]
    rows_, columns = meta.shape
    transposed: bool = node.context[index]
    shape = (columns, rows_) if transposed else (rows_, columns)
    result = session.new(gradient_name(node, index), shape, meta.dtype, like=grad)
    if grad.is_expanded:
        session.new(f"{node.scope} contiguous gradient", grad.shape, grad.dtype, like=grad)
    return _transposed(session, result) if transposed else result


def copy_rows(session: Session, buffer: Tensor, start: int, stop: int, rows_of: Tensor) -> None:
    """buffer[start:stop].copy_(rows_of): no new memory."""


def add_product_(session: Session, buffer: Tensor, a: Tensor, b: Tensor) -> None:
    """buffer.addmm_(a, b): no new memory."""


def to_host(session: Session, x: Tensor) -> Tensor:
    """A copy of x in the host's memory."""
    node = session.node("to_host", (x,), _to_host_backward)
    output = session.host_copy(x)
    return session.attach(output, node)


def _to_host_backward(session: Session, node: Node, grads: Gradients, saved: list[Tensor]) -> Gradients:
    """The gradient travels back to the device; where host and device are one, nothing is copied."""
    (grad,) = grads
    assert grad is not None
    if session.device == "cpu":
        return (grad,)
    meta = node.inputs[0]
    return (session.new(gradient_name(node), meta.shape, meta.dtype),)


def to_device(session: Session, x: Tensor) -> Tensor:
    """A copy of x on the device; x itself where host and device are one."""
    if session.device == "cpu":
        return x
    node = session.node("to_device", (x,), _to_device_backward)
    return session.attach(session.new(x.name, x.shape, x.dtype), node)


def _to_device_backward(session: Session, node: Node, grads: Gradients, saved: list[Tensor]) -> Gradients:
    (grad,) = grads
    assert grad is not None
    return (session.host_copy(grad),)
