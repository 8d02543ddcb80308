"""What a plan should say in words: whether chunks help, and what the same objective costs by other methods.

Every sentence is computed by planning the changed configuration; nothing is printed that was not priced.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from membudget.calculator.loss import price_loss
from membudget.calculator.loss_request import DEFAULT_CHUNK, LossRequest, by_method, with_method
from membudget.calculator.plan import drafter_plan, make_plan
from membudget.calculator.result import GpuPlan, LossPrice, Plan
from membudget.config.loss import SUMMED_METHODS, Loss, Term
from membudget.config.models import Config
from membudget.units import format_gb

SAVING = frozenset({"whole", *SUMMED_METHODS})
"""Methods under which autograd saves vocabulary-sized tensors."""

ON_LOGITS = ("chunked", "chunked_checkpoint", "grad_in_forward")
ON_HIDDEN_STATES = ("fused_head", "fused_head_grad_in_forward")
"""Methods that keep objective and gradient exact, from the smallest change of the code to the largest."""

FEWEST_CHUNKS = 6
"""With few tokens the chunk of an alternative is smaller, so that there are at least so many."""

APPROXIMATE = (
    "kl_topk leaves out the teacher's tail beyond its k tokens: its gradient is approximate, "
    "and how far off it is depends on the data"
)


def plan_with_notes(config: Config, *, name: str, limit_bytes: int | None = None) -> Plan:
    """make_plan, and what is worth saying about the loss."""
    plan = make_plan(config, name=name, limit_bytes=limit_bytes)
    notes = chunk_notes(LossRequest.of(config))
    if config.loss.kl_topk is not None:
        notes.append(APPROXIMATE)
    if not _drafter(plan).fits:
        notes += alternative_notes(config, _drafter(plan), limit_bytes=limit_bytes)
    if any(gpu.role == "target" and not gpu.fits for gpu in plan.gpus):
        notes.append("a target GPU is over: with more target GPUs each holds a smaller share of the weights")
    return replace(plan, notes=tuple(notes))


def chunk_notes(request: LossRequest) -> list[str]:
    """For terms whose chunk losses are summed: what is held, beside what one pass holds."""
    notes = []
    for name, term in request.terms:
        if term.method in SUMMED_METHODS and term.chunk is not None and term.chunk < request.tokens:
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


def alternative_notes(config: Config, gpu: GpuPlan, *, limit_bytes: int | None) -> list[str]:
    """The same objective by other methods, each planned in full: those that fit first, none that needs more."""
    fitting: list[str] = []
    short: list[str] = []
    for names, changed in alternatives(config):
        other = drafter_plan(changed, limit_bytes=limit_bytes)
        if other.compared_bytes < gpu.compared_bytes:
            (fitting if other.fits else short).append(_alternative_note(changed, names, other))
    if not fitting:
        short.append("no method of the loss alone is enough: something else has to become smaller")
    return fitting + short


def alternatives(config: Config) -> Iterator[tuple[list[str], Config]]:
    """Names of the terms that change, and the changed configuration.

    On logits only terms change that save vocabulary-sized tensors; logits go only when every term lets go.
    """
    saving = [name for name, term in config.loss.terms() if term.method in SAVING]
    every = [name for name, _ in config.loss.terms()]
    for method in (*ON_LOGITS, *ON_HIDDEN_STATES):
        names = saving if method in ON_LOGITS else every
        if any(getattr(config.loss, name).method != method for name in names):
            yield names, with_loss_method(config, names, method)


def _alternative_note(changed: Config, names: list[str], gpu: GpuPlan) -> str:
    term: Term = getattr(changed.loss, names[0])
    total = f"{format_gb(gpu.compared_bytes)} {gpu.compare}"
    change = f"{{method: {term.method}, chunk: {term.chunk}}} for {', '.join(names)}"
    if gpu.fits:
        return f"FITS, same objective and gradients: {change} -> {total}"
    return f"not enough: {change} -> {total}, over by {format_gb(-gpu.margin_bytes)}"


def with_loss_method(config: Config, names: list[str], method: str) -> Config:
    """The configuration with some terms of the loss computed by one chunking method."""
    tokens = config.batch.loss_tokens
    chunks = [term.chunk for _, term in config.loss.terms() if term.chunk is not None and term.chunk < tokens]
    chunk = min(chunks, default=min(DEFAULT_CHUNK, max(1, tokens // FEWEST_CHUNKS)))
    terms: dict[str, Term] = {name: by_method(getattr(config.loss, name), method, chunk) for name in names}
    loss: Loss = config.loss.model_copy(update=terms)
    return config.model_copy(update={"loss": loss})


def _drafter(plan: Plan) -> GpuPlan:
    return next(gpu for gpu in plan.gpus if gpu.role == "drafter")
