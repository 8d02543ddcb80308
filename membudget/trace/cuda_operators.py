"""What CUDA runs where a device without kernels runs something else: facts of ATen's dispatch, one function per call.

Each takes the arguments of the call it stands for and returns NotImplemented where CUDA runs what was called.
Workspaces inside attention's and rms_norm's backward kernels are not included.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from membudget.errors import UsageError
from membudget.losses.torch_ops import TorchOps
from membudget.programs.linear_cross_entropy import linear_cross_entropy as linear_cross_entropy_program

aten = torch.ops.aten

HALVES = (torch.float16, torch.bfloat16)
MAX_FLASH_HEAD_DIM = 256


def log_softmax(x: Tensor, dim: Any = None, *args: Any, dtype: Any = None, **kwargs: Any) -> Any:
    """fp16 to fp32 without a copy: the kernel casts (SoftMax.cpp, half_to_float)."""
    if dim is None or not _is_fused_softmax(x, dtype):
        return NotImplemented
    return aten._log_softmax.default(x, dim, True)


def softmax(x: Tensor, dim: Any = None, *args: Any, dtype: Any = None, **kwargs: Any) -> Any:
    """As log_softmax."""
    if dim is None or not _is_fused_softmax(x, dtype):
        return NotImplemented
    return aten._softmax.default(x, dim, True)


def _is_fused_softmax(x: Any, dtype: Any) -> bool:
    return isinstance(x, Tensor) and x.dtype == torch.float16 and dtype == torch.float32 and x.device.type == "meta"


def dropout(x: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    """native_dropout: the mask is bool (Dropout.cpp, is_fused_kernel_acceptable)."""
    if inplace or not training or not 0 < p < 1 or x.device.type != "meta":
        return NotImplemented
    return torch.native_dropout(x, p, True)[0]


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    """Flash attention in half precision without a mask, else memory-efficient attention; math where neither goes.

    The order of sdp_utils.cpp with its default priorities; query [batch, heads, sequence, head_dim].
    """
    if query.device.type != "meta" or query.dim() != 4 or query.shape[-1] != value.shape[-1]:
        return NotImplemented
    if query.dtype in HALVES and attn_mask is None and query.shape[-1] <= MAX_FLASH_HEAD_DIM:
        flash = aten._scaled_dot_product_flash_attention.default
        return flash(query, key, value, dropout_p, is_causal, scale=scale)[0]
    if query.dtype not in (*HALVES, torch.float32) or enable_gqa:
        return NotImplemented
    keep_statistics = torch.is_grad_enabled() and (query.requires_grad or key.requires_grad or value.requires_grad)
    bias = _as_bias(attn_mask, query)
    efficient = aten._scaled_dot_product_efficient_attention.default
    return efficient(query, key, value, bias, keep_statistics, dropout_p, is_causal, scale=scale)[0]


def _as_bias(mask: Tensor | None, query: Tensor) -> Tensor | None:
    """A boolean mask becomes a bias in the dtype of the query, which the node keeps."""
    if mask is None:
        return None
    if mask.dtype == torch.bool:
        mask = torch.zeros_like(mask, dtype=query.dtype).masked_fill_(mask, 0.0)
    return mask.expand(*query.shape[:2], *mask.shape[-2:])


def rms_norm(x: Tensor, normalized_shape: Any, weight: Tensor | None = None, eps: float | None = None) -> Any:
    """_fused_rms_norm, in versions of PyTorch that have it: x, weight and one fp32 number per row are kept."""
    fused = hasattr(aten, "_fused_rms_norm") and x.device.type == "meta" and x.is_contiguous()
    if not fused or (weight is not None and weight.dtype != x.dtype):
        return NotImplemented
    return _FusedRmsNorm.apply(x, len(tuple(normalized_shape)), weight)  # type: ignore[no-untyped-call]


class _FusedRmsNorm(torch.autograd.Function):
    """Sizes of the fused kernel; no arithmetic, for there is no data."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, normalized_dims: int, weight: Tensor | None) -> Tensor:
        rows = x.shape[: x.dim() - normalized_dims]
        output = torch.empty_like(x)
        statistics = torch.empty((*rows, *[1] * normalized_dims), dtype=torch.float32, device=x.device)
        ctx.save_for_backward(x, statistics, weight)
        return output

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> Any:
        x, _, weight = ctx.saved_tensors
        upstream.contiguous()
        of_x = torch.empty_like(x) if ctx.needs_input_grad[0] else None
        of_weight = torch.empty_like(weight) if ctx.needs_input_grad[2] else None
        return of_x, None, of_weight


def linear_cross_entropy(input: Tensor, linear_weight: Tensor, target: Tensor, **settings: Any) -> Any:
    """Chunked, it is one operator to a trace, which cannot look inside: its priced program is run instead."""
    options = settings.get("options")
    if options is None:
        return NotImplemented
    unknown = [name for name in ("linear_bias", "weight", "label_smoothing") if settings.get(name)]
    if unknown or options != type(options)():
        raise UsageError(
            f"F.linear_cross_entropy in chunks is traced with its default options and without bias, class weights and "
            f"label smoothing ({', '.join(unknown) or 'options'} given): leave them out for the trace"
        )
    return linear_cross_entropy_program(
        TorchOps(), input, linear_weight, target, train_weight=linear_weight.requires_grad
    )


CHOICES: dict[Any, Callable[..., Any]] = {
    **dict.fromkeys((F.log_softmax, torch.log_softmax, Tensor.log_softmax), log_softmax),
    **dict.fromkeys((F.softmax, torch.softmax, Tensor.softmax), softmax),
    **dict.fromkeys((F.dropout, torch.dropout), dropout),
    F.scaled_dot_product_attention: scaled_dot_product_attention,
    **dict.fromkeys((F.rms_norm, torch.rms_norm), rms_norm),
}
"""What is called, and what CUDA runs for it."""
if hasattr(F, "linear_cross_entropy"):
    CHOICES[F.linear_cross_entropy] = linear_cross_entropy
