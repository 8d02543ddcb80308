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


class Segments:
    """What the caching allocator must reserve at least for blocks that come and go.

    Rules: c10/core/AllocatorConfig.h and CUDACachingAllocator `get_allocation_size`. Blocks below 10 MiB are
    taken as packed without holes into segments of 20 MiB (over 1 MiB) or 2 MiB. Fragmentation, that is free
    pieces which fit no later request, depends on the order of requests and is not in this number.
    """

    def __init__(self) -> None:
        self._small = self._medium = self._large = 0

    def add(self, blocks: Iterable[tuple[int, int]], sign: int = 1) -> None:
        """Blocks (bytes of one, how many) that are born, or with sign -1 freed."""
        for nbytes, count in blocks:
            if nbytes <= SMALL_BYTES:
                self._small += sign * nbytes * count
            elif nbytes < LARGE_BYTES:
                self._medium += sign * nbytes * count
            else:
                self._large += sign * _round_up(nbytes, ROUND_LARGE_BYTES) * count

    @property
    def nbytes(self) -> int:
        """Bytes of the segments."""
        small, medium = _round_up(self._small, SMALL_SEGMENT_BYTES), _round_up(self._medium, LARGE_SEGMENT_BYTES)
        return small + medium + self._large


def segment_bytes(blocks: Iterable[tuple[int, int]]) -> int:
    """Bytes of segments for these blocks."""
    segments = Segments()
    segments.add(blocks)
    return segments.nbytes


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
