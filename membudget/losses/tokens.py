"""Which tokens count, how much, and by what the sum is divided: on the device, without waiting for it."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite

import torch
from torch import Tensor

IGNORED = -100
"""The label that F.cross_entropy ignores by itself; every token that does not count gets it."""


@dataclass(frozen=True)
class Tokens:
    """What is known of each token, in the shapes of the programs."""

    labels: Tensor | None
    """[tokens], int64; IGNORED where a token does not count."""
    weights: Tensor | None
    """[tokens]; None when every token counts once and sums are taken in their own dtype."""
    divisor: float | Tensor
    """A tensor without dimensions where there are weights."""


@dataclass(frozen=True)
class TokenChoice:
    """Mask, weights and divisor as the caller gave them."""

    mask: Tensor | None = None
    ignore_index: int | None = None
    weights: Tensor | None = None
    divisor: float | Tensor | None = None


def tokens_of(
    like: Tensor, num_tokens: int, labels: Tensor | None, choice: TokenChoice, *, sums_of_rows: bool
) -> Tokens:
    """Labels, weights and divisor. `like` has the logits' device and dtype; sums_of_rows: rows must be summed first."""
    valid = _valid(labels, choice)
    if valid is not None and labels is not None:
        labels = labels.masked_fill(~valid, IGNORED)
    given = choice.divisor
    if valid is None and choice.weights is None and not isinstance(given, Tensor) and not sums_of_rows:
        return Tokens(labels, None, float(max(num_tokens, 1)) if given is None else given)
    dtype = torch.float64 if like.dtype == torch.float64 else torch.float32
    weights = _weights(like, num_tokens, valid, choice.weights, dtype)
    if given is None:
        count = float(num_tokens) if valid is None else valid.sum()
        return Tokens(labels, weights, _scalar(like, count, dtype).clamp(min=1))
    divisor = _scalar(like, given, dtype)
    # No token anywhere: the sum is zero, and so shall the loss be.
    return Tokens(labels, weights, divisor.masked_fill(divisor == 0, 1) if isinstance(given, Tensor) else divisor)


def _valid(labels: Tensor | None, choice: TokenChoice) -> Tensor | None:
    """[tokens], bool; None when nothing leaves any token out."""
    mask = None if choice.mask is None else choice.mask.reshape(-1)
    if labels is None or choice.ignore_index is None:
        return mask
    kept = labels != choice.ignore_index
    return kept if mask is None else kept & mask


def _weights(like: Tensor, num_tokens: int, valid: Tensor | None, given: Tensor | None, dtype: torch.dtype) -> Tensor:
    if given is None:
        return torch.ones(num_tokens, dtype=dtype, device=like.device) if valid is None else valid.to(dtype)
    weights = given.reshape(-1).to(dtype)
    return weights if valid is None else weights.masked_fill(~valid, 0)


def _scalar(like: Tensor, value: float | Tensor, dtype: torch.dtype) -> Tensor:
    if isinstance(value, Tensor):
        return value.detach().reshape(()).to(dtype)
    return torch.full((), value, dtype=dtype, device=like.device)


def check_choice(choice: TokenChoice) -> None:
    """ValueError for a mask, weights or a divisor of the wrong kind."""
    if choice.mask is not None and choice.mask.dtype != torch.bool:
        raise ValueError(f"mask is {choice.mask.dtype}: it must be bool, True for tokens that count (mask.bool())")
    weights = choice.weights
    if weights is not None and (not weights.is_floating_point() or weights.requires_grad):
        what = "wants a gradient, which it cannot get: detach it" if weights.requires_grad else f"is {weights.dtype}"
        raise ValueError(f"token_weights must be floating point without a graph, and it {what}")
    divisor = choice.divisor
    if isinstance(divisor, Tensor):
        if divisor.numel() != 1:
            raise ValueError(f"divisor has shape {list(divisor.shape)}: it must be one number")
    elif divisor is not None and not (isfinite(divisor) and divisor > 0):
        raise ValueError(f"divisor is {divisor}: it must be a positive number")


def check_labels(labels: Tensor, vocab: int) -> None:
    """ValueError for labels that are no token ids. Their range is looked at only where that makes nobody wait."""
    if labels.dtype != torch.int64:
        raise ValueError(f"labels are {labels.dtype}: they must be int64 token ids (labels.long())")
    if type(labels) is not Tensor or labels.device.type != "cpu" or torch.compiler.is_compiling():
        return
    wrong = labels[((labels < 0) | (labels >= vocab)) & (labels != IGNORED)]
    if wrong.numel():
        raise ValueError(
            f"labels contain {int(wrong[0])}, which is no token id of a vocabulary of {vocab:,}: "
            f"leave such tokens out with mask, or name their label with ignore_index"
        )
