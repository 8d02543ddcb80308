"""Which methods can be run, on what, and how often their graph."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from membudget.config.loss import CHUNKING_METHODS
from membudget.config.suggest import did_you_mean
from membudget.losses.term import Term
from membudget.losses.torch_ops import refuse_second_backward
from membudget.programs.section import HEAD_METHODS, LIBRARY_METHODS

METHODS = (
    "whole",
    "chunked",
    "chunked_slices",
    "chunked_checkpoint",
    "grad_in_forward",
    "fused_head",
    "fused_head_grad_in_forward",
    "cpu",
    "compiled",
    *LIBRARY_METHODS,
)
"""Every method that runs."""

WITHOUT_GRADIENT = {"grad_in_forward": "chunked", "fused_head_grad_in_forward": "fused_head"}
"""Methods that compute a gradient in forward, and what runs in their place where nobody wants one."""


def check_method(method: str, chunk: int | None, *, has_head: bool) -> None:
    """ValueError for a method that does not exist, cannot run on what was given, or lacks its chunk."""
    if method == "fused_kernel":
        raise ValueError(
            'method "fused_kernel" is priced only: membudget ships no GPU kernel. "liger" and "cut_cross_entropy" call '
            "the libraries liger-kernel and cut-cross-entropy, which do; every other method here runs without one"
        )
    if method not in METHODS:
        raise ValueError(f'no method "{method}"{did_you_mean(method, METHODS)}: choose one of {", ".join(METHODS)}')
    if (method in HEAD_METHODS or method in LIBRARY_METHODS) and not has_head:
        raise ValueError(f'method "{method}" computes the logits itself: pass Head(hidden, weight) in their place')
    if method in CHUNKING_METHODS and (not isinstance(chunk, int) or chunk < 1):
        raise ValueError(f'method "{method}" needs chunk, the tokens per chunk (for example 4096), not {chunk!r}')
    if method not in CHUNKING_METHODS and chunk is not None:
        raise ValueError(f'method "{method}" does not chunk: leave chunk out')


def check_library(method: str, terms: tuple[Term, ...], *, has_labels: bool, has_weights: bool) -> None:
    """ValueError for what a library does not compute."""
    if [term.name for term in terms] != ["cross_entropy"] or not has_labels:
        raise ValueError(f'method "{method}" computes cross_entropy with labels alone: call it apart')
    if terms[0].temperature != 1 or terms[0].softmax_dtype is not None:
        raise ValueError(f'method "{method}" has neither temperature nor softmax_dtype: leave them out')
    if has_weights:
        raise ValueError(f'method "{method}" takes no token_weights: leave tokens out with mask or ignore_index')


def refuse_reuse(loss: Tensor, method: str) -> None:
    """Let the loss run backward once. A node behind it refuses too, but PyTorch may stop earlier, with other words."""
    node = loss.grad_fn
    if method not in WITHOUT_GRADIENT or node is None:
        return
    used: list[bool] = []

    def before(_: Any) -> None:
        refuse_second_backward(method, bool(used))
        used.append(True)

    node.register_prehook(before)
