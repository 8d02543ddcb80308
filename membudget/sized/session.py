"""The state of one run: recorder, device, gradient mode, sequence numbers, hooks; and the making of tensors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import prod
from typing import Literal

from membudget.allocator import block_bytes
from membudget.dtypes import ITEMSIZE
from membudget.sized.graph import Backward, Edge, InputMeta, Leaf, Node, SavedTensorHooks
from membudget.sized.tensor import Storage, Tensor
from membudget.timeline import Recorder

Device = Literal["cuda", "cpu"]
CATEGORIES = {"logits": "logits", "targets": "targets"}
"""Categories of tensors that have a name of their own in a budget; all others are part of the loss."""


class Session:
    """Everything the rules share. Rules are functions whose first argument is the session."""

    def __init__(self, recorder: Recorder, device: Device = "cuda") -> None:
        self.recorder = recorder
        self.device: Device = device
        self.grad_enabled = True
        self.hooks: list[SavedTensorHooks] = []
        self.scope_name = ""
        self.provenance = "exact"
        self._sequence = 0

    # -- tensors -------------------------------------------------------------------------------------

    def new(
        self,
        name: str,
        shape: tuple[int, ...],
        dtype: str,
        *,
        like: Tensor | None = None,
        strides: tuple[int, ...] | None = None,
    ) -> Tensor:
        """Allocate a tensor where `like` lives; an event unless it lives on the host of a GPU."""
        on_host = like is not None and like.on_host
        full_name = f"{self.scope_name} {name}" if self.scope_name else name
        storage = self._storage(full_name, shape, dtype, on_host)
        return Tensor(shape, dtype, storage, strides=strides, on_host=on_host)

    def _storage(self, name: str, shape: tuple[int, ...], dtype: str, on_host: bool) -> Storage:
        if on_host and self.device != "cpu":
            return Storage(name, None, -1)
        nbytes = prod(shape) * ITEMSIZE[dtype]
        if self.device == "cuda":
            nbytes = block_bytes(nbytes)
        category = CATEGORIES.get(name, "loss")
        handle = self.recorder.allocate(name, category, nbytes, shape=shape, dtype=dtype, provenance=self.provenance)
        return Storage(name, self.recorder, handle)

    def host_copy(self, x: Tensor) -> Tensor:
        """A copy of `x` in the host's memory; an event only where host and device are one."""
        storage = self._storage(f"host copy of {x.name}", x.shape, x.dtype, on_host=True)
        return Tensor(x.shape, x.dtype, storage, on_host=True)

    def external(self, name: str, shape: tuple[int, ...], dtype: str, *, requires_grad: bool = False) -> Tensor:
        """A tensor somebody else accounts for: hidden states, the head's weight, labels."""
        tensor = Tensor(shape, dtype, Storage(name, None, -1))
        tensor.requires_grad = requires_grad
        return tensor

    def view(self, of: Tensor, shape: tuple[int, ...], strides: tuple[int, ...] | None) -> Tensor:
        """A tensor over the same storage; it keeps the tensor it was taken from alive."""
        base = of.base if of.base is not None else of
        return Tensor(shape, of.dtype, of.storage, strides=strides, base=base, on_host=of.on_host)

    # -- graph ---------------------------------------------------------------------------------------

    def node(self, name: str, inputs: Sequence[Tensor], backward: Backward) -> Node | None:
        """The node of an operator over `inputs`, or None when no gradient will be asked for."""
        if not self.grad_enabled or not any(tensor.requires_grad for tensor in inputs):
            return None
        self._sequence += 1
        node = Node(name, self.scope_name, self.provenance, self._sequence, backward)
        for tensor in inputs:
            node.inputs.append(InputMeta(tensor.shape, tensor.dtype, tensor.name))
            node.edges.append(self._edge(tensor))
        return node

    @staticmethod
    def _edge(tensor: Tensor) -> Edge | None:
        if not tensor.requires_grad:
            return None
        if tensor.node is None:
            return Edge(Leaf(tensor), 0)
        return Edge(tensor.node, tensor.output_index)

    def save(self, node: Node, *tensors: Tensor) -> None:
        """Save inputs for backward; numbers bypass the hooks."""
        for tensor in tensors:
            hooks = self.hooks[-1] if self.hooks and not tensor.wrapped_number else None
            node.saved.append((hooks, tensor if hooks is None else hooks.pack(tensor)))

    def save_operands(self, node: Node, a: Tensor, b: Tensor) -> None:
        """Save what a product needs for backward: each side only if the other needs a gradient."""
        self.save(node, *([b] if a.requires_grad else []), *([a] if b.requires_grad else []))

    def save_output(self, node: Node, tensor: Tensor) -> None:
        """Save an output: another tensor object over its storage, so that no cycle arises."""
        self.save(node, self.alias(tensor))

    def alias(self, tensor: Tensor) -> Tensor:
        """`detach()`: the same bytes without a graph."""
        return Tensor(
            tensor.shape,
            tensor.dtype,
            tensor.storage,
            strides=tensor.strides,
            base=tensor.base,
            on_host=tensor.on_host,
        )

    def attach(self, output: Tensor, node: Node | None, index: int = 0) -> Tensor:
        """Make `output` the result number `index` of `node`."""
        if node is not None:
            output.requires_grad = True
            output.node = node
            output.output_index = index
            node.outputs.append(InputMeta(output.shape, output.dtype, output.name))
        return output

    # -- modes ---------------------------------------------------------------------------------------

    @contextmanager
    def grad_mode(self, enabled: bool) -> Iterator[None]:
        before, self.grad_enabled = self.grad_enabled, enabled
        try:
            yield
        finally:
            self.grad_enabled = before

    @contextmanager
    def scope(self, name: str) -> Iterator[None]:
        """Names of tensors allocated inside begin with `name`."""
        before, self.scope_name = self.scope_name, name
        try:
            yield
        finally:
            self.scope_name = before

    @contextmanager
    def modelled(self) -> Iterator[None]:
        """What is allocated inside, and by its backward, follows a rule that no run has confirmed."""
        before, self.provenance = self.provenance, "modelled"
        try:
            yield
        finally:
            self.provenance = before

    @contextmanager
    def saving_with(self, hooks: SavedTensorHooks) -> Iterator[None]:
        """What operators save inside passes through `hooks`."""
        self.hooks.append(hooks)
        try:
            yield
        finally:
            self.hooks.pop()
