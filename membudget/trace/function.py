"""A user's own loss traced: forward, then backward through what it returned."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from membudget.allocator import block_bytes
from membudget.errors import UsageError
from membudget.trace.arguments import Arguments, Sizes, arguments_of
from membudget.trace.cuda_choices import cuda_choices
from membudget.trace.failures import user_code
from membudget.trace.lines import outermost
from membudget.trace.result import Trace
from membudget.trace.target import find_function
from membudget.trace.tracing import DEVICE, faking, named_dims, observed, observing

RAN_BACKWARD = "the function ran backward itself, so all of it counts as forward"


def trace_target(target: str, sizes: Sizes, given: Mapping[str, Any], wanted: Collection[str]) -> Trace:
    """The loss that `module:function` or `file.py:function` names; see trace_function.

    What its module makes when it is imported counts as being on the GPU before the loss begins.
    """
    with faking():
        with user_code(f"importing {target.rpartition(':')[0]}"), cuda_choices(), torch.device(DEVICE):
            function = find_function(target)
        return _trace(function, Request(target, sizes, given, wanted))


def trace_function(
    function: Callable[..., Any],
    sizes: Sizes,
    given: Mapping[str, Any] | None = None,
    wanted: Collection[str] = (),
    *,
    rounding: Callable[[int], int] = block_bytes,
) -> Trace:
    """One forward and backward of a loss, counted beyond its arguments (see arguments_of for `given` and `wanted`).

    The loss is what the function returns, or the first of a tuple or list, or `loss` of a mapping or object; the
    rest of what it returns stays alive until backward has run. UsageError where the code fails, naming its line.
    """
    with faking():
        return _trace(function, Request(_name_of(function), sizes, given or {}, wanted, rounding))


@dataclass(frozen=True)
class Request:
    """How a function is traced."""

    name: str
    sizes: Sizes
    given: Mapping[str, Any]
    wanted: Collection[str]
    rounding: Callable[[int], int] = block_bytes


@outermost
def _trace(function: Callable[..., Any], request: Request) -> Trace:
    sizes, called = request.sizes, _name_of(function)
    arguments = arguments_of(function, sizes, request.given, request.wanted, DEVICE)
    with observing(named_dims(tokens=sizes.tokens, vocab=sizes.vocab, hidden_size=sizes.hidden or 0)) as observer:
        observer.log.phase("forward")
        with user_code(f"{called} in forward"):
            returned = function(*arguments.positional, **arguments.by_name)
        loss = loss_of(returned, called)
        observer.log.phase("backward")
        notes = _run_backward(loss, arguments, called)
        outlive = [loss, *_tensors_of(returned), *(leaf.grad for leaf in arguments.leaves)]
        timeline, findings = observed(observer, request.rounding, outlive)
        del returned
    return Trace(request.name, _settings(sizes), timeline, findings, notes=notes)


def _name_of(function: Callable[..., Any]) -> str:
    return getattr(function, "__name__", type(function).__name__)


def loss_of(returned: Any, name: str) -> Tensor:
    """The loss among what a function returned. UsageError when there is none, or when it is no scalar."""
    loss = returned
    if isinstance(returned, Mapping):
        loss = returned.get("loss")
    elif isinstance(returned, tuple | list) and not hasattr(returned, "loss"):
        loss = returned[0] if returned else None
    elif not isinstance(returned, Tensor):
        loss = getattr(returned, "loss", None)
    if not isinstance(loss, Tensor):
        raise UsageError(
            f"{name} returned {type(returned).__name__} without a loss: return the loss, a tuple that begins with it, "
            f"or a mapping with the key loss"
        )
    if loss.numel() != 1:
        shape = " x ".join(str(size) for size in loss.shape)
        raise UsageError(f"{name} returned a tensor of {shape}: reduce it to one number, as backward needs it")
    return loss


def _tensors_of(returned: Any) -> list[Tensor]:
    """What the caller got, two levels deep: it lives as long as the caller wants."""
    found = []
    for value in _members(returned):
        found += [each for each in (value, *_members(value)) if isinstance(each, Tensor)]
    return found


def _members(value: Any) -> tuple[Any, ...]:
    if isinstance(value, Tensor):
        return ()
    if isinstance(value, Mapping):
        return tuple(value.values())
    return tuple(value) if isinstance(value, tuple | list) else tuple(getattr(value, "__dict__", {}).values())


def _run_backward(loss: Tensor, arguments: Arguments, name: str) -> tuple[str, ...]:
    if not loss.requires_grad:
        if any(leaf.grad is not None for leaf in arguments.leaves):
            return (RAN_BACKWARD,)
        raise UsageError(
            f"the loss of {name} has no graph: it was detached, computed under torch.no_grad(), or does not depend on "
            f"logits or hidden states"
        )
    with user_code(f"{name} in backward"):
        torch.autograd.backward(loss)
    return ()


def _settings(sizes: Sizes) -> str:
    hidden = "" if sizes.hidden is None else f", hidden {sizes.hidden:,}, head {_head(sizes)}"
    return f"{sizes.tokens:,} tokens x {sizes.vocab:,} vocab{hidden}, {sizes.dtype}"


def _head(sizes: Sizes) -> str:
    return "trainable" if sizes.train_head else "frozen"
