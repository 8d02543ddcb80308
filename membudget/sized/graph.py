"""The backward graph: nodes, what they save, and where their gradients go.

Saving follows PyTorch: inputs are packed before an operator computes, outputs afterwards, and numbers
bypass the saved-tensor hooks. Reference: torch/csrc/autograd/saved_variable.cpp.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from membudget.sized.tensor import Tensor

if TYPE_CHECKING:
    from membudget.sized.session import Session

Gradients = Sequence["Tensor | None"]
Backward = Callable[["Session", "Node", Gradients, list[Tensor]], Gradients]
"""(session, node, incoming gradients, unpacked saved tensors) -> a gradient per input."""


class InputMeta(NamedTuple):
    """What an input looked like: its gradient is reduced and cast to that."""

    shape: tuple[int, ...]
    dtype: str
    name: str


class SavedTensorHooks(Protocol):
    """What stands between an operator and what it saves: checkpointing."""

    def pack(self, tensor: Tensor) -> object: ...

    def unpack(self, packed: object) -> Tensor: ...


class Edge(NamedTuple):
    """Where a gradient goes: an input of a node, or a leaf tensor."""

    target: Node | Leaf
    slot: int


class Leaf:
    """The end of the graph: adds gradients up in `tensor.grad` (PyTorch's AccumulateGrad)."""

    __slots__ = ("tensor",)

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor


class Node:
    """One operator of the backward graph; `sequence` is its place in the order of execution."""

    __slots__ = (
        "backward",
        "context",
        "edges",
        "inputs",
        "name",
        "num_outputs",
        "outputs",
        "provenance",
        "saved",
        "scope",
        "sequence",
    )

    def __init__(self, name: str, scope: str, provenance: str, sequence: int, backward: Backward) -> None:
        self.name = name
        self.scope = scope
        self.provenance = provenance
        self.sequence = sequence
        self.backward = backward
        self.edges: list[Edge | None] = []
        self.inputs: list[InputMeta] = []
        self.outputs: list[InputMeta] = []
        self.saved: list[tuple[SavedTensorHooks | None, object]] = []
        self.num_outputs = 1
        self.context: object = None

    def needs(self, index: int) -> bool:
        """Whether input `index` wants a gradient."""
        return self.edges[index] is not None

    def unpack(self) -> list[Tensor]:
        """The saved tensors, in the order in which they were saved."""
        tensors: list[Tensor] = []
        for hooks, packed in self.saved:
            if hooks is None:
                assert isinstance(packed, Tensor)
                tensors.append(packed)
            else:
                tensors.append(hooks.unpack(packed))
        return tensors

    def release(self) -> None:
        """Drop what was saved; a graph runs backward once. A custom Function's context lives as long as its node."""
        self.saved.clear()
