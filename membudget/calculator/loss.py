"""The loss section of a step, from the sized engine: what it costs alone, and as a part of a training step."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Literal

from membudget.calculator.result import LossPrice
from membudget.config.loss import CHUNKING_METHODS, TEACHER_TERMS, Term
from membudget.config.models import Config
from membudget.errors import UsageError
from membudget.programs.heads import Heads, logits_of, targets_of
from membudget.programs.section import Group, section_loss
from membudget.programs.terms import LABEL_TERMS, TermSettings
from membudget.sized.namespace import SizedOps
from membudget.sized.tensor import Tensor
from membudget.timeline import Dim, Recorder

MAX_CHUNKS = 4096
"""More chunks than this are refused: each is run, at some 50 microseconds a chunk and term."""

MODELLED_METHODS = frozenset({"compiled", "fused_kernel"})
"""Methods priced by rule, because no CPU can run them."""

Keep = Literal["none", "logits", "targets", "both"]


@dataclass(frozen=True)
class LossRequest:
    """Terms over shared logits [tokens, vocab], computed from hidden states [tokens, hidden]."""

    terms: tuple[tuple[str, Term], ...]
    tokens: int
    vocab: int
    hidden: int
    logits_dtype: str = "bf16"
    keep: Keep = "both"
    """What the caller still refers to at backward."""
    train_head: bool = False
    labels: Literal["data", "targets"] = "data"
    autocast: bool = False
    """Whether the loss runs inside the autocast region."""

    @classmethod
    def of(cls, config: Config) -> LossRequest:
        """The loss of a configured training step."""
        return cls(
            terms=tuple(config.loss.terms()),
            tokens=config.batch.loss_tokens,
            vocab=config.model.logits_size,
            hidden=config.model.hidden_size,
            logits_dtype=config.precision.compute,
            keep=config.step.keep,
            train_head=config.model.train_lm_head,
            labels=config.loss.labels,
            autocast=config.loss.autocast,
        )

    @property
    def groups(self) -> tuple[Group, ...]:
        """Neighbouring terms with one method and chunk are computed together."""
        together = groupby(self.terms, key=lambda named: (named[1].method, named[1].chunk or 0))
        return tuple(
            Group(tuple(_settings(name, term, self.autocast) for name, term in members), method, chunk)
            for (method, chunk), members in together
        )

    @property
    def needs_teacher(self) -> bool:
        return self.labels == "targets" or any(name in TEACHER_TERMS for name, _ in self.terms)

    @property
    def num_chunks(self) -> int:
        """Chunks of the term that has the most."""
        return max((-(-self.tokens // term.chunk) for _, term in self.terms if term.chunk), default=1)


def _settings(name: str, term: Term, autocast: bool) -> TermSettings:
    """Inside an autocast region softmaxes run in fp32 whatever was asked for."""
    return TermSettings(
        name,
        weight=term.weight,
        softmax_dtype="fp32" if term.softmax_dtype == "fp32" or autocast else None,
        temperature=term.temperature,
        upcast=getattr(term, "upcast", False),
        autocast=autocast,
        beta=getattr(term, "beta", 0.5),
        k=getattr(term, "k", 128),
    )


class LossSection:
    """The section while it runs: targets, then forward, then backward; all events go to one recorder."""

    def __init__(self, recorder: Recorder, request: LossRequest, *, head_gradient_exists: bool = False) -> None:
        """`head_gradient_exists`: the head's gradient was zeroed, not freed, and is accounted for elsewhere."""
        check_chunks(request)
        self.request = request
        self.groups = request.groups
        self.ops = SizedOps(recorder)
        self.hidden = self._external("hidden states", request.tokens, request.hidden, requires_grad=True)
        self._heads = self._make_heads()
        if head_gradient_exists:
            self._heads.weight.grad = self._external("gradient of head weight", request.vocab, request.hidden)
        self._targets: Tensor | None = None
        self._logits: Tensor | None = None
        self._loss: Tensor | None = None

    def _external(self, name: str, rows: int, columns: int, *, requires_grad: bool = False) -> Tensor:
        row_name = "vocab" if name.endswith("weight") else "tokens"
        shape = (Dim(rows, row_name), Dim(columns, "hidden_size"))
        return self.ops.external(name, shape, self.request.logits_dtype, requires_grad=requires_grad)

    def _make_heads(self) -> Heads[Tensor]:
        request = self.request
        weight = self._external("head weight", request.vocab, request.hidden, requires_grad=request.train_head)
        teacher_hidden = teacher_weight = None
        if request.needs_teacher:
            teacher_hidden = self._external("teacher hidden states", request.tokens, request.hidden)
            teacher_weight = self._external("teacher head weight", request.vocab, request.hidden)
        labels = None
        if request.labels == "data":
            labels = self.ops.external("labels", (Dim(request.tokens, "tokens"),), "int64")
        return Heads(self.hidden, weight, teacher_hidden, teacher_weight, labels, request.train_head)

    def targets(self) -> None:
        """The teacher's logits in full, when a term that works on logits in full reads them."""
        reads = TEACHER_TERMS if self.request.labels == "data" else TEACHER_TERMS | LABEL_TERMS
        if any(group.needs_logits and any(t.name in reads for t in group.terms) for group in self.groups):
            heads = self._heads
            self._targets = targets_of(self.ops, heads.teacher_hidden, heads.teacher_weight)

    def forward(self) -> None:
        """Logits and loss; at the end the caller lets go of what it does not keep."""
        heads = self._heads
        if any(group.needs_logits for group in self.groups):
            self._logits = logits_of(self.ops, heads.hidden, heads.weight)
        self._loss = section_loss(self.ops, self.groups, heads, self._logits, self._targets, float(self.request.tokens))
        if self.request.keep in ("none", "targets"):
            self._logits = None
        if self.request.keep in ("none", "logits"):
            self._targets = None

    def backward(self) -> None:
        """Through loss and head to the gradient of the hidden states, which stays alive."""
        assert self._loss is not None
        self.ops.run_backward(self._loss)

    def pass_gradient_on(self) -> None:
        """The layers below have taken the gradient of the hidden states."""
        self.hidden.grad = None

    def release(self) -> None:
        """The end of the backward pass: what the caller kept goes; the head's gradient stays."""
        self._loss = self._logits = self._targets = None

    def clear_gradients(self) -> None:
        """`zero_grad(set_to_none=True)` for the head."""
        self._heads.weight.grad = None


