"""What a dispatch mode changes or cannot see, put right.

Under any mode autograd's formulas avoid in-place operators (at::areAnyTensorSubclassLike), gradients are added up out
of place, and the temporaries inside one kernel do not show. The first is undone here operator by operator, the second
in EventLog, and for the third the kernel's own steps are run where they show.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

aten = torch.ops.aten

IN_PLACE_TWINS: dict[Any, Callable[..., Any]] = {
    aten.masked_fill.Scalar: aten.masked_fill_.Scalar,
    aten.masked_fill.Tensor: aten.masked_fill_.Tensor,
    aten.scatter_add.default: aten.scatter_add_.default,
    aten.scatter.src: aten.scatter_.src,
    aten.scatter.value: aten.scatter_.value,
    aten.index_add.default: aten.index_add_.default,
    aten.index_put.default: aten.index_put_.default,
    aten.masked_scatter.default: aten.masked_scatter_.default,
}
"""Operators that a formula applies in place to a temporary of its own, but not under a mode."""

IN_PLACE_IN_NODES: dict[str, dict[Any, Callable[..., Any]]] = {
    "BinaryCrossEntropyWithLogitsBackward0": {
        aten.sub.Tensor: aten.sub_.Tensor,
        aten.mul.Tensor: aten.mul_.Tensor,
        aten.div.Tensor: aten.div_.Tensor,
        aten.div.Scalar: aten.div_.Scalar,
    },
}
"""The same, for operators that are in place in the formula of one node only."""

FULL_STORAGE = frozenset({aten.mse_loss.default, aten.smooth_l1_loss.default})
"""Losses whose result, one number, lies in a storage as large as their input: it is resized, not made anew."""


def dense_first(func: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The operands of a product, an expanded one last.

    In half precision fake tensors take the layout of the first operand, real ones that of the dense one.
    """
    if func is not aten.mul.Tensor or not all(isinstance(each, Tensor) for each in args):
        return args
    a, b = args
    return (b, a) if a.shape == b.shape and 0 in a.stride() and 0 not in b.stride() else args


Prepared = tuple[tuple[Any, ...], object]
"""The arguments an operator goes on with, and what lives until it is done."""


def _logsumexp(x: Tensor, dim: Any, keepdim: bool = False) -> Prepared:
    """Maxima, the mask of the infinite ones, and exp of the difference, until the sum is taken."""
    maxima = aten.amax.default(x, dim, True)
    aten.masked_fill_.Scalar(maxima, aten.eq.Scalar(aten.abs.default(maxima), float("inf")), 0)
    exponentials = aten.exp_.default(aten.sub.Tensor(x, maxima))
    return (x, dim, keepdim), (maxima, exponentials)


def _softmax_backward(grad: Tensor, *rest: Any) -> Prepared:
    """The kernel reads a dense gradient."""
    return (grad.contiguous(), *rest), None


def _softmax(x: Tensor, *rest: Any) -> Prepared:
    """The kernel reads a dense input; the copy dies with it."""
    return (x, *rest), None if x.is_contiguous() else aten.empty_like.default(x)


def _is_for_blas(x: Tensor) -> bool:
    """Whether one stride is 1 and the other spans the row or column (Blas.cpp, prepare_matrix_for_cublas)."""
    rows, columns = x.shape[-2:]
    row_stride, column_stride = x.stride()[-2:]
    by_rows = column_stride == 1 and row_stride >= max(1, columns)
    by_columns = row_stride == 1 and column_stride >= max(1, rows)
    return by_rows or by_columns or x.numel() <= 1


def _isinf(x: Tensor) -> Prepared:
    """abs(x) == inf."""
    return (x,), aten.abs.default(x) if x.is_floating_point() else None


def _summed(x: Tensor, *rest: Any, dtype: Any = None) -> Prepared:
    """Integers and masks are copied to int64 first, other dtypes to the one asked for (make_reduction)."""
    wanted = dtype or (x.dtype if x.is_floating_point() or x.is_complex() else torch.int64)
    in_kernel = x.dtype in (torch.float16, torch.bfloat16) and wanted == torch.float32
    copied = wanted != x.dtype and not in_kernel
    return (x, *rest), aten.empty_like.default(x, dtype=wanted) if copied else None


def _reduced_loss(x: Tensor, target: Tensor, reduction: int = 1, *rest: Any) -> Prepared:
    """Every element's loss, until it is reduced."""
    elements = aten.empty_like.default(x) if reduction else None
    return (x, target, reduction, *rest), elements


def _bce_with_logits(x: Tensor, target: Tensor, *rest: Any) -> Prepared:
    """log_sigmoid of the logits, and (1 - target) on which the loss is built up in place."""
    if (rest[2] if len(rest) > 2 else 1) == 0:
        return (x, target, *rest), aten.empty_like.default(x)
    return (x, target, *rest), (aten.empty_like.default(x), aten.empty_like.default(x))


WITH_TEMPORARIES: dict[Any, Callable[..., Prepared]] = {
    aten.logsumexp.default: _logsumexp,
    aten._log_softmax.default: _softmax,
    aten._softmax.default: _softmax,
    aten._log_softmax_backward_data.default: _softmax_backward,
    aten._softmax_backward_data.default: _softmax_backward,
    aten.isinf.default: _isinf,
    aten.sum.default: _summed,
    aten.sum.dim_IntList: _summed,
    aten.mse_loss.default: _reduced_loss,
    aten.smooth_l1_loss.default: _reduced_loss,
    aten.huber_loss.default: _reduced_loss,
    aten.binary_cross_entropy_with_logits.default: _bce_with_logits,
}
"""Operators that allocate inside themselves before their result is made, and the steps by which they do."""


def copies_for_blas(func: Any, args: tuple[Any, ...]) -> list[Tensor]:
    """The operands of a matrix product that are copied once its result is there, until it is computed."""
    factors = args[-2:] if func in _PRODUCTS else ()
    return [x.contiguous() for x in factors if not _is_for_blas(x)]


_PRODUCTS = frozenset({aten.mm.default, aten.bmm.default, aten.addmm.default, aten.addmm_.default})
