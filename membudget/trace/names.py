"""Words for operators: what a person calls the tensor that an operator makes."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from membudget.losses.torch_ops import NAMES

_WORDS = {
    "_log_softmax": "log_softmax",
    "_softmax": "softmax",
    "sub": "difference",
    "mul": "product",
    "add": "sum",
    "div": "quotient",
    "mm": "matmul",
    "addmm": "matmul",
    "ones_like": "gradient of the loss",
    "nll_loss_forward": "loss",
    "_log_softmax_backward_data": "gradient of log_softmax",
    "_softmax_backward_data": "gradient of softmax",
    "nll_loss_backward": "gradient of nll_loss",
    "slice_backward": "gradient of the whole of a slice",
    "cat": "concatenation",
    "neg": "negative",
    "new_empty_strided": "copy of a gradient",
}


def words_of(func: Any, output: Tensor) -> str:
    """`log_softmax` for aten::_log_softmax, `copy to fp32` for a cast; an unknown operator keeps its own name."""
    name: str = func._schema.name.split("::")[-1]
    if name == "_to_copy":
        return f"copy to {NAMES.get(output.dtype, output.dtype)}"
    return _WORDS.get(name, name.strip("_"))
