"""The loss section: which terms are computed, and how each of them meets the logits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field, model_validator

from membudget.config.base import Count, Fraction, Section
from membudget.config.libraries import LIBRARY_METHODS, section_refusal, term_refusal

Method = Literal[
    "whole",
    "chunked",
    "chunked_slices",
    "chunked_checkpoint",
    "grad_in_forward",
    "fused_head",
    "fused_head_grad_in_forward",
    "cpu",
    "compiled",
    "fused_kernel",
    "torch_linear_cross_entropy",
    "liger",
    "cut_cross_entropy",
]

CHUNKING_METHODS = frozenset(
    {
        "chunked",
        "chunked_slices",
        "chunked_checkpoint",
        "grad_in_forward",
        "fused_head",
        "fused_head_grad_in_forward",
    }
)
"""The methods that loop over chunks of tokens and so need `chunk`."""

SUMMED_METHODS = frozenset({"chunked", "chunked_slices"})
"""Methods that add chunk losses up under plain autograd; it is believed that they divide the memory."""


MAX_TEMPERATURE = 10**6
"""Softer than any distribution anybody trains on; its square stays a number."""


class Term(Section):
    """One term of the loss."""

    weight: Fraction = 1.0
    """Factor of this term in the sum; it does not change memory. Default 1.0."""

    method: Method = "whole"
    """How the term meets its logits; torch_linear_cross_entropy, liger and cut_cross_entropy are libraries that
    compute cross_entropy alone. Default whole: logits in full, one pass, as plain PyTorch code does."""

    chunk: Count | None = None
    """Tokens per chunk, for the methods that chunk; the last chunk may be shorter. No default."""

    softmax_dtype: Literal["native", "fp32"] = "native"
    """Dtype of the softmaxes: that of the logits, or `dtype=torch.float32`. Default native."""

    temperature: Annotated[float, Field(gt=0, lt=MAX_TEMPERATURE, allow_inf_nan=False)] = 1.0
    """Logits and targets are divided by it, a copy of each meanwhile; 1 makes no copy. Default 1.0."""

    @model_validator(mode="after")
    def _chunk_matches_method(self) -> Term:
        if self.method in CHUNKING_METHODS and self.chunk is None:
            raise ValueError(f'method "{self.method}" needs "chunk", the tokens per chunk (for example 4096)')
        if self.method in LIBRARY_METHODS and self.chunk is not None:
            raise ValueError(f'method "{self.method}" chooses its chunks itself: remove "chunk"')
        if self.method not in CHUNKING_METHODS and self.chunk is not None:
            raise ValueError(
                f'method "{self.method}" does not chunk: remove "chunk", or choose one of '
                + ", ".join(sorted(CHUNKING_METHODS))
            )
        return self

    @model_validator(mode="after")
    def _library_computes_it(self) -> Term:
        is_cross_entropy = isinstance(self, CrossEntropy)
        if text := term_refusal(self.method, is_cross_entropy=is_cross_entropy, temperature=self.temperature):
            raise ValueError(text)
        return self


class CrossEntropy(Term):
    """Cross entropy against labels; cap counts as correct what equals the same labels."""

    upcast: bool = False
    """Whether logits are copied to fp32 first: `cross_entropy(logits.float(), labels)`. Default false."""


class Kl(Term):
    """Forward KL divergence from the teacher's distribution: F.kl_div(log_softmax, softmax)."""


class ReverseKl(Term):
    """KL divergence with the roles exchanged: F.kl_div(log p, log q, log_target=True)."""


class Jsd(Term):
    """Generalised Jensen-Shannon divergence."""

    beta: Annotated[float, Field(gt=0, lt=1, allow_inf_nan=False)] = 0.5
    """Weight of the teacher in the mixture, between 0 and 1, both excluded. Default 0.5."""


class Tv(Term):
    """Total variation distance, 1 - sum(min(p, q))."""


class KlTopK(Term):
    """KL on the teacher's k most likely tokens; its gradient is approximate."""

    k: Count = 128
    """How many of the teacher's entries per token take part. Default 128."""


class Cap(Term):
    """Confidence term of LLaDA2.0: the entropy of the tokens predicted correctly."""


class Loss(Section):
    """The terms, summed over the same logits; a term that is absent is not computed."""

    cross_entropy: CrossEntropy | None = None
    """Cross entropy against `labels`."""

    kl: Kl | None = None
    """Forward KL against the teacher's logits."""

    reverse_kl: ReverseKl | None = None
    """Reverse KL against the teacher's logits."""

    jsd: Jsd | None = None
    """Jensen-Shannon divergence against the teacher's logits."""

    tv: Tv | None = None
    """Total variation against the teacher's logits."""

    kl_topk: KlTopK | None = None
    """Forward KL on the teacher's top k."""

    cap: Cap | None = None
    """Confidence (entropy) on correctly predicted positions."""

    labels: Literal["data", "targets"] = "data"
    """Where labels come from: token ids of the data, or the argmax of the teacher's logits. Default data."""

    autocast: bool = False
    """Whether the loss runs inside the autocast region: there softmaxes run in fp32 and cross entropy keeps
    an fp32 copy of its log-probabilities. Default false: it runs outside, in the dtype of the logits."""

    token_weights: bool = False
    """Whether tokens count with weights of their own, or some not at all (a mask, an ignored label): the sums of
    rows are then copied to fp32 and weighted, and so is the loss fp32. Default false: every token counts once."""

    @model_validator(mode="after")
    def _has_a_term(self) -> Loss:
        if not any(True for _ in self.terms()):
            raise ValueError("no term: name at least one of " + ", ".join(TERMS))
        return self

    @model_validator(mode="after")
    def _library_computes_it(self) -> Loss:
        for _, term in self.terms():
            if text := section_refusal(term.method, labels=self.labels, token_weights=self.token_weights):
                raise ValueError(text)
        return self

    def terms(self) -> Iterator[tuple[str, Term]]:
        """The terms that are computed, in the order in which a training loop adds them up."""
        for name in TERMS:
            term = getattr(self, name)
            if term is not None:
                yield name, term


TERMS = ("cross_entropy", "kl", "reverse_kl", "jsd", "tv", "kl_topk", "cap")
"""Every term there is, in the order in which they are computed."""

TEACHER_TERMS = frozenset({"kl", "reverse_kl", "jsd", "tv", "kl_topk"})
"""The terms that need the teacher's logits."""
