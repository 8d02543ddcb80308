"""A DFlash drafter's layers in the operators of transformers' Qwen3, to count what autograd keeps."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import FunctionCtx
from torch.nn import functional


class Norm(nn.Module):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))

    def forward(self, x: Tensor) -> Tensor:
        dtype = x.dtype
        x = x.to(torch.float32)
        variance = x.pow(2).mean(-1, keepdim=True)
        x = x * torch.rsqrt(variance + 1e-6)
        return self.weight * x.to(dtype)


class KernelAttention(Function):
    """Keeps what flash and flex attention keep: q, k, v, the output in q's layout, and the log-sum-exp."""

    @staticmethod
    def forward(ctx: FunctionCtx, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        out = torch.empty_like(q)
        lse = torch.empty(q.shape[:-1], dtype=torch.float32)
        ctx.save_for_backward(q, k, v, out.zero_(), lse.zero_())
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        q, k, v, _, _ = ctx.saved_tensors
        return torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(v)


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    low, high = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-high, low), dim=-1) * sin


class Layer(nn.Module):
    def __init__(self, hidden: int, width: int, heads: int, kv_heads: int, head_dim: int) -> None:
        super().__init__()
        self.head_dim = head_dim
        self.q_proj = nn.Linear(hidden, heads * head_dim, bias=False)
        self.k_proj = nn.Linear(hidden, kv_heads * head_dim, bias=False)
        self.v_proj = nn.Linear(hidden, kv_heads * head_dim, bias=False)
        self.o_proj = nn.Linear(heads * head_dim, hidden, bias=False)
        self.q_norm, self.k_norm = Norm(head_dim), Norm(head_dim)
        self.gate_proj = nn.Linear(hidden, width, bias=False)
        self.up_proj = nn.Linear(hidden, width, bias=False)
        self.down_proj = nn.Linear(width, hidden, bias=False)
        self.input_layernorm, self.post_attention_layernorm = Norm(hidden), Norm(hidden)

    def attention(self, x: Tensor, context: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        tokens = x.shape[1]
        q = self.q_norm(self.q_proj(x).view(1, tokens, -1, self.head_dim)).transpose(1, 2)
        k = torch.cat([self.k_proj(context), self.k_proj(x)], dim=1)
        v = torch.cat([self.v_proj(context), self.v_proj(x)], dim=1)
        k = self.k_norm(k.view(1, k.shape[1], -1, self.head_dim)).transpose(1, 2)
        v = v.view(1, v.shape[1], -1, self.head_dim).transpose(1, 2)
        q, k = rotate(q, cos[:, -tokens:], sin[:, -tokens:]), rotate(k, cos, sin)
        # As the autocast rules of flex_attention and scaled_dot_product_attention do.
        out: Tensor = KernelAttention.apply(q.to(v.dtype), k.to(v.dtype), v)  # type: ignore[no-untyped-call]
        result: Tensor = self.o_proj(out.transpose(1, 2).reshape(1, tokens, -1))
        return result

    def forward(self, x: Tensor, context: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        x = x + self.attention(self.input_layernorm(x), context, cos, sin)
        y = self.post_attention_layernorm(x)
        result: Tensor = x + self.down_proj(functional.silu(self.gate_proj(y)) * self.up_proj(y))
        return result


class Drafter(nn.Module):
    """All trained tensors under their own names; its forward pass is not needed to count them."""

    def __init__(
        self, *, hidden: int, width: int, heads: int, kv_heads: int, head_dim: int, layers: int, captured: int
    ) -> None:
        super().__init__()
        self.fc = nn.Linear(captured * hidden, hidden, bias=False)
        self.hidden_norm, self.norm = Norm(hidden), Norm(hidden)
        self.layers = nn.ModuleList(Layer(hidden, width, heads, kv_heads, head_dim) for _ in range(layers))


def kept_bytes(run: Callable[[], Tensor], own: list[Tensor], autocast: bool) -> int:
    """Bytes of the storages that autograd keeps while `run` runs, without those of `own`."""
    known = {t.untyped_storage().data_ptr() for t in own}
    kept: dict[int, tuple[Tensor, int]] = {}

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in known:
            kept[storage.data_ptr()] = (tensor, storage.nbytes())
        return tensor

    region = torch.autocast("cpu", torch.bfloat16) if autocast else nullcontext()
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t), region:
        run()
    return sum(nbytes for _, nbytes in kept.values())