def check_chunks(request: LossRequest) -> None:
    """Refuse what would take minutes: a chunk so small that there are thousands of them."""
    if request.num_chunks > MAX_CHUNKS:
        smallest = -(-request.tokens // MAX_CHUNKS)
        raise UsageError(
            f"{request.num_chunks:,} chunks for {request.tokens:,} tokens are more than the {MAX_CHUNKS:,} "
            f"that are priced: choose a chunk of at least {smallest:,} tokens"
        )


def price_loss(request: LossRequest) -> LossPrice:
    """What the section costs in bytes, beyond hidden states and head weights."""
    recorder = Recorder("targets")
    section = LossSection(recorder, request)
    section.targets()
    recorder.phase("forward")
    section.forward()
    held_bytes = recorder.total_bytes
    recorder.phase("backward")
    section.backward()
    timeline = recorder.build()
    methods = {term.method for _, term in request.terms}
    chunks = {term.chunk for _, term in request.terms}
    dtypes = {settings.softmax_dtype or "native" for group in section.groups for settings in group.terms}
    return LossPrice(
        terms=tuple(name for name, _ in request.terms),
        method=_only(methods),
        chunk=next(iter(chunks)) if len(chunks) == 1 else None,
        logits_dtype=request.logits_dtype,
        softmax_dtype=_only(dtypes),
        held_bytes=held_bytes,
        forward_peak_bytes=timeline.peak(("targets", "forward")).nbytes,
        backward_peak_bytes=timeline.peak(("backward",)).nbytes,
        gradient="approximate" if any(name == "kl_topk" for name, _ in request.terms) else "exact",
        provenance="modelled" if methods & MODELLED_METHODS else "exact",
        timeline=timeline,
    )


def _only(values: Iterable[str]) -> str:
    found = set(values)
    return found.pop() if len(found) == 1 else "mixed"


def with_method(request: LossRequest, method: str, chunk: int | None) -> LossRequest:
    """The same terms, all by one method; `chunk` is dropped where the method does not chunk."""
    chunk = chunk if method in CHUNKING_METHODS else None
    terms = tuple(
        (name, type(term).model_validate({**term.model_dump(), "method": method, "chunk": chunk}))
        for name, term in request.terms
    )
    return replace(request, terms=terms)
