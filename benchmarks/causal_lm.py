"""A causal language model of 1.2 billion parameters in plain PyTorch: something large to trace."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn


@dataclass(frozen=True)
class Shape:
    """The sizes of Llama 3.2 1B, head and embedding tied."""

    vocab: int = 128_256
    hidden: int = 2048
    intermediate: int = 8192
    layers: int = 16
    heads: int = 32
    kv_heads: int = 8
    head_dim: int = 64


class Attention(nn.Module):
    def __init__(self, shape: Shape, device: str, dtype: torch.dtype) -> None:
        super().__init__()
        self.shape = shape
        width, kv_width = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
        self.query = nn.Linear(shape.hidden, width, bias=False, device=device, dtype=dtype)
        self.key = nn.Linear(shape.hidden, kv_width, bias=False, device=device, dtype=dtype)
        self.value = nn.Linear(shape.hidden, kv_width, bias=False, device=device, dtype=dtype)
        self.output = nn.Linear(width, shape.hidden, bias=False, device=device, dtype=dtype)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, _ = x.shape

        def heads_of(projected: Tensor, count: int) -> Tensor:
            return projected.view(batch, length, count, self.shape.head_dim).transpose(1, 2)

        q = heads_of(self.query(x), self.shape.heads)
        repeats = self.shape.heads // self.shape.kv_heads
        k = heads_of(self.key(x), self.shape.kv_heads).repeat_interleave(repeats, 1)
        v = heads_of(self.value(x), self.shape.kv_heads).repeat_interleave(repeats, 1)
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        result: Tensor = self.output(attended.transpose(1, 2).reshape(batch, length, -1))
        return result


class Layer(nn.Module):
    def __init__(self, shape: Shape, device: str, dtype: torch.dtype) -> None:
        super().__init__()
        self.attention_norm = nn.RMSNorm(shape.hidden, device=device, dtype=dtype)
        self.attention = Attention(shape, device, dtype)
        self.mlp_norm = nn.RMSNorm(shape.hidden, device=device, dtype=dtype)
        self.gate = nn.Linear(shape.hidden, shape.intermediate, bias=False, device=device, dtype=dtype)
        self.up = nn.Linear(shape.hidden, shape.intermediate, bias=False, device=device, dtype=dtype)
        self.down = nn.Linear(shape.intermediate, shape.hidden, bias=False, device=device, dtype=dtype)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.attention_norm(x))
        normed = self.mlp_norm(x)
        result: Tensor = x + self.down(F.silu(self.gate(normed)) * self.up(normed))
        return result


class CausalLM(nn.Module):
    """ids [batch, length] -> the mean cross entropy of the next tokens."""

    def __init__(self, shape: Shape, device: str, dtype: torch.dtype = torch.bfloat16) -> None:
        super().__init__()
        self.embedding = nn.Embedding(shape.vocab, shape.hidden, device=device, dtype=dtype)
        self.layers = nn.ModuleList(Layer(shape, device, dtype) for _ in range(shape.layers))
        self.norm = nn.RMSNorm(shape.hidden, device=device, dtype=dtype)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embedding(ids)
        for layer in self.layers:
            x = layer(x)
        logits = self.norm(x)[:, :-1] @ self.embedding.weight.t()
        return F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
