"""Memory beyond the tensors: cuBLAS workspaces, what the allocator reserves on top, the CUDA context."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from membudget.calculator.result import Item

if TYPE_CHECKING:
    from membudget.catalog.gpus import Gpu

MIB: Final = 2**20
SMALL_BYTES: Final = MIB
"""Blocks up to this come from the small pool (kSmallSize)."""

SMALL_SEGMENT_BYTES: Final = 2 * MIB
"""What the small pool asks cudaMalloc for (kSmallBuffer)."""

LARGE_BYTES: Final = 10 * MIB
"""Requests from this on get a segment of their own (kMinLargeAlloc)."""

LARGE_SEGMENT_BYTES: Final = 20 * MIB
"""What requests between the two ask cudaMalloc for."""

ROUND_LARGE_BYTES: Final = 2 * MIB
"""Granularity of segments from LARGE_BYTES on (kRoundLarge)."""

UNKNOWN_WORKSPACE_BYTES: Final = 33_554_432
"""cuBLAS workspace assumed for a GPU given by its memory only: the larger one, of Hopper and Blackwell."""


def segment_bytes(blocks: Iterable[tuple[int, int]]) -> int:
    """Bytes the caching allocator must reserve at least to hold these (block bytes, number of blocks).

    Rules: c10/core/AllocatorConfig.h and CUDACachingAllocator `get_allocation_size`. Blocks below 10 MiB are
    taken as packed without holes into segments of 20 MiB (over 1 MiB) or 2 MiB. Fragmentation, that is free
    pieces which fit no later request, depends on the order of requests and is not in this number.
    """
    total = small = medium = 0
    for nbytes, count in blocks:
        if nbytes <= SMALL_BYTES:
            small += nbytes * count
        elif nbytes < LARGE_BYTES:
            medium += nbytes * count
        else:
            total += _round_up(nbytes, ROUND_LARGE_BYTES) * count
    return total + _round_up(small, SMALL_SEGMENT_BYTES) + _round_up(medium, LARGE_SEGMENT_BYTES)


def workspace_bytes(gpu: Gpu | None) -> tuple[int, str]:
    """(bytes of one cuBLAS workspace, provenance); there is one per thread that multiplies matrices."""
    if gpu is None:
        return UNKNOWN_WORKSPACE_BYTES, "assumed"
    from membudget.catalog.gpus import cublas_workspace_bytes

    return cublas_workspace_bytes(gpu), "exact"


def runtime_items(*, allocated_bytes: int, reserved_bytes: int, cuda_context_bytes: int) -> list[Item]:
    """The lines between the allocated total and the device total."""
    slack = reserved_bytes - allocated_bytes
    texts = f"{reserved_bytes:,} B in segments - {allocated_bytes:,} B in blocks"
    context = f"{cuda_context_bytes:,} B"
    return [
        Item("allocator slack", "runtime", slack, "segments - blocks", texts, "modelled"),
        Item("CUDA context", "runtime", cuda_context_bytes, "budget.cuda_context", context, "assumed"),
    ]


def _round_up(nbytes: int, step: int) -> int:
    return -(-nbytes // step) * step
