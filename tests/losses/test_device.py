"""Nothing waits for the device: on tensors without data, whatever had to look at a value would raise."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensorMode

from membudget.losses import Head, Term, combine, kl_topk_error
from tests.losses.methods import EAGER, TERMS, chunk_of

TOKENS, VOCAB, HIDDEN = 24_576, 248_320, 64


def run(method: str, device: str) -> None:
    """All terms at full size, with everything that chooses tokens."""

    def matrix(rows: int, *, requires_grad: bool = False) -> torch.Tensor:
        return torch.empty(rows, HIDDEN, dtype=torch.bfloat16, device=device, requires_grad=requires_grad)

    student = Head(matrix(TOKENS, requires_grad=True), matrix(VOCAB, requires_grad=True))
    teacher = Head(matrix(TOKENS), matrix(VOCAB))
    how: dict[str, Any] = {
        "labels": torch.empty(TOKENS, dtype=torch.int64, device=device),
        "mask": torch.empty(TOKENS, dtype=torch.bool, device=device),
        "token_weights": torch.empty(TOKENS, device=device),
        "divisor": torch.empty((), dtype=torch.int64, device=device),
    }
    terms = [Term(name, temperature=2.0) for name in TERMS]
    loss = combine(student, terms, targets=teacher, method=method, chunk=chunk_of(method, 10_000), **how)
    torch.autograd.backward(loss)
    assert student.hidden.grad is not None
    assert student.weight.grad is not None
    kl_topk_error(student, teacher, 128, chunk=20_000, mask=how["mask"])


@pytest.mark.parametrize("device", ["cpu", "meta"])
@pytest.mark.parametrize("method", EAGER)
def test_no_value_is_read(method: str, device: str) -> None:
    with FakeTensorMode():
        run(method, device)


def test_reading_a_value_would_raise() -> None:
    with FakeTensorMode(), pytest.raises(DataDependentOutputException):
        float(torch.empty((), device="cpu"))
