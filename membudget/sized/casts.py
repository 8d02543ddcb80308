"""Copies to another dtype or shape that nobody wrote down: casts of mixed inputs, gradients that must match."""

from __future__ import annotations

from membudget.dtypes import promote
from membudget.sized.graph import Gradients, InputMeta, Node
from membudget.sized.session import Session
from membudget.sized.tensor import Tensor


def match_shape(session: Session, gradient: Tensor, meta: InputMeta) -> Tensor:
    """Sum a gradient to the shape of its input (validate_outputs in engine.cpp)."""
    if gradient.shape != meta.shape:
        return session.new(f"gradient of {meta.name}", meta.shape, gradient.dtype, like=gradient)
    return gradient


def match_dtype(session: Session, gradient: Tensor, meta: InputMeta) -> Tensor:
    """Cast a gradient to the dtype of its input, once it has its shape."""
    if gradient.dtype != meta.dtype:
        return session.new(f"gradient of {meta.name}", meta.shape, meta.dtype, like=gradient)
    return gradient


def to(session: Session, x: Tensor, dtype: str) -> Tensor:
    """`x.to(dtype)`: x itself when it has that dtype, else a copy that saves nothing."""
    if x.dtype == dtype:
        return x
    node = session.node("to", (x,), _to_backward)
    return session.attach(session.new(f"{dtype} copy of {x.name}", x.shape, dtype, like=x), node)


def _to_backward(session: Session, node: Node, grads: Gradients, saved: list[Tensor]) -> Gradients:
    (grad,) = grads
    assert grad is not None
    return (match_dtype(session, grad, node.inputs[0]),)


def common_dtype(inputs: tuple[Tensor, ...]) -> str:
    """The dtype elementwise operators compute in: tensors without dimensions do not raise it."""
    with_dims = [t.dtype for t in inputs if t.shape]
    candidates = with_dims or [t.dtype for t in inputs if not t.wrapped_number] or [t.dtype for t in inputs]
    result = candidates[0]
    for dtype in candidates[1:]:
        result = promote(result, dtype)
    return result


def elementwise(session: Session, name: str, *inputs: Tensor, dtype: str | None = None) -> Tensor:
    """The output of an elementwise operator; `dtype` when it is not that of the inputs (comparisons).

    On a CPU, inputs of another dtype are copied first (TensorIterator); CUDA kernels convert as they load.
    """
    common = common_dtype(inputs)
    like = next((t for t in inputs if t.shape), inputs[0])
    casts = []
    if session.device == "cpu":
        casts = [session.new(f"{common} copy", t.shape, common, like=t) for t in inputs if t.dtype != common]
    shape = _broadcast(inputs)
    output = session.new(name, shape, dtype or common, like=like, strides=_dense_strides(inputs, shape))
    casts.clear()
    return output


def _dense_strides(inputs: tuple[Tensor, ...], shape: tuple[int, ...]) -> tuple[int, ...] | None:
    """The first input that is whole decides the layout: the result of a transposed one is transposed."""
    return next((t.strides for t in inputs if t.shape == shape and not t.is_expanded), None)


def _broadcast(inputs: tuple[Tensor, ...]) -> tuple[int, ...]:
    """The shape two or more tensors expand to; the named dimension wins over a 1."""
    shape = max((t.shape for t in inputs), key=len)
    for other in (t.shape for t in inputs):
        offset = len(shape) - len(other)
        if other != shape[offset:]:
            shape = (
                *shape[:offset],
                *(b if a == 1 else a for a, b in zip(shape[offset:], other, strict=True)),
            )
    return shape
