"""Running a graph backward, in PyTorch's order and with PyTorch's lifetimes.

Reference: torch/csrc/autograd/engine.cpp, input_buffer.cpp, functions/accumulate_grad.h. Ready nodes run by
highest sequence number, leaves at once. A node's incoming gradients are freed first, then what it saved,
then its outputs are passed on. Two gradients of one tensor are added in place only when nobody else can see
the first one.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush

from membudget.sized.casts import match_dtype, match_shape
from membudget.sized.graph import Edge, InputMeta, Leaf, Node
from membudget.sized.session import Session
from membudget.sized.tensor import Tensor, same_layout


def run_backward(session: Session, loss: Tensor, *, retain_graph: bool = False) -> None:
    """`loss.backward(retain_graph=...)`: gradients end in the `grad` of the leaves."""
    seed = _seed(session, loss)
    _Run(session, None, retain_graph).execute(loss, seed)


def gradients_of(session: Session, loss: Tensor, leaves: Sequence[Tensor]) -> list[Tensor]:
    """`torch.autograd.grad(loss, leaves)`: the leaves are all that wants a gradient in this graph."""
    seed = _seed(session, loss)
    run = _Run(session, {id(leaf) for leaf in leaves}, retain_graph=False)
    run.execute(loss, seed)
    return [run.captured.pop(id(leaf)) for leaf in leaves]


def _seed(session: Session, loss: Tensor) -> Tensor:
    """The root gradient, a tensor of ones; it lives until the backward pass returns."""
    seed = session.new("gradient seed", loss.shape, loss.dtype, like=loss)
    seed.holders = 1
    return seed


_FIRST = float("-inf")
"""Leaves run before every node that is ready."""


class _Run:
    """One backward pass."""

    def __init__(self, session: Session, captures: set[int] | None, retain_graph: bool) -> None:
        self.session = session
        self.retain_graph = retain_graph
        self.captures = captures
        self.captured: dict[int, Tensor] = {}
        self.waiting: dict[int, int] = {}
        self.buffers: dict[int, list[Tensor | None]] = {}
        self.ready: list[tuple[float, int, Node | Leaf]] = []
        self.pushed = 0

    def execute(self, loss: Tensor, seed: Tensor) -> None:
        assert loss.requires_grad, "the loss does not depend on anything that wants a gradient"
        root = Edge(Leaf(loss), 0) if loss.node is None else Edge(loss.node, loss.output_index)
        self._count_dependencies(root)
        session = self.session
        with session.grad_mode(False), session.scope(""):
            seed.holders += 1
            self._pass_on(seed, root)
            while self.ready:
                target = heappop(self.ready)[-1]
                if isinstance(target, Leaf):
                    self._finish_leaf(target.tensor)
                else:
                    self._evaluate(target)
        session.provenance = "exact"

    def _count_dependencies(self, root: Edge) -> None:
        self.waiting[_key(root)] = 1
        pending = [root.target]
        while pending:
            node = pending.pop()
            if isinstance(node, Leaf):
                continue
            for edge in node.edges:
                if edge is None:
                    continue
                key = _key(edge)
                if key not in self.waiting:
                    self.waiting[key] = 0
                    pending.append(edge.target)
                self.waiting[key] += 1

    def _evaluate(self, node: Node) -> None:
        incoming = self.buffers.pop(id(node))
        for gradient in incoming:
            if gradient is not None:
                gradient.holders -= 1
        self.session.provenance = node.provenance
        saved = node.unpack()
        outputs = list(node.backward(self.session, node, incoming, saved))
        saved.clear()
        gradient = None
        for index, edge in enumerate(node.edges):
            if edge is not None:
                self._match(outputs, index, node.inputs[index])
        del incoming
        if not self.retain_graph:
            node.release()
        self._pass_all_on(node, outputs)

    def _match(self, outputs: list[Tensor | None], index: int, meta: InputMeta) -> None:
        """Give an output the shape and the dtype of its input; what was summed dies before the sum is cast."""
        for match in (match_shape, match_dtype):
            output = outputs[index]
            if output is not None:
                outputs[index] = match(self.session, output, meta)

    def _pass_all_on(self, node: Node, outputs: list[Tensor | None]) -> None:
        """Hand each output on; one that was added to another gradient is freed when all have arrived."""
        for output in outputs:
            if output is not None:
                output.holders += 1
        output = None
        for index, edge in enumerate(node.edges):
            if edge is not None and self._pass_on(outputs[index], edge):
                outputs[index] = None
        for output in outputs:
            if output is not None:
                output.holders -= 1

    def _pass_on(self, gradient: Tensor | None, edge: Edge) -> bool:
        """Hand a gradient on; True when the buffer took over the caller's hold on it."""
        key = _key(edge)
        target = edge.target
        size = 1 if isinstance(target, Leaf) else target.num_outputs
        buffer = self.buffers.setdefault(key, [None] * size)
        taken = gradient is not None and buffer[edge.slot] is None
        if taken:
            buffer[edge.slot] = gradient
        elif gradient is not None:
            self._accumulate(buffer, edge.slot)
        self.waiting[key] -= 1
        if self.waiting[key] == 0:
            priority = _FIRST if isinstance(target, Leaf) else -target.sequence
            self.pushed += 1
            heappush(self.ready, (priority, self.pushed, target))
        return taken

    def _accumulate(self, buffer: list[Tensor | None], index: int) -> None:
        """Add to the gradient in the buffer: in place if nobody else can see it, else in a new tensor.

        An expanded gradient is never alone: it is a view, and a view keeps its base.
        """
        old = buffer[index]
        assert old is not None
        if old.holders == 1 and old.storage.tensors == 1:
            return
        old.holders -= 1
        buffer[index] = total = self.session.new(old.name, old.shape, old.dtype, like=old)
        total.holders = 1

    def _finish_leaf(self, leaf: Tensor) -> None:
        gradient = self.buffers.pop(id(leaf)).pop()
        if gradient is None:
            return
        alone = gradient.holders == 1
        gradient.holders -= 1
        if self.captures is not None:
            assert id(leaf) in self.captures, f"{leaf.name} wants a gradient that nobody asked for"
            self.captured[id(leaf)] = gradient
        elif leaf.grad is None and alone and same_layout(gradient, leaf):
            leaf.grad = self.session.alias(gradient)
        elif leaf.grad is None:
            leaf.grad = self.session.new(gradient.name, leaf.shape, leaf.dtype, like=leaf)


def _key(edge: Edge) -> int:
    """All edges to one leaf tensor meet in one accumulator."""
    target = edge.target
    return id(target.tensor) if isinstance(target, Leaf) else id(target)
