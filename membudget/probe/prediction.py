"""What the engine says about the section that is probed."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from membudget.allocator import block_bytes
from membudget.calculator.loss import MAX_CHUNKS, section_timeline
from membudget.calculator.loss_request import LossRequest
from membudget.calculator.loss_run import run_section
from membudget.config.loss import Term
from membudget.dtypes import ITEMSIZE
from membudget.errors import UsageError
from membudget.timeline import Timeline

Kind = Literal["cuda", "cpu"]
"""Whose rules count: CUDA's with blocks of 512 B, or those of the CPU, which rounds nothing."""


def predicted(request: LossRequest, kind: Kind) -> Timeline:
    """The section alone, from the teacher's logits to the end of its backward. UsageError for what is not priced."""
    if kind == "cuda":
        return section_timeline(request).until("backward")
    if request.num_chunks > MAX_CHUNKS:
        raise UsageError(
            f"{request.num_chunks:,} chunks; on the CPU no more than {MAX_CHUNKS:,} are run: choose a larger chunk"
        )
    return run_section(request, device="cpu").until("backward")


def inputs_bytes(request: LossRequest) -> int:
    """Hidden states, heads and labels in CUDA's blocks: what must be there before the section begins."""
    size = ITEMSIZE[request.logits_dtype]
    pair = block_bytes(request.tokens * request.hidden * size) + block_bytes(request.vocab * request.hidden * size)
    labels = block_bytes(request.tokens * ITEMSIZE["int64"]) if request.labels == "data" else 0
    return pair * (2 if request.needs_teacher else 1) + labels


def reduced(request: LossRequest, scale: int) -> LossRequest:
    """1/scale of the tokens, rounded up; the number of chunks stays, and the last one is shorter as before."""
    terms = tuple((name, _reduced_chunk(term, scale)) for name, term in request.terms)
    chunks = {term.chunk for _, term in request.terms if term.chunk is not None}
    tokens = -(-request.tokens // scale)
    if len(chunks) == 1:
        (chunk,) = chunks
        full, rest = divmod(request.tokens, min(chunk, request.tokens))
        tokens = full * -(-min(chunk, request.tokens) // scale) + -(-rest // scale)
    return replace(request, terms=terms, tokens=tokens)


def _reduced_chunk(term: Term, scale: int) -> Term:
    return term if term.chunk is None else term.model_copy(update={"chunk": -(-term.chunk // scale)})
