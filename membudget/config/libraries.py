"""What the methods of libraries cannot compute, in texts that begin with the key they are about."""

from __future__ import annotations

LIBRARY_METHODS = frozenset({"torch_linear_cross_entropy", "liger", "cut_cross_entropy"})
"""Methods that hand hidden states and head to a library, which chooses its chunks itself."""

HALF_PRECISION_METHODS = frozenset({"cut_cross_entropy"})
"""Methods whose backward takes hidden states in bf16 and fp16 only."""


def term_refusal(method: str, *, is_cross_entropy: bool, temperature: float) -> str | None:
    """Why a term cannot be computed by this method; None when it can."""
    if method not in LIBRARY_METHODS:
        return None
    if not is_cross_entropy:
        return "method of a library: it computes cross_entropy alone"
    if temperature != 1:
        return "temperature is not for the method of a library: remove it, or choose another method"
    return None


def section_refusal(method: str, *, labels: str, token_weights: bool) -> str | None:
    """Why no term of a section with these settings can be computed by this method."""
    if method not in LIBRARY_METHODS:
        return None
    if labels == "targets":
        return "labels from the targets are not for the method of a library: it takes those of the data"
    if token_weights:
        return "token_weights are not for the method of a library: tokens that count nothing have the label -100 there"
    return None


def dtype_refusal(method: str, dtype: str) -> str | None:
    """Why hidden states of this dtype are nothing for this method."""
    if method in HALF_PRECISION_METHODS and dtype not in ("bf16", "fp16"):
        return f"precision {dtype} is not for method {method}: its backward takes hidden states in bf16 and fp16 only"
    return None
