"""Which tokens count: masks, ignored labels, weights, divisors, and what may stand where nobody looks."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from membudget.losses import Head, Term, combine, cross_entropy, kl
from tests.losses.methods import EAGER, FROM_HIDDEN_STATES, TERMS, chunk_of

torch.set_num_threads(1)
TOKENS, VOCAB, HIDDEN, CHUNK = 7, 11, 3, 3
COUNTED = torch.tensor([True, False, True, True, False, False, True])
LABELS = torch.tensor([1, 2, 3, 4, 5, 6, 7])


def matrices(dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """hidden, weight, and the teacher's."""
    generator = torch.Generator().manual_seed(5)
    rows = (TOKENS, VOCAB, TOKENS, VOCAB)
    hidden, weight, *teacher = (torch.randn(n, HIDDEN, generator=generator).to(dtype) for n in rows)
    return hidden.requires_grad_(), weight.requires_grad_(), teacher[0], teacher[1]


def loss_of(
    method: str, term: str, spoiled: float | None, dtype: torch.dtype, **how: Any
) -> tuple[Tensor, tuple[Tensor | None, ...]]:
    """The loss and the gradients of hidden states and head; logits of tokens that do not count may be spoiled."""
    hidden, weight, teacher_hidden, teacher_weight = matrices(dtype)
    student, teacher = Head(hidden, weight), Head(teacher_hidden, teacher_weight)
    if method in FROM_HIDDEN_STATES:
        full: Tensor | Head = student
        targets: Tensor | Head = teacher
    else:
        full, targets = hidden @ weight.t(), teacher_hidden @ teacher_weight.t()
        if spoiled is not None:
            full = torch.where(COUNTED.unsqueeze(-1), full, spoiled)
    if spoiled is not None:
        # Methods that make logits themselves see a teacher's logits in full, for those may be spoiled alone.
        targets = teacher_hidden @ teacher_weight.t()
        targets = torch.where(COUNTED.unsqueeze(-1), targets, spoiled)
    loss = combine(
        full, [Term(term)], targets=targets, labels=LABELS, method=method, chunk=chunk_of(method, CHUNK), **how
    )
    torch.autograd.backward(loss)
    return loss.detach(), (hidden.grad, weight.grad)


@pytest.mark.parametrize("method", EAGER)
@pytest.mark.parametrize("term", TERMS)
def test_nothing_of_tokens_left_out_gets_through(term: str, method: str) -> None:
    for dtype in (torch.float32, torch.float16):
        clean, gradients = loss_of(method, term, None, dtype, mask=COUNTED)
        for spoiled in (float("nan"), float("inf"), float("-inf")):
            loss, found = loss_of(method, term, spoiled, dtype, mask=COUNTED)
            assert torch.equal(loss, clean)
            for one, other in zip(found, gradients, strict=True):
                assert one is not None
                assert other is not None
                assert torch.equal(one, other)


def test_without_the_shield_a_weight_of_zero_does_not_stop_nan() -> None:
    """The test above can fail: zero times NaN is NaN, in plain code too."""
    logits = torch.full((2, 3), float("nan"), requires_grad=True)
    rows = torch.nn.functional.cross_entropy(logits, torch.tensor([0, 1]), reduction="none")
    torch.autograd.backward((rows * torch.zeros(2)).sum())
    assert logits.grad is not None
    assert logits.grad.isnan().all()


@pytest.mark.parametrize("method", EAGER)
def test_a_head_on_the_way_to_infinity(method: str) -> None:
    """Finite hidden states whose logits overflow: the methods that make logits themselves meet these."""
    hidden, weight, *_ = matrices(torch.float16)
    with torch.no_grad():
        hidden[~COUNTED] = 60_000
    loss = cross_entropy(Head(hidden, weight), LABELS, mask=COUNTED, method=method, chunk=chunk_of(method, CHUNK))
    torch.autograd.backward(loss)
    assert hidden.grad is not None
    assert weight.grad is not None
    assert not (hidden.detach() @ weight.detach().t()).isfinite().all()
    for value in (loss, hidden.grad, weight.grad):
        assert value.isfinite().all()
    assert not hidden.grad[~COUNTED].any()


@pytest.mark.parametrize("method", EAGER)
@pytest.mark.parametrize("term", TERMS)
def test_no_token_counts(term: str, method: str) -> None:
    """Not NaN: 0, with gradients of 0, whatever the divisor."""
    none = torch.zeros(TOKENS, dtype=torch.bool)
    for divisor in (None, 4.0, torch.tensor(0)):
        loss, gradients = loss_of(method, term, None, torch.float32, mask=none, divisor=divisor)
        assert loss == 0
        for gradient in gradients:
            assert gradient is not None
            assert not gradient.any()


