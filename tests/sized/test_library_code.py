"""Prices of Liger and Cut Cross-Entropy against their own code, where they are installed; their kernels are left out.

The code runs on a CPU that calls itself CUDA (cuda_branch); what it allocates by operators is compared event for event.
To run it: pip install 'membudget[liger,cut-cross-entropy]'.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import pytest
import torch

from membudget.losses.torch_ops import DTYPES
from membudget.programs import library_kernels
from membudget.sized.namespace import SizedOps
from membudget.sized.tensor import Tensor
from membudget.timeline import Recorder
from tests.allocator_events import canonical, explain_difference, timeline_events
from tests.sized.cuda_branch import events_on_cuda

SHAPES = ((7, 96, 16), (33, 400, 48), (640, 4000, 80))


class NoKernel:
    """A Triton kernel that does nothing."""

    def __getitem__(self, grid: object) -> Callable[..., None]:
        return lambda *args, **settings: None


class WithoutGraph(SizedOps):
    """Forward and backward of a program one after the other, and nothing that autograd adds."""

    def function(
        self, forward: Callable[..., Any], backward: Callable[..., Any], *inputs: Tensor, once: str = ""
    ) -> Tensor:
        loss, saved = forward(*inputs)
        self.gradients = backward(loss, *saved)
        self.saved = saved
        result: Tensor = loss
        return result


def library(name: str, monkeypatch: pytest.MonkeyPatch, **kernels: str) -> Any:
    """A module of a library, with some kernels of others replaced; skips where it is not installed."""
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    pytest.importorskip(name.partition(".")[0])
    for kernel, module in kernels.items():
        monkeypatch.setattr(import_module(module), kernel, NoKernel())
    return import_module(name)


def priced(program: Any, tokens: int, vocab: int, hidden: int, dtype: str, train_head: bool) -> list[int]:
    ops = WithoutGraph(Recorder(), "cuda")
    x = ops.external("hidden states", (tokens, hidden), dtype, requires_grad=True)
    w = ops.external("head weight", (vocab, hidden), dtype, requires_grad=train_head)
    loss = program(ops, x, w, ops.external("labels", (tokens,), "int64"), train_weight=train_head)
    assert loss.dtype == "fp32"
    return canonical(timeline_events(ops.recorder.build()))


def inputs(tokens: int, vocab: int, hidden: int, dtype: str, train_head: bool) -> tuple[torch.Tensor, ...]:
    x, w = (torch.randn(rows, hidden).to(DTYPES[dtype]) for rows in (tokens, vocab))
    labels = torch.randint(0, vocab, (tokens,))
    labels[0] = -100
    return x.requires_grad_(), w.requires_grad_(train_head), labels


class Context:
    """What autograd hands to a Function."""

    saved_tensors: tuple[Any, ...] = ()

    def save_for_backward(self, *tensors: Any) -> None:
        self.saved_tensors = tensors


def assert_agree(library_events: list[int], engine: list[int]) -> None:
    found = canonical(library_events)
    assert found
    assert found == engine, explain_difference(found, engine)


@pytest.mark.parametrize("train_head", [False, True])
@pytest.mark.parametrize("dtype", ["bf16", "fp16", "fp32"])
@pytest.mark.parametrize("shape", SHAPES)
def test_liger(shape: tuple[int, int, int], dtype: str, train_head: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    where = "liger_kernel.ops.fused_linear_cross_entropy"
    module = library(where, monkeypatch, liger_cross_entropy_kernel=where, element_mul_kernel=where)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (9, 0))
    tensors = inputs(*shape, dtype, train_head)
    upstream = torch.full((), 2.0)

    def run() -> object:
        loss, *_, of_hidden, of_weight, _ = module.fused_linear_cross_entropy_forward(*tensors, reduction="sum")
        module.fused_linear_cross_entropy_backward(upstream, of_hidden, of_weight, None)
        return loss, of_hidden, of_weight

    assert_agree(events_on_cuda(run, *tensors, upstream), priced(library_kernels.liger, *shape, dtype, train_head))


@pytest.mark.parametrize("train_head", [False, True])
@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
@pytest.mark.parametrize("shape", SHAPES)
def test_cut_cross_entropy(
    shape: tuple[int, int, int], dtype: str, train_head: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = library(
        "cut_cross_entropy.cce",
        monkeypatch,
        _cce_lse_forward_kernel="cut_cross_entropy.cce_lse_forward",
        _indexed_neg_dot_forward_kernel="cut_cross_entropy.indexed_dot",
        _cce_backward_kernel="cut_cross_entropy.cce_backward",
    )
    monkeypatch.setattr(module, "sort_logit_avg", lambda averages: torch.argsort(averages).to(torch.int32))
    hidden, weight, labels = inputs(*shape, dtype, train_head)
    upstream = torch.ones(())

    def run() -> object:
        context = Context()
        valid = module._build_flat_valids(labels, -100, False)
        threshold = module._handle_eps("high", hidden.dtype)
        settings = module.CCEParams(labels, valid, None, "sum", threshold, False, labels.shape)
        function = module.LinearCrossEntropyFunction
        return function.forward(context, hidden, weight, settings), context, function.backward(context, upstream), valid

    events = events_on_cuda(run, hidden, weight, labels, upstream)
    assert_agree(events, priced(library_kernels.cut_cross_entropy, *shape, dtype, train_head))
