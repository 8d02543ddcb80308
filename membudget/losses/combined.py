"""Several terms over the same logits in one pass, by any method."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import torch
from torch import Tensor

from membudget.config.loss import TEACHER_TERMS
from membudget.losses.inputs import Head, Logits, Rows, check_leading_shape, check_same_device, rows_of
from membudget.losses.methods import WITHOUT_GRADIENT, check_library, check_method, refuse_reuse
from membudget.losses.running import run
from membudget.losses.term import Term, checked
from membudget.losses.tokens import IGNORED, TokenChoice, Tokens, check_choice, check_labels, tokens_of
from membudget.programs.section import LIBRARY_METHODS, Group
from membudget.programs.terms import LABEL_TERMS

Labels = Tensor | Literal["targets"]
"""Token ids, int64, or "targets": the teacher's most likely tokens."""


def combine(
    logits: Logits,
    terms: Sequence[Term],
    *,
    targets: Logits | None = None,
    labels: Labels | None = None,
    method: str = "whole",
    chunk: int | None = None,
    mask: Tensor | None = None,
    ignore_index: int | None = IGNORED,
    token_weights: Tensor | None = None,
    divisor: float | Tensor | None = None,
) -> Tensor:
    """Terms, each times its weight, summed over all tokens that count and divided once.

    Args:
        logits: [..., vocab], or a `Head`, which is what methods that never hold the logits in full start from.
        terms: what is added up; `Term("kl", weight=0.15)`.
        targets: the teacher's logits [..., vocab] or its Head; needed by kl, reverse_kl, jsd, tv and kl_topk.
            Vocabularies are the same. The teacher gets no gradient.
        labels: [...] int64; needed by cross_entropy and cap. "targets" takes the teacher's most likely tokens.
        method: how terms meet logits, one of `membudget.losses.METHODS`. All give the same loss and gradients; what
            each holds and makes is what `membudget loss` prices.
        chunk: tokens per chunk, for methods that chunk; the last may be shorter.
        mask: [...] bool, True for tokens that count. Tokens that do not, count for no term.
        ignore_index: tokens with this label do not count, for no term. None: every label is a token id.
        token_weights: [...] floating point, a factor per token. It does not change the divisor.
        divisor: what the sum is divided by; by default the number of tokens that count, taken on the device. Give the
            number over all ranks or micro-batches, as a number or as a tensor, for a mean over all of them.

    Returns:
        The loss without dimensions, fp32, or fp64 for logits in fp64. Without tokens that count it is 0, and so are
        all gradients.

    Nothing waits for the device, but for method cpu. Rows are summed first, and their sums in fp32, where there is a
    mask, an ignore_index beside labels, token_weights, or a tensor for divisor, and where logits are fp16, or bf16
    without `softmax_dtype="fp32"` (`loss.token_weights` in a configuration). Otherwise whole tensors are summed, as
    plain code does. Sums of many tokens in fp16 would overflow.

    What logits and targets hold in rows that do not count, NaN too, changes neither loss nor gradients. Hidden states
    of such rows must be finite where the head is trained: its gradient is a product with all of them.

    Under torch.autocast the operators run as autocast runs them in plain code, in recomputations too. A Head is cast
    to autocast's dtype once, as a linear layer casts it.

    grad_in_forward and fused_head_grad_in_forward store the gradient in the dtype of the logits, or of the Head, and
    run backward once: a second backward, and create_graph=True, raise RuntimeError. Where no gradient is wanted they
    compute none. In fp16 the second adds the head's gradient up before the divisor applies: where that passes 65504 it
    is infinite, so train an fp16 head by fused_head. compiled runs torch.compile, whose needs (a compiler) are its
    own. Methods of libraries compute cross_entropy alone, in their own way and dtypes, and take no token_weights.

    Logits with more than two dimensions should be contiguous, or they are copied: leave the last token of each
    sequence out with a mask rather than with a slice.

    Raises:
        ValueError: what is given does not fit together; the message says what and what to do. Labels out of range
            are noticed on the CPU only.
    """
    settings = checked(terms)
    check_method(method, chunk, has_head=isinstance(logits, Head))
    if method in LIBRARY_METHODS:
        check_library(method, settings, has_labels=isinstance(labels, Tensor), has_weights=token_weights is not None)
    student = rows_of("logits", logits)
    teacher = _teacher(targets, logits, student)
    choice = TokenChoice(mask, ignore_index, token_weights, divisor)
    _check(settings, student, teacher, labels, choice)
    tokens = _tokens(student, labels, choice, settings)
    if method in LIBRARY_METHODS:
        # Libraries leave tokens out by their labels.
        tokens = replace(tokens, weights=None)
    if student.num_tokens == 0:
        method, chunk = "whole", None
    if not student.wants_gradient:
        method = WITHOUT_GRADIENT.get(method, method)
    loss = run(Group(settings, method, chunk or 0), student, teacher, tokens)
    refuse_reuse(loss, method)
    return loss


def _teacher(targets: Logits | None, logits: Logits, student: Rows) -> Rows | None:
    """The teacher without a graph; where both have one head, it is cast once."""
    if isinstance(targets, Head) and isinstance(logits, Head) and targets.weight is logits.weight:
        assert student.weight is not None
        targets = Head(targets.hidden, student.weight)
    return None if targets is None else rows_of("targets", targets).detached()


def _check(
    terms: tuple[Term, ...], student: Rows, teacher: Rows | None, labels: Labels | None, choice: TokenChoice
) -> None:
    """ValueError for what the terms lack and for what does not fit the student's logits."""
    of_teacher = isinstance(labels, str)
    if of_teacher and labels != "targets":
        raise ValueError(f'labels are {labels!r}: they must be a tensor of token ids, or "targets"')
    for term in terms:
        if teacher is None and (term.name in TEACHER_TERMS or (term.name in LABEL_TERMS and of_teacher)):
            raise ValueError(f"{term.name} needs targets: the teacher's logits, or its Head")
        if labels is None and term.name in LABEL_TERMS:
            raise ValueError(f'{term.name} needs labels [tokens]; labels="targets" takes those of the teacher')
    if teacher is not None and teacher.vocab != student.vocab:
        raise ValueError(f"targets have {teacher.vocab:,} entries per token and logits {student.vocab:,}")
    if teacher is not None and teacher.shape != student.shape:
        raise ValueError(f"targets have tokens {list(teacher.shape)} and logits {list(student.shape)}")
    check_choice(choice)
    per_token = {"labels": labels, "mask": choice.mask, "token_weights": choice.weights}
    given = {name: each for name, each in per_token.items() if isinstance(each, Tensor)}
    check_leading_shape(student.shape, given.items())
    sides = {"logits": student.source} if teacher is None else {"logits": student.source, "targets": teacher.source}
    check_same_device(sides | given)


def _tokens(student: Rows, labels: Labels | None, choice: TokenChoice, terms: tuple[Term, ...]) -> Tokens:
    given = labels.reshape(-1) if isinstance(labels, Tensor) else None
    dtype = student.source.dtype
    narrow = dtype == torch.bfloat16 and any(term.softmax_dtype is None and not term.upcast for term in terms)
    rows_first = dtype == torch.float16 or narrow
    tokens = tokens_of(student.source, student.num_tokens, given, choice, sums_of_rows=rows_first)
    if tokens.labels is not None:
        check_labels(tokens.labels, student.vocab)
    return tokens
