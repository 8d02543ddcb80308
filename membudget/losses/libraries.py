"""Cross entropy from hidden states on, by PyTorch's own function or by a library; imported when it is called.

Each function takes hidden [tokens, hidden], weight [vocab, hidden] (the head's) and labels [tokens] (token ids), and
returns the sum over all tokens whose label is not `ignore_index`: divide once, by one number. Logits never exist in
full, and the gradients reach hidden states and, unless it is frozen, the head. A CannotMeasureError, which is an
ImportError too, says what to install; a CannotMeasureError alone, what the library cannot run on.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, Final

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from membudget.errors import CannotMeasureError

IGNORED: Final = -100
"""The label of a token that does not count, as everywhere in PyTorch."""

HALVES: Final = (torch.bfloat16, torch.float16)


class MissingLibraryError(CannotMeasureError, ImportError):
    """The library of a method is not installed, or too old."""


def torch_linear_cross_entropy(
    hidden: Tensor, weight: Tensor, labels: Tensor, *, ignore_index: int = IGNORED
) -> Tensor:
    """torch.nn.functional.linear_cross_entropy in chunks of its own choice; the sum has the dtype of hidden.

    From PyTorch 2.13 on; MissingLibraryError before. The gradients are computed in forward, in chunks whose sums are
    kept in fp32; a second backward and gradients of gradients are refused by PyTorch.
    """
    function = getattr(F, "linear_cross_entropy", None)
    if function is None or not hasattr(torch.nn, "LinearCrossEntropyOptions"):
        raise MissingLibraryError(
            f"method torch_linear_cross_entropy needs PyTorch 2.13 or newer, this is {torch.__version__}: "
            f"pip install 'torch>=2.13', or use method fused_head_grad_in_forward"
        )
    options = torch.nn.LinearCrossEntropyOptions()
    loss: Tensor = function(hidden, weight, labels, reduction="sum", ignore_index=ignore_index, options=options)
    return loss


def liger(hidden: Tensor, weight: Tensor, labels: Tensor, *, ignore_index: int = IGNORED) -> Tensor:
    """Liger's fused linear cross entropy, on a GPU; the sum is fp32.

    MissingLibraryError without the extra `liger`. The gradients are computed in forward, that of the head is added up
    in its own dtype, chunk by chunk, and scaled in place by backward: call backward once.
    """
    module = _imported("liger_kernel.transformers.fused_linear_cross_entropy", "liger")
    _check_device("liger", hidden)
    function = module.LigerFusedLinearCrossEntropyLoss(reduction="sum", ignore_index=ignore_index)
    loss: Tensor = function(weight, hidden, labels)
    return loss


def cut_cross_entropy(hidden: Tensor, weight: Tensor, labels: Tensor, *, ignore_index: int = IGNORED) -> Tensor:
    """Cut Cross-Entropy, on a GPU, hidden states in bf16 or fp16; the sum is fp32.

    MissingLibraryError without the extra `cut-cross-entropy`. The gradient leaves out blocks of the softmax that are
    far below the resolution of the dtype, as the library does unless it is told otherwise: it is approximate.
    """
    module = _imported("cut_cross_entropy", "cut-cross-entropy")
    _check_device("cut_cross_entropy", hidden)
    if hidden.dtype not in HALVES:
        raise CannotMeasureError(
            f"method cut_cross_entropy has a backward for bf16 and fp16 hidden states only, these are {hidden.dtype}"
        )
    loss: Tensor = module.linear_cross_entropy(hidden, weight, labels, ignore_index=ignore_index, reduction="sum")
    return loss


def _imported(module: str, extra: str) -> Any:
    try:
        return import_module(module)
    except ImportError as error:
        name = extra.replace("-", "_")
        raise MissingLibraryError(
            f"method {name} needs a library that cannot be imported ({error}): pip install 'membudget[{extra}]'"
        ) from error


def _check_device(name: str, hidden: Tensor) -> None:
    if hidden.device.type == "cpu":
        raise CannotMeasureError(
            f"method {name} runs Triton kernels on a GPU, and the hidden states are on the CPU: "
            f"move hidden states, head and labels to the GPU, or use another method"
        )


LIBRARIES: Final[dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]]] = {
    "torch_linear_cross_entropy": torch_linear_cross_entropy,
    "liger": liger,
    "cut_cross_entropy": cut_cross_entropy,
}
"""The function behind each method of a library."""
