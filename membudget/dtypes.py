"""Data types by their short names, and how many bytes an element of each takes."""

from __future__ import annotations

from typing import Final

ITEMSIZE: Final[dict[str, int]] = {
    "fp64": 8,
    "fp32": 4,
    "bf16": 2,
    "fp16": 2,
    "int64": 8,
    "int32": 4,
    "uint8": 1,
    "bool": 1,
}
"""Bytes per element; the names of torch dtypes in their usual short form."""

FLOATS: Final = frozenset({"fp64", "fp32", "bf16", "fp16"})


def promote(left: str, right: str) -> str:
    """The dtype two tensors with dimensions meet in (torch.result_type for the dtypes of this table)."""
    if left == right:
        return left
    if (left in FLOATS) != (right in FLOATS):
        return left if left in FLOATS else right
    if {left, right} == {"bf16", "fp16"}:
        return "fp32"
    if left == "bool":
        return right
    return left if ITEMSIZE[left] >= ITEMSIZE[right] else right
