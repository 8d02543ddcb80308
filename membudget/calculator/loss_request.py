"""What is asked of a loss section: terms, sizes, and what the caller keeps."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import groupby
from typing import Literal

from membudget.calculator.parameters import logits_dim
from membudget.config.libraries import dtype_refusal, section_refusal, term_refusal
from membudget.config.loss import CHUNKING_METHODS, TEACHER_TERMS, Term
from membudget.config.models import Config
from membudget.errors import UsageError
from membudget.programs.section import Group
from membudget.programs.section_run import Keep, SectionPlan
from membudget.programs.terms import LABEL_TERMS, TermSettings

DEFAULT_CHUNK = 4096
"""Tokens per chunk where none is named."""


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
    token_weights: bool = False
    """Whether each token counts with a weight of its own, as with masks: rows are summed first."""

    def __post_init__(self) -> None:
        """UsageError for a method of a library that cannot compute its term, or not with these settings."""
        for name, term in self.terms:
            text = (
                term_refusal(term.method, is_cross_entropy=name == "cross_entropy", temperature=term.temperature)
                or section_refusal(term.method, labels=self.labels, token_weights=self.token_weights)
                or dtype_refusal(term.method, self.logits_dtype)
            )
            if text:
                raise UsageError(text)

    @classmethod
    def of(cls, config: Config) -> LossRequest:
        """The loss of a configured training step."""
        return cls(
            terms=tuple(config.loss.terms()),
            tokens=config.batch.loss_tokens,
            vocab=logits_dim(vocab_size=config.model.vocab_size, logits_size=config.model.logits_size),
            hidden=config.model.hidden_size,
            logits_dtype=config.precision.compute,
            keep=config.step.keep,
            train_head=config.model.train_lm_head,
            labels=config.loss.labels,
            autocast=config.loss.autocast,
            token_weights=config.loss.token_weights,
        )

    def with_tokens(self, tokens: int) -> LossRequest:
        """The same section over another number of tokens."""
        return self if tokens == self.tokens else replace(self, tokens=tokens)

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
    def section_plan(self) -> SectionPlan:
        """The section as its program takes it."""
        reads = TEACHER_TERMS if self.labels == "data" else TEACHER_TERMS | LABEL_TERMS
        in_full = any(group.needs_logits and any(t.name in reads for t in group.terms) for group in self.groups)
        return SectionPlan(self.groups, in_full, self.keep, float(self.tokens))

    @property
    def num_chunks(self) -> int:
        """Chunks of all terms together."""
        return sum(-(-self.tokens // term.chunk) for _, term in self.terms if term.chunk)


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


def with_method(request: LossRequest, method: str, chunk: int | None) -> LossRequest:
    """The same terms, all by one method; `chunk` is dropped where the method does not chunk."""
    return replace(request, terms=tuple((name, by_method(term, method, chunk)) for name, term in request.terms))


def by_method(term: Term, method: str, chunk: int | None) -> Term:
    """The term, computed by another method; `chunk` is dropped where the method does not chunk."""
    assert chunk is not None or method not in CHUNKING_METHODS
    return term.model_copy(update={"method": method, "chunk": chunk if method in CHUNKING_METHODS else None})
