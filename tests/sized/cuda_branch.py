"""What a library would allocate on a GPU: its own code, run on a CPU that calls itself CUDA.

Tensors say that they are on CUDA, so that the library takes the branches of a GPU. What operators return is recorded
by its storage, in blocks of the GPU; what a CPU's kernels allocate inside themselves does not count. A product into
another dtype, which a CPU does not have, fills its output with zeros.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from membudget.allocator import block_bytes

CUDA = torch.device("cuda")


class _CallsItselfCuda(TorchFunctionMode):
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if getattr(func, "__name__", "") == "__get__" and func.__self__ is torch.Tensor.device:
            return CUDA
        if kwargs.get("device") == CUDA:
            kwargs["device"] = torch.device("cpu")
        if func is torch.mm and "out_dtype" in kwargs:
            return kwargs["out"].zero_()
        return func(*args, **kwargs)


class _Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Signed bytes of each storage that appears and disappears, but those of the inputs."""

    def __init__(self, *inputs: torch.Tensor) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.events: list[int] = []
        self._known = {tensor.untyped_storage()._cdata for tensor in inputs}
        self._references: list[weakref.ref[torch.UntypedStorage]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(result):
            if isinstance(leaf, torch.Tensor):
                self._note(leaf.untyped_storage())
        return result

    def _note(self, storage: torch.UntypedStorage) -> None:
        key, nbytes = storage._cdata, block_bytes(storage.nbytes())
        if key in self._known or not nbytes:
            return
        self._known.add(key)
        self.events.append(nbytes)

        def gone(_: object) -> None:
            self._known.discard(key)
            self.events.append(-nbytes)

        self._references.append(weakref.ref(storage, gone))


def events_on_cuda(program: Callable[[], object], *inputs: torch.Tensor) -> list[int]:
    """Signed bytes of what `program` allocates and frees, without a graph, up to its end; its result is still alive."""
    recorder = _Recorder(*inputs)
    with torch.no_grad(), recorder, _CallsItselfCuda():
        result = program()
    events = list(recorder.events)
    assert result is not None
    return events


def forward_events(
    hidden: torch.Tensor, weight: torch.Tensor, labels: torch.Tensor, chunk: int, *, train_weight: bool
) -> list[int]:
    """Of F.linear_cross_entropy's forward pass, by the policy it has for a GPU."""
    from torch.nn.modules.linear_cross_entropy import _linear_cross_entropy_batch_chunked_accumulator as run

    options = (None, None, "sum", -100, 0.0, chunk, "compact", torch.float32, True, train_weight, False)
    return events_on_cuda(lambda: run(hidden, weight, labels, *options), hidden, weight, labels)
