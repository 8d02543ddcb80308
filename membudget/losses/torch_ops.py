"""The operator namespace of membudget.programs on torch tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from membudget.losses.libraries import LIBRARIES

DTYPES = {
    "fp64": torch.float64,
    "fp32": torch.float32,
    "bf16": torch.bfloat16,
    "fp16": torch.float16,
    "int32": torch.int32,
    "int64": torch.int64,
    "bool": torch.bool,
}
NAMES = {dtype: name for name, dtype in DTYPES.items()}


class TorchOps:
    """membudget.programs.operators.Operators, as plain PyTorch calls."""

    # products and views

    def matmul(self, a: Tensor, b: Tensor, name: str = "matmul") -> Tensor:
        return a @ b

    def t(self, x: Tensor) -> Tensor:
        return x.t()

    def split(self, x: Tensor, size: int) -> Sequence[Tensor]:
        return torch.split(x, size)

    def slice_rows(self, x: Tensor, start: int, stop: int) -> Tensor:
        return x[start:stop]

    def gather(self, x: Tensor, index: Tensor) -> Tensor:
        return x.gather(-1, index)

    # elementwise

    def to(self, x: Tensor, dtype: str) -> Tensor:
        return x.to(DTYPES[dtype])

    def mul(self, a: Tensor, b: Tensor) -> Tensor:
        return a * b

    def scale(self, x: Tensor, factor: float) -> Tensor:
        return x * factor

    def divide(self, x: Tensor, divisor: float) -> Tensor:
        return x / divisor

    def add(self, a: Tensor, b: Tensor) -> Tensor:
        return a + b

    def add_number(self, x: Tensor, value: float) -> Tensor:
        return x + value

    def sub(self, a: Tensor, b: Tensor) -> Tensor:
        return a - b

    def neg(self, x: Tensor) -> Tensor:
        return -x

    def exp(self, x: Tensor) -> Tensor:
        return x.exp()

    def tanh(self, x: Tensor) -> Tensor:
        return x.tanh()

    def equal(self, a: Tensor, b: Tensor) -> Tensor:
        return a == b

    def is_zero(self, x: Tensor) -> Tensor:
        return x == 0

    def fill_with_zero(self, x: Tensor, mask: Tensor) -> Tensor:
        return x.masked_fill(mask, 0)

    def fill_rows_with_zero_(self, x: Tensor, mask: Tensor) -> Tensor:
        return x.masked_fill_(mask.unsqueeze(-1), 0)

    def divide_by(self, x: Tensor, divisor: Tensor) -> Tensor:
        return x / divisor

    def minimum(self, a: Tensor, b: Tensor) -> Tensor:
        return torch.minimum(a, b)

    def logaddexp(self, a: Tensor, b: Tensor) -> Tensor:
        return torch.logaddexp(a, b)

    # reductions

    def sum_all(self, x: Tensor) -> Tensor:
        return x.sum()

    def sum_rows(self, x: Tensor) -> Tensor:
        return x.sum(-1)

    def log_softmax(self, x: Tensor, dtype: str | None = None) -> Tensor:
        return F.log_softmax(x, -1, dtype=DTYPES[dtype] if dtype else None)

    def softmax(self, x: Tensor, dtype: str | None = None) -> Tensor:
        return F.softmax(x, -1, dtype=DTYPES[dtype] if dtype else None)

    def cross_entropy(self, x: Tensor, labels: Tensor) -> Tensor:
        return F.cross_entropy(x, labels, reduction="sum")

    def nll_loss(self, log_probs: Tensor, labels: Tensor) -> Tensor:
        return F.nll_loss(log_probs, labels, reduction="sum")

    def kl_div(self, x: Tensor, target: Tensor, *, log_target: bool) -> Tensor:
        return F.kl_div(x, target, reduction="sum", log_target=log_target)

    def cross_entropy_rows(self, x: Tensor, labels: Tensor) -> Tensor:
        return F.cross_entropy(x, labels, reduction="none")

    def nll_loss_rows(self, log_probs: Tensor, labels: Tensor) -> Tensor:
        return F.nll_loss(log_probs, labels, reduction="none")

    def kl_div_rows(self, x: Tensor, target: Tensor, *, log_target: bool) -> Tensor:
        return F.kl_div(x, target, reduction="none", log_target=log_target).sum(-1)

    def logsumexp(self, x: Tensor) -> Tensor:
        return x.logsumexp(-1, keepdim=True)

    def argmax(self, x: Tensor) -> Tensor:
        return x.argmax(-1)

    def topk(self, x: Tensor, k: int) -> tuple[Tensor, Tensor]:
        values, index = x.topk(k, -1)
        return values, index

    # the graph

    def detach(self, x: Tensor) -> Tensor:
        return x.detach()

    def leaf(self, x: Tensor) -> Tensor:
        return x.detach().requires_grad_()

    def no_grad(self) -> AbstractContextManager[None]:
        return torch.no_grad()

    def enable_grad(self) -> AbstractContextManager[None]:
        return torch.enable_grad()

    def gradients_of(self, loss: Tensor, leaves: Sequence[Tensor]) -> Sequence[Tensor]:
        return torch.autograd.grad(loss, leaves)

    def checkpoint(self, fn: Callable[..., Tensor], *args: Tensor | None) -> Tensor:
        """No program draws random numbers, so the generator's state is not kept."""
        result: Tensor = checkpoint(fn, *args, use_reentrant=False, preserve_rng_state=False)
        return result

    def function(
        self,
        forward: Callable[..., tuple[Tensor, tuple[Tensor, ...]]],
        backward: Callable[..., tuple[Tensor | None, ...]],
        *inputs: Tensor,
        once: str = "",
    ) -> Tensor:
        """`once` names the method whose backward spoils what it saved, so that a second one is refused."""
        result: Tensor = _Function.apply(forward, backward, once, *inputs)  # type: ignore[no-untyped-call]
        return result

    # memory written in place, and the host

    def empty(self, name: str, like: Tensor, shape: tuple[int, ...], dtype: str) -> Tensor:
        return torch.empty(shape, dtype=DTYPES[dtype], device=like.device)

    def empty_like(self, x: Tensor, name: str) -> Tensor:
        return torch.empty_like(x)

    def zeros_like(self, x: Tensor, name: str) -> Tensor:
        return torch.zeros_like(x)

    def copy_rows(self, buffer: Tensor, start: int, stop: int, rows: Tensor) -> None:
        buffer[start:stop].copy_(rows)

    def add_product_(self, buffer: Tensor, a: Tensor, b: Tensor) -> None:
        buffer.addmm_(a, b)

    def scale_(self, buffer: Tensor, factor: Tensor) -> Tensor:
        return buffer.mul_(factor)

    def add_(self, total: Tensor, x: Tensor) -> Tensor:
        return total.add_(x)

    def to_host(self, x: Tensor) -> Tensor:
        return x.to("cpu", copy=True)

    def to_device(self, x: Tensor, like: Tensor) -> Tensor:
        return x.to(like.device)

    # whole losses of libraries

    def library(
        self, name: str, priced: Callable[..., Tensor], hidden: Tensor, weight: Tensor, labels: Tensor
    ) -> Tensor:
        return LIBRARIES[name](hidden, weight, labels)

    # names

    def scope(self, name: str) -> AbstractContextManager[None]:
        return nullcontext()

    def modelled(self) -> AbstractContextManager[None]:
        return nullcontext()

    def num_rows(self, x: Tensor) -> int:
        return x.shape[0]

    def num_columns(self, x: Tensor) -> int:
        return x.shape[-1]

    def dtype_of(self, x: Tensor) -> str:
        return NAMES[x.dtype]

    def on_cuda(self, x: Tensor) -> bool:
        return x.is_cuda


