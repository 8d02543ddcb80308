"""A dispatch mode that sees every storage being born and dying, and undoes what its own presence changes."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from membudget.losses.torch_ops import NAMES
from membudget.timeline import Dim
from membudget.trace.corrections import (
    FULL_STORAGE,
    IN_PLACE_IN_NODES,
    IN_PLACE_TWINS,
    WITH_TEMPORARIES,
    copies_for_blas,
    dense_first,
)
from membudget.trace.events import NO_SCOPE, Birth, EventLog, Place, Scope
from membudget.trace.lines import LineFinder, is_called_by_engine
from membudget.trace.names import words_of


class Observer(TorchDispatchMode):
    """Storages on `device` go into `log`; those of other devices, and of what came from outside, do not."""

    def __init__(self, device: str, lines: LineFinder, dims: Mapping[int, str]) -> None:
        """`dims`: names of sizes, such as {24576: "tokens"}."""
        super().__init__()  # type: ignore[no-untyped-call]
        self.log = EventLog()
        self.scope = NO_SCOPE
        self._device = device
        self._dims = {size: Dim(size, name) for size, name in dims.items()}
        self._lines = lines
        self._alive: dict[int, tuple[int, weakref.ref[Any]]] = {}
        self._node_of_birth: dict[int, object] = {}
        self._depth = 0

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """No: nothing is compiled in a trace, and what would keep the compiler out takes long to import."""
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        by_engine = is_called_by_engine()
        twin = _in_place_twin(func) if by_engine else None
        if twin is not None and self._is_temporary(args[0]):
            twin(*args, **(kwargs or {}))
            return args[0]
        if func in WITH_TEMPORARIES and not self._depth:
            steps = WITH_TEMPORARIES[func]
            args, _temporaries = self._under_the_mode(lambda: steps(*args, **(kwargs or {})))
        result = func(*dense_first(func, args), **(kwargs or {}))
        self._see(func, args, result, by_engine)
        if not self._depth:
            self._under_the_mode(lambda: copies_for_blas(func, args))
        return result

    @contextmanager
    def within(self, scope: Scope) -> Iterator[None]:
        """Storages born inside, and in the backward of what runs inside, are of this scope."""
        before, self.scope = self.scope, scope
        try:
            yield
        finally:
            self.scope = before

    # -- births and deaths ---------------------------------------------------------------------------

    def _see(self, func: Any, args: Any, result: Any, by_engine: bool) -> None:
        place, scope = self._lines.where(self.scope)
        outputs = [result] if isinstance(result, Tensor) else _tensors(result)
        for output in outputs:
            if output.device.type != self._device or not output.untyped_storage().nbytes():
                continue
            storage = output.untyped_storage()
            if storage._cdata in self._alive or self._came_in(storage, args):
                continue
            index = self._born(words_of(func, output), output, place, scope)
            if func in FULL_STORAGE and output.dim() == 0:
                self.log.births[index].nbytes = output.element_size() * max(args[0].numel(), args[1].numel())
            if by_engine and func is torch.ops.aten.add.Tensor and _may_accumulate(args, output):
                accumulated = self.number_of(args[0])
                if accumulated is not None:
                    self.log.sums.append((index, accumulated))

    def _came_in(self, storage: Any, args: Any) -> bool:
        """Whether an operator returned a view of something that was there before the trace began."""
        return any(tensor.untyped_storage()._cdata == storage._cdata for tensor in _tensors(args))

    def _born(self, words: str, output: Tensor, place: Place, scope: Scope) -> int:
        storage = output.untyped_storage()
        index = self.log.born(
            Birth(
                name=f"{scope.name} {words}" if scope.name else words,
                shape=tuple(self._dims.get(size, size) for size in output.shape),
                dtype=NAMES.get(output.dtype, str(output.dtype).removeprefix("torch.")),
                nbytes=storage.nbytes(),
                place=place,
                provenance=scope.provenance,
            )
        )
        key = storage._cdata
        self._alive[key] = index, weakref.ref(storage, lambda _: self._died(key))
        self._node_of_birth[index] = _current_node()
        return index

    def _died(self, key: int) -> None:
        index, _ = self._alive.pop(key)
        self._node_of_birth.pop(index, None)
        self.log.died(index)

    def number_of(self, tensor: Tensor) -> int | None:
        """The number of a tensor's storage in the log; None when it is not observed."""
        known = self._alive.get(tensor.untyped_storage()._cdata)
        return None if known is None else known[0]

    # -- corrections ---------------------------------------------------------------------------------

    def _is_temporary(self, tensor: Any) -> bool:
        """Whether it was born in the formula that is being computed."""
        number = self.number_of(tensor)
        node = _current_node()
        return number is not None and node is not None and self._node_of_birth.get(number) == node

    def _under_the_mode(self, steps: Callable[[], Any]) -> Any:
        """Run what a kernel does inside itself, where the mode does not look, under the mode."""
        self._depth += 1
        try:
            with self:
                return steps()
        finally:
            self._depth -= 1


def _tensors(values: Any) -> list[Tensor]:
    """The tensors of arguments or results, one level of lists deep."""
    found: list[Tensor] = []
    for value in values if isinstance(values, list | tuple) else (values,):
        if isinstance(value, Tensor):
            found.append(value)
        elif isinstance(value, list | tuple):
            found += [each for each in value if isinstance(each, Tensor)]
    return found


def _in_place_twin(func: Any) -> Callable[..., Any] | None:
    """What the formula of the node that runs would have called, but for the mode."""
    if func in IN_PLACE_TWINS:
        return IN_PLACE_TWINS[func]
    node = torch._C._current_autograd_node()
    return None if node is None else IN_PLACE_IN_NODES.get(node.name(), {}).get(func)


def _current_node() -> object:
    """Something equal for all that one node of the graph computes; None outside of backward."""
    task = torch._C._current_graph_task_id()
    if task == -1:
        return None
    node = torch._C._current_autograd_node()
    return None if node is None else (task, node.name(), node._sequence_nr())


def _may_accumulate(args: Any, output: Tensor) -> bool:
    """A sum of two gradients, the first dense and neither the second nor a view."""
    old, new = args[0], args[1]
    if not isinstance(new, Tensor) or old.shape != new.shape or old._is_view():
        return False
    if old.untyped_storage()._cdata == new.untyped_storage()._cdata:
        return False
    return bool(old.numel() * old.element_size() == old.untyped_storage().nbytes() and old.dtype == output.dtype)
