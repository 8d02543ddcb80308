"""Method compiled really compiles: values, and what its graph saves."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from membudget.losses import Term, combine, compiled
from tests.losses.methods import TERMS

# Of PyTorch itself, when its compiler is imported.
pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")
TOKENS, VOCAB = 24, 64
DDTREE = [Term("cross_entropy"), Term("kl", weight=0.15, softmax_dtype="fp32"), Term("cap")]


@pytest.fixture
def _quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Traced, decomposed and partitioned as for inductor, but run without generated code."""
    monkeypatch.setattr(compiled, "BACKEND", "aot_eager_decomp_partition")
    yield
    torch.compiler.reset()
    compiled._compiled.cache_clear()


def inputs(dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(2)
    logits, targets = (torch.randn(TOKENS, VOCAB, generator=generator).to(dtype) for _ in range(2))
    return logits.requires_grad_(), targets, torch.randint(0, VOCAB, (TOKENS,), generator=generator)


def run(terms: list[Term], method: str, dtype: torch.dtype, **how: Any) -> tuple[Tensor, Tensor]:
    logits, targets, labels = inputs(dtype)
    loss = combine(logits, terms, targets=targets, labels=labels, method=method, **how)
    torch.autograd.backward(3 * loss)
    assert logits.grad is not None
    return loss.detach(), logits.grad


@pytest.mark.usefixtures("_quick")
@pytest.mark.parametrize(("masked", "dtype"), [(False, torch.float64), (True, torch.bfloat16)])
def test_every_term_at_once(masked: bool, dtype: torch.dtype) -> None:
    """Rows that do not count hold NaN in neither loss nor gradients."""
    terms = [Term(name, weight=1 + i / 8, softmax_dtype="fp32", k=5) for i, name in enumerate(TERMS)]
    mask = torch.arange(TOKENS) % 3 > 0 if masked else None
    ignore_index = -100 if masked else None
    found, wanted = (
        run(terms, method, dtype, mask=mask, ignore_index=ignore_index) for method in ("compiled", "whole")
    )
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=4 * torch.finfo(dtype).eps, atol=1e-6)


@pytest.mark.usefixtures("_quick")
def test_it_compiles_and_keeps_its_inputs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of tensors [tokens, vocab] only logits and targets are saved; plain code saves softmaxes."""
    saved: dict[str, int] = {}
    for method in ("whole", "compiled"):
        logits, targets, labels = inputs(torch.bfloat16)
        storages: dict[int, int] = {}

        def pack(x: Tensor, storages: dict[int, int] = storages) -> Tensor:
            if x.numel() == TOKENS * VOCAB:
                storages[x.untyped_storage().data_ptr()] = x.numel() * x.element_size()
            return x

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x):
            loss = combine(logits, DDTREE, targets=targets, labels=labels, method=method)
        storages.pop(logits.untyped_storage().data_ptr(), None)
        storages.pop(targets.untyped_storage().data_ptr(), None)
        saved[method] = sum(storages.values())
        torch.autograd.backward(loss)
    assert saved["whole"] > 4 * TOKENS * VOCAB
    assert saved["compiled"] == 0


@pytest.mark.usefixtures("_quick")
def test_spoiled_rows() -> None:
    logits, targets, labels = inputs(torch.float32)
    mask = torch.arange(TOKENS) > 0
    with torch.no_grad():
        logits[0] = float("nan")
    loss = combine(logits, DDTREE, targets=targets, labels=labels, method="compiled", mask=mask)
    torch.autograd.backward(loss)
    assert loss.isfinite()
    assert logits.grad is not None
    assert logits.grad.isfinite().all()
    assert not logits.grad[0].any()


@pytest.mark.skipif("MEMBUDGET_QUICK" in os.environ, reason="inductor takes 10 s or more")
@pytest.mark.skipif(shutil.which("g++") is None, reason="inductor needs a C++ compiler")
def test_with_generated_code() -> None:
    found, wanted = (run([Term("cross_entropy")], method, torch.float32) for method in ("compiled", "whole"))
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other)
    torch.compiler.reset()
