"""The allocator's own events of a torch program, and the engine's, in a form that can be compared.

An event is a signed number of bytes. The order inside a run of frees is not compared: C++ destroys temporaries
of one expression in an order of its own. What a matrix product allocates and frees inside itself (oneDNN's
packing buffers) belongs to the CPU's kernel and is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch._C._profiler import _EventType
from torch.profiler import ProfilerActivity, profile

from membudget.timeline import Timeline

PRODUCTS = {"aten::mm", "aten::addmm_", "aten::addmm"}


def torch_events(program: Callable[[], object]) -> list[int]:
    """What the CPU allocator reports while `program` runs, without any dispatch mode."""
    torch.set_num_threads(1)
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        program()
    tree = profiler.profiler.kineto_results.experimental_event_tree()
    found = [event for root in tree for event in _allocations(root, "")]
    found.sort(key=lambda event: event[0])
    return [nbytes for _, nbytes, _, _ in _without_scratch(found)]


def _allocations(event: Any, parent: str) -> Iterator[tuple[int, int, int, str]]:
    """(time, signed bytes, address, operator) of every allocation below an event of the profiler's tree."""
    if event.tag == _EventType.Allocation:
        fields = event.extra_fields
        yield event.start_time_ns, fields.alloc_size, fields.ptr, parent
    for child in event.children:
        yield from _allocations(child, event.name)


def _without_scratch(events: list[tuple[int, int, int, str]]) -> list[tuple[int, int, int, str]]:
    """Drop pairs allocated and freed inside one matrix product."""
    dropped: set[int] = set()
    open_in_product: dict[int, int] = {}
    for index, (_, nbytes, address, operator) in enumerate(events):
        if nbytes > 0 and operator in PRODUCTS:
            open_in_product[address] = index
        elif nbytes < 0 and address in open_in_product:
            if operator in PRODUCTS:
                dropped |= {index, open_in_product[address]}
            del open_in_product[address]
    return [event for index, event in enumerate(events) if index not in dropped]


def timeline_events(timeline: Timeline) -> list[int]:
    """The same for a timeline of the engine."""
    events = [0] * timeline.num_instants
    for allocation in timeline.allocations:
        events[allocation.born] = allocation.nbytes
        if allocation.dies is not None:
            events[allocation.dies] = -allocation.nbytes
    return events


def canonical(events: list[int]) -> list[int]:
    """Runs of frees sorted; events of zero bytes dropped."""
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


def explain_difference(torch_side: list[int], sized_side: list[int]) -> str:
    """The first place where two canonical sequences part, with what surrounds it."""
    shorter = min(len(torch_side), len(sized_side))
    index = next((i for i in range(shorter) if torch_side[i] != sized_side[i]), shorter)
    low = max(0, index - 6)
    return (
        f"event {index} of {len(torch_side)} (allocator) and {len(sized_side)} (engine)\n"
        f"  allocator: {torch_side[low : index + 6]}\n  engine:    {sized_side[low : index + 6]}"
    )
