"""Sequences of allocations and frees as signed bytes, in a form in which two of them can be compared."""

from __future__ import annotations

from collections.abc import Iterable

from membudget.timeline import Timeline


def signed_bytes(timeline: Timeline) -> list[int]:
    """Every event of a timeline: bytes for a birth, minus bytes for a death."""
    events = [0] * timeline.num_instants
    for allocation in timeline.allocations:
        events[allocation.born] = allocation.nbytes
        if allocation.dies is not None:
            events[allocation.dies] = -allocation.nbytes
    return events


def canonical(events: Iterable[int]) -> list[int]:
    """Runs of frees sorted, events of zero bytes dropped: C++ frees temporaries of one expression in its own order."""
    result: list[int] = []
    run: list[int] = []
    for nbytes in events:
        if nbytes < 0:
            run.append(nbytes)
        elif nbytes > 0:
            result += sorted(run)
            run = []
            result.append(nbytes)
    return result + sorted(run)


def same_sequence(one: Timeline, other: Timeline) -> bool:
    """Whether two timelines allocate and free the same bytes in the same order."""
    return canonical(signed_bytes(one)) == canonical(signed_bytes(other))
