"""A trace behaves as CUDA does: its operators, its optimizers' lists, its device names."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor
from torch.autograd import graph
from torch.overrides import TorchFunctionMode
from torch.utils import _foreach_utils

from membudget.errors import UsageError
from membudget.trace.cuda_operators import CHOICES

_is_cuda = Tensor.is_cuda.__get__  # type: ignore[attr-defined]


class CudaChoices(TorchFunctionMode):
    """Calls pass through, but for those that CUDA runs differently; also in what backward recomputes."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func == _is_cuda:
            return args[0].device.type == "meta"
        if func is Tensor.cuda:
            return args[0].to("meta")
        choice = CHOICES.get(func)
        if choice is not None:
            result = choice(*args, **kwargs)
            if result is not NotImplemented:
                return result
        return func(*map(_device, args), **{name: _device(value) for name, value in kwargs.items()})


def _device(argument: Any) -> Any:
    """The traced device, where CUDA is named."""
    if isinstance(argument, str):
        return "meta" if argument == "cuda" or argument.startswith("cuda:") else argument
    if isinstance(argument, torch.device) and argument.type == "cuda":
        return torch.device("meta")
    return argument


@contextmanager
def cuda_choices() -> Iterator[None]:
    """PyTorch leaves function modes while it runs backward; recomputations and Functions inside it need this one."""
    run_backward = graph._engine_run_backward

    def run_backward_too(*args: Any, **kwargs: Any) -> Any:
        with CudaChoices():
            return run_backward(*args, **kwargs)

    optimizer = import_module("torch.optim.optimizer")
    with ExitStack() as stack:
        for owner, name, value in (
            (torch.autograd, "_engine_run_backward", run_backward_too),
            (torch, "compile", _not_compiled),
            (torch.autocast, "__init__", _no_autocast),
            (_foreach_utils, "_get_foreach_kernels_supported_devices", _foreach_devices),
            (optimizer, "_foreach_supported_types", [*optimizer._foreach_supported_types, FakeTensor]),
            (optimizer, "_get_foreach_kernels_supported_devices", _foreach_devices),
        ):
            stack.enter_context(patch.object(owner, name, value))
        stack.enter_context(CudaChoices())
        yield


def _not_compiled(model: Any = None, **settings: Any) -> Any:
    """torch.compile, left out: what a compiler fuses is priced by rule (method compiled), not traced."""
    return model if model is not None else lambda function: function


_make_autocast = torch.autocast.__init__


def _no_autocast(region: Any, device_type: str, dtype: Any = None, enabled: bool = True, **settings: Any) -> None:
    """CUDA's autocast is off where there is no CUDA, and the CPU's has other rules: sizes would be wrong."""
    if enabled and device_type != "cpu":
        raise UsageError(
            "autocast regions are not traced: cast where the model would (logits.to(torch.bfloat16)), or describe the "
            "loss in a configuration with `loss.autocast: true`"
        )
    _make_autocast(region, device_type, dtype, enabled, **settings)


def _foreach_devices() -> list[str]:
    """Where optimizers and clipping work on lists of tensors: they do on CUDA."""
    return ["meta", "cuda"]
