"""Inside torch.autocast every method gives what plain code gives there."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from membudget.losses import Head, Term, combine
from tests.losses.methods import EAGER, chunk_of

TOKENS, VOCAB, HIDDEN = 9, 13, 4
GENERATOR = torch.Generator().manual_seed(11)
INPUTS = [torch.randn(rows, HIDDEN, generator=GENERATOR) for rows in (TOKENS, VOCAB, TOKENS, VOCAB)]
LABELS = torch.randint(0, VOCAB, (TOKENS,), generator=GENERATOR)


def plain(name: str, logits: Tensor, targets: Tensor) -> Tensor:
    if name == "cross_entropy":
        return F.cross_entropy(logits, LABELS)
    return F.kl_div(F.log_softmax(logits, -1), F.softmax(targets, -1), reduction="batchmean")


def gradients(loss: Tensor, *leaves: Tensor) -> tuple[Tensor, ...]:
    assert loss.dtype == torch.float32
    return (loss.detach(), *torch.autograd.grad(loss, leaves))


@pytest.mark.parametrize("method", EAGER)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", ["cross_entropy", "kl"])
def test_like_plain_code(name: str, dtype: torch.dtype, method: str) -> None:
    hidden, weight, teacher_hidden, teacher_weight = (x.clone() for x in INPUTS)
    hidden.requires_grad_()
    weight.requires_grad_()
    with torch.autocast("cpu", dtype):
        with torch.no_grad():
            targets = F.linear(teacher_hidden, teacher_weight)
        wanted = gradients(plain(name, F.linear(hidden, weight), targets), hidden, weight)
        how: dict[str, Any] = {"method": method, "chunk": chunk_of(method, 4), "labels": LABELS}
        loss = combine(Head(hidden, weight), [Term(name)], targets=Head(teacher_hidden, teacher_weight), **how)
        # What autocast keeps of the head's copy still has a graph.
        (again,) = torch.autograd.grad(F.linear(hidden, weight).sum(), weight)
    # Backward, and what checkpoints recompute in it, runs outside, as PyTorch asks.
    found = gradients(loss, hidden, weight)
    assert again.any()
    eps = torch.finfo(dtype).eps
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=4 * eps, atol=4 * eps * float(other.abs().max()))


def test_a_head_is_cast_once_and_not_once_per_chunk() -> None:
    """Though student and teacher share it."""
    hidden, weight, *_ = (x.clone().requires_grad_() for x in INPUTS)
    casts: list[str] = []

    class Counting(TorchDispatchMode):  # type: ignore[no-untyped-call]
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if func is torch.ops.aten._to_copy.default and args[0].shape == weight.shape:
                casts.append(str(func))
            return func(*args, **(kwargs or {}))

    with torch.autocast("cpu", torch.bfloat16), Counting():  # type: ignore[no-untyped-call]
        student = Head(hidden, weight)
        combine(student, [Term("kl")], targets=Head(hidden, weight), method="fused_head", chunk=2)
    assert len(casts) == 1


def test_fp64_is_left_alone() -> None:
    """As autocast leaves it."""
    hidden, weight = (x.double() for x in INPUTS[:2])
    with torch.autocast("cpu", torch.bfloat16):
        loss = combine(Head(hidden, weight), [Term("kl")], targets=Head(hidden, weight))
    assert loss.dtype == torch.float64
