"""What a plan should say in words: whether chunks help, and what the same objective costs by other methods.

Every sentence is computed by planning the changed configuration; nothing is printed that was not priced.
"""

from __future__ import annotations

from dataclasses import replace

from membudget.calculator.loss import LossRequest, price_loss, with_method
from membudget.calculator.plan import make_plan
from membudget.calculator.result import GpuPlan, LossPrice, Plan
from membudget.config.loss import Loss, Term
from membudget.config.models import Config
from membudget.units import format_gb

SUMMED = frozenset({"chunked", "chunked_slices"})
"""Methods that add chunk losses up under plain autograd."""

ALTERNATIVES = ("chunked_checkpoint", "grad_in_forward", "fused_head", "fused_head_grad_in_forward")
"""Methods that keep objective and gradient exact, from the smallest change of the code to the largest."""

DEFAULT_CHUNK = 4096
"""Tokens per chunk of an alternative when the configuration names no chunk."""


def plan_with_notes(config: Config, *, name: str, limit_bytes: int | None = None) -> Plan:
    """make_plan, and what is worth saying about the loss."""
    plan = make_plan(config, name=name, limit_bytes=limit_bytes)
    notes = chunk_notes(LossRequest.of(config))
    if not _drafter(plan).fits:
        notes += alternative_notes(config, name=name, limit_bytes=limit_bytes)
    return replace(plan, notes=tuple(notes))


def chunk_notes(request: LossRequest) -> list[str]:
    """For terms whose chunk losses are summed: what is held, beside what one pass holds."""
    notes = []
    for name, term in request.terms:
        if term.method in SUMMED:
            assert term.chunk is not None
            alone = replace(request, terms=((name, term),))
            notes.append(_chunk_note(name, term.chunk, price_loss(alone), price_loss(_whole(alone))))
    return notes


def _whole(request: LossRequest) -> LossRequest:
    return with_method(request, "whole", None)


def _chunk_note(name: str, chunk: int, chunked: LossPrice, whole: LossPrice) -> str:
    compared = "as one pass" if _same(chunked.held_bytes, whole.held_bytes) else "where one pass holds"
    return (
        f"{name} in chunks of {chunk:,}, losses summed, holds {format_gb(chunked.held_bytes)} from forward to "
        f"backward, {compared} ({format_gb(whole.held_bytes)}): every chunk keeps its own softmax. "
        f"Only temporaries shrink (peak {format_gb(whole.peak_bytes)} -> {format_gb(chunked.peak_bytes)})."
    )


def _same(left: int, right: int) -> bool:
    """Equal but for the scalars of the loop."""
    return abs(left - right) < 2**20


def alternative_notes(config: Config, *, name: str, limit_bytes: int | None) -> list[str]:
    """The same objective by methods with exact gradients, each planned in full."""
    notes = []
    for method in ALTERNATIVES:
        changed = with_loss_method(config, method)
        gpu = _drafter(make_plan(changed, name=name, limit_bytes=limit_bytes))
        verdict = "fits" if gpu.fits else f"over by {format_gb(-gpu.margin_bytes)}"
        chunk = next(term.chunk for _, term in changed.loss.terms())
        notes.append(
            f"every term by {method}, chunk {chunk:,}: {format_gb(gpu.compared_bytes)} {gpu.compare}, {verdict} "
            f"(same objective, exact gradients)"
        )
    return notes


def with_loss_method(config: Config, method: str) -> Config:
    """The configuration with every term of the loss computed by one chunking method."""
    chunks = [term.chunk for _, term in config.loss.terms() if term.chunk is not None]
    chunk = min(chunks, default=min(DEFAULT_CHUNK, config.batch.loss_tokens))
    terms: dict[str, Term] = {
        name: term.model_copy(update={"method": method, "chunk": chunk}) for name, term in config.loss.terms()
    }
    loss: Loss = config.loss.model_copy(update=terms)
    return config.model_copy(update={"loss": loss})


def _drafter(plan: Plan) -> GpuPlan:
    return next(gpu for gpu in plan.gpus if gpu.role == "drafter")
