"""The terms of a loss, each summed over its tokens: the caller divides once, by one global number.

Every term takes logits [tokens, vocab] (with a graph), targets [tokens, vocab] (the teacher's logits, None
where no term needs them) and labels [tokens]; `sums` says how tokens add up.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import log
from typing import Any

from membudget.programs.operators import Operators, T
from membudget.programs.sums import PlainSums, Sums, WeightedSums, shielded


@dataclass(frozen=True, slots=True)
class TermSettings:
    """One term and what decides its memory."""

    name: str
    weight: float = 1.0
    softmax_dtype: str | None = None
    """"fp32" for softmaxes with dtype=float32; None for the dtype of the logits."""
    temperature: float = 1.0
    upcast: bool = False
    """cross_entropy: copy the logits to fp32 first."""
    autocast: bool = False
    """cross_entropy: nll_loss in fp32 on log-probabilities in the logits' dtype, as CUDA autocast runs it."""
    beta: float = 0.5
    k: int = 128


def cross_entropy(ops: Operators[T], sums: Sums[T], logits: T, targets: T | None, labels: T, term: TermSettings) -> T:
    """F.cross_entropy on the logits or on their fp32 copy; with a softmax dtype, the two steps it is made of."""
    x = ops.to(_tempered(ops, logits, term), "fp32") if term.upcast else _tempered(ops, logits, term)
    if term.autocast:
        return sums.nll_loss(ops.to(ops.log_softmax(x), "fp32"), labels)
    if term.softmax_dtype is not None:
        return sums.nll_loss(ops.log_softmax(x, term.softmax_dtype), labels)
    return sums.cross_entropy(x, labels)


def kl(ops: Operators[T], sums: Sums[T], logits: T, targets: T, labels: T, term: TermSettings) -> T:
    """sum p (log p - log q): forward KL, p the teacher."""
    log_q = ops.log_softmax(_tempered(ops, logits, term), term.softmax_dtype)
    p = ops.softmax(_tempered(ops, targets, term), term.softmax_dtype)
    return _rescaled(ops, sums.kl_div(log_q, p, log_target=False), term)


def reverse_kl(ops: Operators[T], sums: Sums[T], logits: T, targets: T, labels: T, term: TermSettings) -> T:
    """sum q (log q - log p): the student's distribution is the target of kl_div."""
    log_q = ops.log_softmax(_tempered(ops, logits, term), term.softmax_dtype)
    log_p = ops.log_softmax(_tempered(ops, targets, term), term.softmax_dtype)
    return _rescaled(ops, sums.kl_div(log_p, log_q, log_target=True), term)


def jsd(ops: Operators[T], sums: Sums[T], logits: T, targets: T, labels: T, term: TermSettings) -> T:
    """beta KL(p || m) + (1 - beta) KL(q || m) with the mixture m = beta p + (1 - beta) q."""
    log_q = ops.log_softmax(_tempered(ops, logits, term), term.softmax_dtype)
    log_p = ops.log_softmax(_tempered(ops, targets, term), term.softmax_dtype)
    if term.beta == 0.5:
        log_m = ops.add_number(ops.logaddexp(log_q, log_p), -log(2))
    else:
        log_m = ops.logaddexp(ops.add_number(log_q, log(1 - term.beta)), ops.add_number(log_p, log(term.beta)))
    of_teacher = ops.scale(sums.kl_div(log_m, log_p, log_target=True), term.beta)
    of_student = ops.scale(sums.kl_div(log_m, log_q, log_target=True), 1 - term.beta)
    return _rescaled(ops, ops.add(of_teacher, of_student), term)


def tv(ops: Operators[T], sums: Sums[T], logits: T, targets: T, labels: T, term: TermSettings) -> T:
    """sum over tokens of 1 - sum(min(p, q)): total variation distance."""
    q = ops.softmax(_tempered(ops, logits, term), term.softmax_dtype)
    p = ops.softmax(_tempered(ops, targets, term), term.softmax_dtype)
    overlap = sums.elements(ops.minimum(q, p))
    return sums.tokens_minus(overlap, logits)


