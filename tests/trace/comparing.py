"""A function of logits and targets, run by torch on the CPU and traced: both sequences, to be compared.

Numbers that Python hands to an operator become tensors of a few bytes on the host; they are no memory of a GPU and
are left out, and with them the scalars that a loss ends in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch

from membudget.losses.torch_ops import DTYPES
from membudget.sequence import canonical, signed_bytes
from membudget.trace.arguments import Sizes
from membudget.trace.function import trace_function
from tests.allocator_events import torch_events

SCALARS_BYTES = 16

Function = Callable[..., Any]


def allocator_sequence(function: Function, tokens: int, vocab: int, dtype: str) -> list[int]:
    """What the CPU allocator reports of forward and backward, the loss staying alive."""
    leaf = torch.randn(tokens, vocab).to(DTYPES[dtype]).requires_grad_()
    targets = torch.randn(tokens, vocab).to(DTYPES[dtype])
    logits = leaf.clone()
    kept = []

    def step() -> None:
        kept.append(function(logits, targets))
        kept[0].backward()

    return without_scalars(torch_events(step))


def traced_sequence(function: Function, tokens: int, vocab: int, dtype: str) -> list[int]:
    """What a trace says of the same, sizes as requested."""
    trace = trace_function(function, Sizes(tokens, vocab, dtype=dtype), rounding=lambda nbytes: nbytes)
    return without_scalars(signed_bytes(trace.timeline))


def without_scalars(events: Iterable[int]) -> list[int]:
    return canonical(nbytes for nbytes in events if abs(nbytes) > SCALARS_BYTES)
