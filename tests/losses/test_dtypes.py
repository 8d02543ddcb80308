"""Rounding: in every dtype a result is off by no more than its roundings explain, counted from the dtype's eps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from membudget.losses import Head, Term, combine, cross_entropy, kl
from tests.losses.methods import EAGER, FROM_HIDDEN_STATES, ONCE, TERMS, chunk_of
from tests.losses.reference import token_loss

torch.set_num_threads(1)
TOKENS, VOCAB, CHUNK = 6, 17, 4
ROUNDINGS = 4
"""Roundings on the way of one number: softmax, product, difference, sum."""
HALVES = (torch.bfloat16, torch.float16)
ON_LOGITS = [method for method in EAGER if method not in FROM_HIDDEN_STATES]


def distinct_rows(seed: int) -> Tensor:
    """[TOKENS, VOCAB] of quarters from -2 to 2: exact in every dtype, no two alike in a row."""
    generator = torch.Generator().manual_seed(seed)
    order = torch.stack([torch.randperm(VOCAB, generator=generator) for _ in range(TOKENS)])
    return (order.double() - VOCAB // 2) / 4


# No probability of the teacher equals one of the student: there the gradient of tv would jump.
Z, T = distinct_rows(1), distinct_rows(2) / 2
LABELS = torch.cat([Z.argmax(-1)[:3], T.argmax(-1)[3:]])


def loss_by(method: str, logits: Tensor, term: Term) -> Tensor:
    targets = T.to(logits.dtype)
    return combine(logits, [term], targets=targets, labels=LABELS, method=method, chunk=chunk_of(method, CHUNK))


def exact(term: Term) -> tuple[Tensor, Tensor]:
    z = Z.clone().requires_grad_()
    loss = torch.stack([token_loss(z[i], T[i], int(LABELS[i]), term) for i in range(TOKENS)]).sum() / TOKENS
    torch.autograd.backward(loss)
    assert z.grad is not None
    return loss.detach(), z.grad


def logarithms() -> Tensor:
    """[TOKENS, VOCAB]: the sizes of the numbers that are rounded before they are multiplied by probabilities."""
    return 1 + Z.log_softmax(-1).abs() + T.log_softmax(-1).abs() + Z.abs().amax() + T.abs().amax()


def mass() -> Tensor:
    """[TOKENS, VOCAB]: probabilities and labels, what gradients are made of."""
    return Z.softmax(-1) + T.softmax(-1) + torch.nn.functional.one_hot(LABELS, VOCAB)


def assert_within(found: Tensor, wanted: Tensor, bound: Tensor) -> None:
    excess = (found.double() - wanted).abs() - bound
    assert excess.max() <= 0, f"{found} is not {wanted} within {bound}"


@pytest.mark.parametrize("method", ON_LOGITS)
@pytest.mark.parametrize("dtype", [torch.float32, *HALVES])
@pytest.mark.parametrize("term", TERMS)
def test_softmaxes_in_fp32(term: str, dtype: torch.dtype, method: str) -> None:
    """All is computed in fp32; the gradient is rounded once, when it gets the dtype of the logits."""
    settings = Term(term, softmax_dtype="fp32", k=5)
    wanted, gradient = exact(settings)
    logits = Z.to(dtype).requires_grad_()
    loss = loss_by(method, logits, settings)
    torch.autograd.backward(loss)
    assert loss.dtype == torch.float32
    assert logits.grad is not None
    eps = torch.finfo(torch.float32).eps
    assert_within(loss.detach(), wanted, ROUNDINGS * eps * (mass() * logarithms()).sum() / TOKENS)
    # Two roundings where a gradient is computed in forward and scaled in backward.
    rounded = (2 if method in ONCE else 1) * torch.finfo(dtype).eps
    smallest = torch.finfo(dtype).smallest_normal * torch.finfo(dtype).eps
    assert_within(
        logits.grad, gradient, rounded * gradient.abs() + ROUNDINGS * eps * mass() * logarithms() ** 2 + smallest
    )


@pytest.mark.parametrize("method", ON_LOGITS)
@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("term", TERMS)
def test_softmaxes_in_the_dtype_of_the_logits(term: str, dtype: torch.dtype, method: str) -> None:
    """Sums of rows are the last numbers in that dtype: the loss is fp32."""
    settings = Term(term, k=VOCAB)
    wanted, gradient = exact(settings)
    logits = Z.to(dtype).requires_grad_()
    loss = loss_by(method, logits, settings)
    torch.autograd.backward(loss)
    assert loss.dtype == torch.float32
    assert logits.grad is not None
    eps = torch.finfo(dtype).eps
    assert_within(loss.detach(), wanted, ROUNDINGS * eps * (mass() * logarithms()).sum() / TOKENS)
    if term != "tv":  # whose gradient jumps where rounding makes p and q change places
        assert_within(logits.grad, gradient, ROUNDINGS * eps * mass() * logarithms() ** 2 / TOKENS)


@pytest.mark.parametrize("softmax_dtype", ["native", "fp32"])
@pytest.mark.parametrize("dtype", [torch.float32, *HALVES])
def test_the_loss_is_fp32_without_masks_too(dtype: torch.dtype, softmax_dtype: str) -> None:
    logits = Z.to(dtype)
    assert kl(logits, T.to(dtype), softmax_dtype=softmax_dtype).dtype == torch.float32
    loss = cross_entropy(logits, LABELS, softmax_dtype=softmax_dtype, ignore_index=None)
    assert loss.dtype == torch.float32


@pytest.mark.parametrize("method", FROM_HIDDEN_STATES)
@pytest.mark.parametrize("dtype", HALVES)
def test_head_in_half_precision(dtype: torch.dtype, method: str) -> None:
    """Quarters of small integers: logits are exact, so that all rounding is in the gradients' products."""
    generator = torch.Generator().manual_seed(3)
    hidden, weight, other = (
        torch.randint(-2, 3, (rows, 2), generator=generator).double() / 4 for rows in (TOKENS, VOCAB, TOKENS)
    )
    found: dict[str, Any] = {}
    for name, to in (("exact", torch.float64), ("rounded", dtype)):
        h, w = (x.to(to, copy=True).requires_grad_() for x in (hidden, weight))
        how: dict[str, Any] = {"method": method, "chunk": CHUNK} if name == "rounded" else {}
        loss = kl(Head(h, w), Head(other.to(to), weight.to(to)), softmax_dtype="fp32" if how else "native", **how)
        torch.autograd.backward(loss)
        found[name] = loss.detach(), h.grad, w.grad
    eps = torch.finfo(dtype).eps
    loss, of_hidden, of_weight = found["exact"]
    assert_within(found["rounded"][0], loss, 100 * torch.finfo(torch.float32).eps * torch.ones(()))
    probabilities = 2 / TOKENS
    num_chunks = -(-TOKENS // CHUNK)
    assert_within(found["rounded"][1], of_hidden, 4 * eps * probabilities * weight.abs().amax(0).expand_as(of_hidden))
    bound = (3 + num_chunks) * eps * probabilities * hidden.abs().sum(0).expand_as(of_weight) / 2
    assert_within(found["rounded"][2], of_weight, bound)


def far_off_labels(tokens: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Every token costs 16: more tokens than 4,094 are more than fp16 can hold in one sum."""
    logits = torch.zeros(tokens, 4)
    logits[:, 0] = 16
    return logits.to(dtype).requires_grad_(), torch.ones(tokens, dtype=torch.int64)


@pytest.mark.parametrize("method", ON_LOGITS)
@pytest.mark.parametrize("softmax_dtype", ["native", "fp32"])
def test_sums_beyond_the_range_of_fp16(softmax_dtype: str, method: str) -> None:
    tokens = 8192
    logits, labels = far_off_labels(tokens, torch.float16)
    chunk = chunk_of(method, 5000)
    loss = cross_entropy(logits, labels, softmax_dtype=softmax_dtype, method=method, chunk=chunk, ignore_index=None)
    assert float(loss.detach()) == pytest.approx(16, abs=1e-5)
    # The loss scaled as a GradScaler does it: gradients of 1 / tokens would be lost in fp16, computed unscaled.
    torch.autograd.backward(loss * 65536)
    assert logits.grad is not None
    expected = 65536 / tokens
    assert logits.grad[:, 0].double().sub(expected).abs().max() <= 2 * torch.finfo(torch.float16).eps * expected
    assert logits.grad[:, 1].double().add(expected).abs().max() <= 2 * torch.finfo(torch.float16).eps * expected


def test_a_sum_of_all_tokens_in_fp16_is_what_plain_code_loses() -> None:
    """The test above can fail."""
    logits, labels = far_off_labels(8192, torch.float16)
    assert torch.nn.functional.cross_entropy(logits, labels, reduction="sum").isinf()


@pytest.mark.parametrize("function", [lambda x, y: cross_entropy(x, y), lambda x, y: cross_entropy(x, y, divisor=2)])
def test_fp64_stays_fp64(function: Callable[[Tensor, Tensor], Tensor]) -> None:
    assert function(Z, LABELS).dtype == torch.float64