def kl_topk(ops: Operators[T], sums: Sums[T], logits: T, targets: T, labels: T, term: TermSettings) -> T:
    """Forward KL over the teacher's k most likely tokens, with the full normalisers of both sides.

    What is left out is the sum over the other tokens; so the gradient is approximate.
    """
    k = min(term.k, ops.num_columns(targets))
    with ops.no_grad():
        t = _in_dtype(ops, _tempered(ops, targets, term), term)
        values, index = ops.topk(t, k)
        log_p = ops.sub(values, ops.logsumexp(t))
        del t, values
        p = ops.exp(log_p)
    z = _in_dtype(ops, _tempered(ops, logits, term), term)
    log_q = ops.sub(ops.gather(z, index), ops.logsumexp(z))
    return _rescaled(ops, sums.elements(ops.mul(p, ops.sub(log_p, log_q))), term)


def cap(ops: Operators[T], sums: Sums[T], logits: T, targets: T | None, labels: T, term: TermSettings) -> T:
    """Entropy of the tokens predicted correctly (LLaDA2.0 confidence term); the mask is applied after the rows."""
    correct = ops.equal(ops.argmax(logits), labels)
    log_q = ops.log_softmax(_tempered(ops, logits, term), term.softmax_dtype)
    entropy = ops.neg(ops.sum_rows(ops.mul(ops.exp(log_q), log_q)))
    del log_q
    return sums.rows(ops.mul(entropy, ops.to(correct, term.softmax_dtype or ops.dtype_of(logits))))


def _tempered(ops: Operators[T], x: T, term: TermSettings) -> T:
    return x if term.temperature == 1 else ops.divide(x, term.temperature)


def _in_dtype(ops: Operators[T], x: T, term: TermSettings) -> T:
    return x if term.softmax_dtype is None else ops.to(x, term.softmax_dtype)


def _rescaled(ops: Operators[T], loss: T, term: TermSettings) -> T:
    """Gradients of softened distributions shrink with the square of the temperature (Hinton et al. 2015)."""
    return loss if term.temperature == 1 else ops.scale(loss, term.temperature**2)


TERM_PROGRAMS: dict[str, Callable[..., Any]] = {
    "cross_entropy": cross_entropy,
    "kl": kl,
    "reverse_kl": reverse_kl,
    "jsd": jsd,
    "tv": tv,
    "kl_topk": kl_topk,
    "cap": cap,
}


LABEL_TERMS = frozenset({"cross_entropy", "cap"})
"""The terms that compare with labels."""


def plus(ops: Operators[T], total: T | None, loss: T) -> T:
    """total + loss, for a total that may not have begun."""
    return loss if total is None else ops.add(total, loss)


def sum_of_terms(
    ops: Operators[T],
    terms: tuple[TermSettings, ...],
    logits: T,
    targets: T | None,
    labels: T | None,
    divisor: float,
    token_weights: T | None = None,
) -> T:
    """Every term times its weight over the divisor, added up; without labels, the teacher's argmax serves."""
    if labels is None and any(term.name in LABEL_TERMS for term in terms):
        assert targets is not None, "labels come from targets that do not exist"
        labels = ops.argmax(targets)
    if token_weights is None:
        return added_up(ops, PlainSums(ops), terms, logits, targets, labels, divisor)
    logits = shielded(ops, logits, token_weights)
    return added_up(ops, WeightedSums(ops, token_weights), terms, logits, targets, labels, divisor)


def added_up(
    ops: Operators[T],
    sums: Sums[T],
    terms: tuple[TermSettings, ...],
    logits: T,
    targets: T | None,
    labels: T | None,
    divisor: float,
) -> T:
    """The sum over the terms, its tokens added up as `sums` does it."""
    total: T | None = None
    for term in terms:
        with ops.scope(term.name):
            loss = TERM_PROGRAMS[term.name](ops, sums, logits, targets, labels, term)
            loss = ops.scale(loss, term.weight / divisor)
        total = plus(ops, total, loss)
    assert total is not None, "no term"
    return total
