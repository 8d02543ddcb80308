"""The CUDA caching allocator's rules that every size goes through."""

from __future__ import annotations

from typing import Final

BLOCK_BYTES: Final = 512
"""Every request is rounded up to a multiple of this (kMinBlockSize in c10/core/AllocatorConfig.h)."""


def block_bytes(nbytes: int) -> int:
    """The block that is handed out for a request of `nbytes`; none for 0."""
    return -(-nbytes // BLOCK_BYTES) * BLOCK_BYTES
