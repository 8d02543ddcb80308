"""How F.linear_cross_entropy of PyTorch 2.13 lays out a call: chunks, dtypes and scratch buffers.

Source: torch/nn/modules/linear_cross_entropy_options.py (chunks and policies) and `_ChunkContext.build` of
torch/nn/modules/linear_cross_entropy.py (dtypes and buffers), for LinearCrossEntropyOptions() as it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

LOOPS_IN_FULL = 64
"""Chunks that are run one by one; each frees what it allocates, so of more only the last adds anything."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Which dtypes and scratch buffers the library chooses for a device and a dtype of the hidden states."""

    dtype: str
    """Of hidden states and head."""
    accumulated: str
    """Of sums, of the loss's parts and of the tokens' weights."""
    logits: str
    loss: str
    """Of the running loss."""
    gradient: str
    """Of the gradient of the hidden states while it is computed."""
    halved: bool
    """Whether a chunk is half of what the shapes suggest."""
    casts_head: bool
    """Whether a copy of the head is made in the dtype of the logits."""
    stages_head_gradient: bool
    """Whether each chunk's product goes through a buffer of the head's size."""
    copies_logits: bool
    """Whether the gradient of the logits is cast to the dtype of the head for the products."""

    @property
    def mixed(self) -> bool:
        return self.accumulated != self.dtype


def layout_of(dtype: str, *, cuda: bool) -> Layout:
    """fp32 has one layout everywhere; bf16 and fp16 have one on a CPU and another on a GPU."""
    loss = "fp32" if dtype == "fp16" else dtype
    if dtype == "fp32":
        return Layout(dtype, dtype, dtype, loss, dtype, True, False, False, False)
    if not cuda:
        return Layout(dtype, "fp32", "fp32", loss, "fp32", False, True, True, False)
    logits = "fp16" if dtype == "fp16" else "fp32"
    return Layout(dtype, "fp32", logits, loss, dtype, True, False, False, logits != dtype)


def chunk_size(tokens: int, vocab: int, hidden: int, *, halved: bool) -> int:
    """Tokens per chunk: the logits of a chunk have about as many elements as the hidden states of all."""
    target = -(-tokens // -(-vocab // hidden))
    power = 1 << (target - 1).bit_length()
    return max(1, min(power // (2 if halved else 1), tokens))


def rows_of_chunks(tokens: int, chunk: int) -> Iterator[int]:
    """Rows of each chunk, of the first LOOPS_IN_FULL and the last."""
    full, rest = divmod(tokens, chunk)
    yield from [chunk] * min(full, LOOPS_IN_FULL)
    if rest:
        yield rest