@pytest.mark.parametrize("method", EAGER)
def test_no_tokens_at_all(method: str) -> None:
    hidden, weight = torch.zeros(0, HIDDEN, requires_grad=True), torch.zeros(VOCAB, HIDDEN, requires_grad=True)
    labels = torch.zeros(0, dtype=torch.int64)
    loss = cross_entropy(Head(hidden, weight), labels, method=method, chunk=chunk_of(method, CHUNK))
    torch.autograd.backward(loss)
    assert loss == 0
    assert weight.grad is not None
    assert not weight.grad.any()


@pytest.mark.parametrize("method", EAGER)
def test_the_parts_of_a_batch_add_up(method: str) -> None:
    """With the number of all tokens as divisor, as ranks and micro-batches use it, whatever each part leaves out."""
    hidden, weight, teacher_hidden, teacher_weight = (x.detach().double() for x in matrices())
    count = COUNTED.sum()

    def part(rows: slice, divisor: Tensor | None) -> Tensor:
        student, teacher = Head(hidden[rows], weight), Head(teacher_hidden[rows], teacher_weight)
        how: dict[str, Any] = {"mask": COUNTED[rows], "method": method, "chunk": chunk_of(method, 2)}
        return kl(student, teacher, divisor=divisor, **how)

    parts = [part(rows, count) for rows in (slice(0, 2), slice(2, 4), slice(4, 6), slice(6, 7))]
    torch.testing.assert_close(torch.stack(parts).sum(), part(slice(None), None))


def test_a_label_to_ignore_need_not_be_out_of_range() -> None:
    hidden, weight, *_ = matrices()
    ignored = cross_entropy(Head(hidden, weight), LABELS, ignore_index=3)
    assert torch.equal(ignored, cross_entropy(Head(hidden, weight), LABELS, mask=LABELS != 3))


def test_labels_where_the_mask_hides_them_may_be_anything() -> None:
    hidden, weight, *_ = matrices()
    wild = LABELS.masked_fill(~COUNTED, 10**9)
    tame = cross_entropy(Head(hidden, weight), LABELS, mask=COUNTED)
    assert torch.equal(cross_entropy(Head(hidden, weight), wild, mask=COUNTED), tame)


def test_leading_dimensions() -> None:
    logits = torch.randn(2, 3, VOCAB, requires_grad=True)
    labels = torch.randint(0, VOCAB, (2, 3))
    mask = torch.tensor([[True, True, False], [True, False, True]])
    loss = cross_entropy(logits, labels, mask=mask, method="chunked_checkpoint", chunk=4)
    flat = cross_entropy(logits.flatten(0, 1), labels.flatten(), mask=mask.flatten())
    torch.testing.assert_close(loss, flat)
    torch.autograd.backward(loss)
    assert logits.grad is not None
    assert logits.grad.shape == logits.shape


def test_labels_of_the_teacher() -> None:
    hidden, weight, teacher_hidden, teacher_weight = matrices()
    student, teacher = Head(hidden, weight), Head(teacher_hidden, teacher_weight)
    best = (teacher_hidden @ teacher_weight.t()).argmax(-1)
    for method in ("whole", "fused_head"):
        loss = combine(
            student,
            [Term("cross_entropy")],
            targets=teacher,
            labels="targets",
            method=method,
            chunk=chunk_of(method, CHUNK),
        )
        torch.testing.assert_close(loss, cross_entropy(student, best))


@pytest.mark.parametrize("method", EAGER)
def test_frozen_and_tied_heads(method: str) -> None:
    """One tensor as both heads and as embedding: its gradient is the student's part and the embedding's, added."""
    hidden, weight, teacher_hidden, _ = matrices(torch.float64)
    chunk = chunk_of(method, CHUNK)
    frozen = kl(Head(hidden, weight.detach()), Head(teacher_hidden, weight), method=method, chunk=chunk)
    torch.autograd.backward(frozen)
    assert weight.grad is None
    assert hidden.grad is not None
    alone = kl(Head(hidden.detach(), weight), Head(teacher_hidden, weight), method=method, chunk=chunk)
    (expected,) = torch.autograd.grad(alone, weight)
    embedded = torch.nn.functional.embedding(LABELS, weight)
    (of_embedding,) = torch.autograd.grad(embedded.square().sum(), weight, retain_graph=True)
    tied = kl(Head(hidden.detach(), weight), Head(teacher_hidden, weight), method=method, chunk=chunk)
    torch.autograd.backward(tied + embedded.square().sum())
    assert weight.grad is not None
    torch.testing.assert_close(weight.grad, expected + of_embedding)
