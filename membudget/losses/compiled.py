"""The loss part under torch.compile, logits and targets in full outside of it."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from membudget.losses.torch_ops import TorchOps
from membudget.programs.sums import PlainSums, Sums, WeightedSums
from membudget.programs.terms import TermSettings, added_up

BACKEND = "inductor"
"""What torch.compile compiles with."""


def compiled_loss(
    terms: tuple[TermSettings, ...],
    logits: Tensor,
    targets: Tensor | None,
    labels: Tensor | None,
    token_weights: Tensor | None,
    divisor: float,
) -> Tensor:
    """The sum over the terms, over a divisor, as one compiled graph."""
    result: Tensor = _compiled(terms, BACKEND)(logits, targets, labels, token_weights, divisor)
    return result


@lru_cache(maxsize=32)
def _compiled(terms: tuple[TermSettings, ...], backend: str) -> Callable[..., Any]:
    """One function, and so one cache of graphs, per choice of terms."""

    def loss(
        logits: Tensor, targets: Tensor | None, labels: Tensor | None, token_weights: Tensor | None, divisor: float
    ) -> Tensor:
        ops = TorchOps()
        sums: Sums[Tensor] = PlainSums(ops)
        if token_weights is not None:
            sums = WeightedSums(ops, token_weights)
            # What stands in rows that do not count is replaced where it is read: fused, that costs no memory.
            logits = logits.masked_fill((token_weights == 0).unsqueeze(-1), 0)
        if labels is None and targets is not None:
            labels = targets.argmax(-1)
        return added_up(ops, sums, terms, logits, targets, labels, divisor)

    return torch.compile(loss, backend=backend)
