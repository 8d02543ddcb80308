"""What a loss is given, checked and brought into the shapes of the programs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Head:
    """Logits that need not exist: hidden states [..., hidden] and the weight of the output head [vocab, hidden].

    Both have one dtype, unless autocast is active, which casts them as it would for a linear layer. A head that wants
    no gradient (`weight.requires_grad` is False) is frozen and gets none.
    """

    hidden: Tensor
    weight: Tensor


Logits = Tensor | Head
"""Logits in full, [..., vocab], or what makes them."""


@dataclass(frozen=True)
class Rows:
    """One side, teacher or student, as matrices: either logits in full, or hidden states and a head."""

    full: Tensor | None
    """[tokens, vocab]"""
    hidden: Tensor | None
    """[tokens, hidden]"""
    weight: Tensor | None
    """[vocab, hidden]"""
    shape: tuple[int, ...]
    """The leading dimensions as they were given: what labels and masks must have."""

    @property
    def source(self) -> Tensor:
        """What is cut into chunks of tokens."""
        source = self.full if self.hidden is None else self.hidden
        assert source is not None
        return source

    @property
    def num_tokens(self) -> int:
        return self.source.shape[0]

    @property
    def vocab(self) -> int:
        return self.source.shape[1] if self.weight is None else self.weight.shape[0]

    @property
    def wants_gradient(self) -> bool:
        """Whether a backward pass through this side would reach anything."""
        weight = self.weight is not None and self.weight.requires_grad
        return torch.is_grad_enabled() and (self.source.requires_grad or weight)

    def detached(self) -> Rows:
        """The same without a graph."""
        return Rows(_detach(self.full), _detach(self.hidden), _detach(self.weight), self.shape)


def rows_of(name: str, given: object) -> Rows:
    """Logits or a Head as matrices. ValueError for what is neither, or does not fit together."""
    if isinstance(given, Head):
        return _rows_of_head(name, given)
    if not isinstance(given, Tensor):
        raise ValueError(f"{name} must be a tensor [..., vocab] or a Head(hidden, weight), not {type(given).__name__}")
    _check_floating(name, given)
    return Rows(_flat(name, given), None, None, tuple(given.shape[:-1]))


def _rows_of_head(name: str, head: Head) -> Rows:
    hidden, weight = _cast_as_autocast(head.hidden), _cast_as_autocast(head.weight)
    _check_floating(f"{name}: hidden", hidden)
    check_same_device({f"{name}: hidden": hidden, f"{name}: weight": weight})
    if weight.ndim != 2 or hidden.ndim == 0 or hidden.shape[-1] != weight.shape[1]:
        raise ValueError(
            f"{name}: hidden {list(hidden.shape)} and weight {list(weight.shape)} do not fit: "
            f"they must be [..., hidden] and [vocab, hidden]"
        )
    if hidden.dtype != weight.dtype:
        raise ValueError(
            f"{name}: hidden is {hidden.dtype} and weight {weight.dtype}: cast one of them, or run under torch.autocast"
        )
    return Rows(None, _flat(f"{name}: hidden", hidden), weight, tuple(hidden.shape[:-1]))


def _cast_as_autocast(x: Tensor) -> Tensor:
    """What autocast feeds a matrix product, cast here once: inside chunks it would be cast once per chunk."""
    kind = x.device.type
    if not torch.amp.is_autocast_available(kind) or not torch.is_autocast_enabled(kind):
        return x
    return x.to(torch.get_autocast_dtype(kind)) if x.is_floating_point() and x.dtype != torch.float64 else x


def _flat(name: str, x: Tensor) -> Tensor:
    if x.ndim < 2:
        raise ValueError(f"{name} has shape {list(x.shape)}: it must have a dimension of tokens, [..., tokens, width]")
    return x if x.ndim == 2 else x.reshape(-1, x.shape[-1])


def _check_floating(name: str, x: Tensor) -> None:
    if not x.is_floating_point():
        raise ValueError(f"{name} is {x.dtype}: it must be bf16, fp16, fp32 or fp64")


def check_same_device(tensors: dict[str, Tensor]) -> None:
    """ValueError, naming both, when two tensors live on different devices."""
    (first, one), *others = tensors.items()
    for name, other in others:
        if other.device != one.device:
            raise ValueError(f"{name} is on {other.device} and {first} on {one.device}: move one of them")


def check_leading_shape(shape: tuple[int, ...], tensors: Iterable[tuple[str, Tensor | None]]) -> None:
    """ValueError for one that has not one value per token."""
    for name, tensor in tensors:
        if tensor is not None and tuple(tensor.shape) != shape:
            raise ValueError(f"{name} has shape {list(tensor.shape)}, but the logits have tokens {list(shape)}")


def _detach(x: Tensor | None) -> Tensor | None:
    return None if x is None else x.detach()
