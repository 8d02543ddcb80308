"""The methods that a CPU runs without a compiler or a library."""

from __future__ import annotations

CHUNKING = (
    "chunked",
    "chunked_slices",
    "chunked_checkpoint",
    "grad_in_forward",
    "fused_head",
    "fused_head_grad_in_forward",
)
EAGER = ("whole", *CHUNKING, "cpu")
FROM_HIDDEN_STATES = ("fused_head", "fused_head_grad_in_forward")
ONCE = ("grad_in_forward", "fused_head_grad_in_forward")
TERMS = ("cross_entropy", "kl", "reverse_kl", "jsd", "tv", "kl_topk", "cap")


def chunk_of(method: str, chunk: int) -> int | None:
    """The chunk for methods that take one."""
    return chunk if method in CHUNKING else None
