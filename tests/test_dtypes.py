"""Against torch itself: names, sizes, and the dtype two tensors meet in."""

from __future__ import annotations

from itertools import product

import pytest
import torch

from membudget.dtypes import FLOATS, ITEMSIZE, promote

TORCH = {
    "fp64": torch.float64,
    "fp32": torch.float32,
    "bf16": torch.bfloat16,
    "fp16": torch.float16,
    "int64": torch.int64,
    "int32": torch.int32,
    "uint8": torch.uint8,
    "bool": torch.bool,
}


def test_every_dtype_is_compared() -> None:
    assert TORCH.keys() == ITEMSIZE.keys()


@pytest.mark.parametrize("name", ITEMSIZE)
def test_sizes(name: str) -> None:
    assert ITEMSIZE[name] == TORCH[name].itemsize
    assert (name in FLOATS) == TORCH[name].is_floating_point


@pytest.mark.parametrize(("left", "right"), list(product(ITEMSIZE, repeat=2)))
def test_promotion_of_tensors_with_dimensions(left: str, right: str) -> None:
    result = torch.result_type(torch.empty(1, dtype=TORCH[left]), torch.empty(1, dtype=TORCH[right]))
    assert TORCH[promote(left, right)] == result
