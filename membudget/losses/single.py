"""One term at a time. What the functions share is said at `combine`."""

from __future__ import annotations

from typing import TypedDict, Unpack

from torch import Tensor

from membudget.losses.combined import combine
from membudget.losses.inputs import Logits
from membudget.losses.term import Term
from membudget.losses.tokens import IGNORED


class How(TypedDict, total=False):
    """Arguments that all terms share, by keyword; each is explained at `combine`."""

    method: str
    chunk: int | None
    mask: Tensor | None
    token_weights: Tensor | None
    divisor: float | Tensor | None


def cross_entropy(
    logits: Logits,
    labels: Tensor,
    *,
    softmax_dtype: str = "native",
    temperature: float = 1.0,
    ignore_index: int | None = IGNORED,
    **how: Unpack[How],
) -> Tensor:
    """Cross entropy: -log q(label), q = softmax(logits / temperature).

    Shapes, the other arguments and errors are those of `combine`. softmax_dtype "native" computes log-probabilities
    in the dtype of the logits, as F.cross_entropy does; "fp32" in fp32, as F.cross_entropy(logits.float(), labels).
    """
    term = Term("cross_entropy", softmax_dtype=softmax_dtype, temperature=temperature)
    return combine(logits, (term,), labels=labels, ignore_index=ignore_index, **how)


def kl(
    logits: Logits,
    targets: Logits,
    *,
    temperature: float = 1.0,
    softmax_dtype: str = "native",
    **how: Unpack[How],
) -> Tensor:
    """Forward KL divergence, sum p (log p - log q), p the teacher; times temperature ** 2 (Hinton et al. 2015).

    Shapes, the other arguments and errors are those of `combine`.
    """
    return combine(logits, (Term("kl", softmax_dtype=softmax_dtype, temperature=temperature),), targets=targets, **how)


def reverse_kl(
    logits: Logits,
    targets: Logits,
    *,
    temperature: float = 1.0,
    softmax_dtype: str = "native",
    **how: Unpack[How],
) -> Tensor:
    """Reverse KL divergence, sum q (log q - log p), q the student; times temperature ** 2.

    Shapes, the other arguments and errors are those of `combine`.
    """
    term = Term("reverse_kl", softmax_dtype=softmax_dtype, temperature=temperature)
    return combine(logits, (term,), targets=targets, **how)


def jsd(
    logits: Logits,
    targets: Logits,
    *,
    beta: float = 0.5,
    temperature: float = 1.0,
    softmax_dtype: str = "native",
    **how: Unpack[How],
) -> Tensor:
    """Generalised Jensen-Shannon divergence: beta KL(p || m) + (1 - beta) KL(q || m), m = beta p + (1 - beta) q.

    p is the teacher, 0 < beta < 1; times temperature ** 2. Shapes, the other arguments and errors are those of
    `combine`.
    """
    term = Term("jsd", softmax_dtype=softmax_dtype, temperature=temperature, beta=beta)
    return combine(logits, (term,), targets=targets, **how)


def tv(
    logits: Logits,
    targets: Logits,
    *,
    temperature: float = 1.0,
    softmax_dtype: str = "native",
    **how: Unpack[How],
) -> Tensor:
    """Total variation distance, 1 - sum min(p, q), between 0 and 1 per token.

    Shapes, the other arguments and errors are those of `combine`.
    """
    return combine(logits, (Term("tv", softmax_dtype=softmax_dtype, temperature=temperature),), targets=targets, **how)


def kl_topk(
    logits: Logits,
    targets: Logits,
    *,
    k: int = 128,
    temperature: float = 1.0,
    softmax_dtype: str = "native",
    **how: Unpack[How],
) -> Tensor:
    """Forward KL over the teacher's k most likely tokens, both normalised over the whole vocabulary.

    What the other tokens add is left out of loss and gradient: `kl_topk_error` says how much. It may be negative, for
    it is no divergence. Shapes, the other arguments and errors are those of `combine`.
    """
    term = Term("kl_topk", softmax_dtype=softmax_dtype, temperature=temperature, k=k)
    return combine(logits, (term,), targets=targets, **how)


def cap(
    logits: Logits,
    labels: Tensor,
    *,
    softmax_dtype: str = "native",
    temperature: float = 1.0,
    ignore_index: int | None = IGNORED,
    **how: Unpack[How],
) -> Tensor:
    """Confidence term of LLaDA2.0: the entropy of q at tokens whose most likely entry is the label, 0 at others.

    The divisor counts all tokens, not the correct ones. Shapes, the other arguments and errors are those of `combine`.
    """
    term = Term("cap", softmax_dtype=softmax_dtype, temperature=temperature)
    return combine(logits, (term,), labels=labels, ignore_index=ignore_index, **how)