class _Function(torch.autograd.Function):
    """A program's own forward and backward as an autograd Function."""

    @staticmethod
    def forward(ctx: Any, forward: Any, backward: Any, once: str, *inputs: Tensor) -> Tensor:
        output, saved = forward(*inputs)
        ctx.backward_program = backward
        ctx.once = once
        ctx.used = False
        ctx.save_for_backward(*saved)
        result: Tensor = output
        return result

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> Any:
        if ctx.once:
            refuse_second_backward(ctx.once, ctx.used)
        ctx.used = True
        return (None, None, None, *ctx.backward_program(upstream, *ctx.saved_tensors))


def refuse_second_backward(method: str, used: bool) -> None:
    """RuntimeError in the backward pass of a method that computes its gradient in forward, unless it is the first."""
    if torch.is_grad_enabled():
        raise RuntimeError(
            f"{method}: the gradient was computed in forward and has no graph of its own, so that create_graph=True "
            f"and gradients of gradients are impossible; use method whole or chunked for this loss"
        )
    if used:
        raise RuntimeError(
            f"{method}: the gradient was computed in forward and the first backward scaled it in place, so that a "
            f"second backward would be wrong; compute the loss again, or use a checkpointing method "
            f"(chunked_checkpoint, fused_head) with retain_graph=True"
        )
