"""Storages and tensors. Python's reference counting ends a storage, as it does in PyTorch."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from membudget.dtypes import ITEMSIZE

if TYPE_CHECKING:
    from membudget.sized.graph import Node
    from membudget.timeline import Recorder


class Storage:
    """Bytes that live as long as a tensor refers to them.

    `tensors` counts the tensor objects over it. A storage without a recorder belongs to somebody else (the
    head's weight, memory of the host) and leaves no events.
    """

    __slots__ = ("handle", "name", "recorder", "tensors")

    def __init__(self, name: str, recorder: Recorder | None, handle: int) -> None:
        self.name = name
        self.recorder = recorder
        self.handle = handle
        self.tensors = 0


class Tensor:
    """A shape, a dtype, a storage; `strides` is None for the usual contiguous layout.

    `base` is the tensor a view was taken from: a view keeps it alive, even without gradients.
    `holders` counts the places in a backward pass that hold this very object; it decides whether a
    gradient may be added to in place or stolen.
    """

    __slots__ = (
        "base",
        "dtype",
        "grad",
        "holders",
        "node",
        "on_host",
        "output_index",
        "requires_grad",
        "shape",
        "storage",
        "strides",
        "wrapped_number",
    )

    def __init__(
        self,
        shape: tuple[int, ...],
        dtype: str,
        storage: Storage,
        *,
        strides: tuple[int, ...] | None = None,
        base: Tensor | None = None,
        on_host: bool = False,
    ) -> None:
        self.shape = shape
        self.dtype = dtype
        self.storage = storage
        self.strides = strides
        self.base = base
        self.on_host = on_host
        self.wrapped_number = False
        self.requires_grad = False
        self.grad: Tensor | None = None
        self.node: Node | None = None
        self.output_index = 0
        self.holders = 0
        storage.tensors += 1

    def __del__(self) -> None:
        storage = self.storage
        storage.tensors -= 1
        if storage.tensors == 0 and storage.recorder is not None:
            storage.recorder.free(storage.handle)

    @property
    def name(self) -> str:
        """The name of the storage: what a person would call these bytes."""
        return self.storage.name

    @property
    def nbytes(self) -> int:
        """Bytes of the elements, counted by shape; an expanded tensor has fewer in memory."""
        return prod(self.shape) * ITEMSIZE[self.dtype]

    @property
    def is_expanded(self) -> bool:
        """Whether several elements share one place in memory."""
        return self.strides is not None and 0 in self.strides


def contiguous_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Row-major strides of a shape."""
    strides: list[int] = []
    step = 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(int(size), 1)
    return tuple(reversed(strides))


def same_layout(left: Tensor, right: Tensor) -> bool:
    """Whether two tensors of one shape have the same strides, dimensions of size 1 aside."""
    if left.strides is None and right.strides is None:
        return True
    pairs = zip(
        left.shape,
        left.strides or contiguous_strides(left.shape),
        right.strides or contiguous_strides(right.shape),
        strict=True,
    )
    return all(size == 1 or a == b for size, a, b in pairs)
