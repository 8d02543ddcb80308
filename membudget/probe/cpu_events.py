"""The CPU allocator's own events while torch code runs, read from the profiler; no dispatch mode is involved.

An event is a signed number of bytes. What a matrix product allocates and frees inside itself (oneDNN's packing
buffers) belongs to the CPU's kernel and is left out.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch._C._profiler import _EventType
from torch.profiler import ProfilerActivity, profile, record_function

from membudget.errors import CannotMeasureError
from membudget.timeline import Recorder, Timeline

PRODUCTS = {"aten::mm", "aten::addmm_", "aten::addmm"}

MARK = "membudget section"

Phases = Iterable[tuple[str, Callable[[], None]]]


class Event(NamedTuple):
    """One request to the allocator."""

    time_ns: int
    nbytes: int
    """Negative where memory is given back."""
    address: int
    operator: str
    """The operator inside which it happened."""


def torch_events(program: Callable[[], object]) -> list[int]:
    """Signed bytes of what the CPU allocator reports while `program` runs."""
    with _profiling() as profiler:
        program()
    return [event.nbytes for event in events_below(_roots(profiler))]


def recorded(sections: Iterable[Phases]) -> list[Timeline]:
    """Run each section's phases, one section after another; the timeline of each.

    A section is made only when its turn comes, so making its inputs is no part of it. Raises CannotMeasureError when
    a phase gives back memory that none of its section took.
    """
    with _profiling() as profiler:
        count = 0
        for number, phases in enumerate(sections):
            count += 1
            for name, step in phases:
                with record_function(f"{MARK}/{number}/{name}"):
                    step()
    timelines = [_Linked() for _ in range(count)]
    for root in _roots(profiler):
        if root.name.startswith(f"{MARK}/"):
            _, number, name = root.name.split("/", 2)
            timelines[int(number)].add(name, events_below([root]))
    return [linked.recorder.build() for linked in timelines]


def events_below(roots: Iterable[Any]) -> list[Event]:
    """In order of time, the events below some roots of the profiler's tree, without the scratch of products."""
    found = sorted((event for root in roots for event in _allocations(root, "")), key=lambda event: event.time_ns)
    return _without_scratch(found)


class _Linked:
    """Deaths brought together with births by their addresses."""

    def __init__(self) -> None:
        self.recorder = Recorder()
        self._handles: dict[int, int] = {}

    def add(self, phase: str, events: Iterable[Event]) -> None:
        self.recorder.phase(phase)
        for event in events:
            if event.nbytes > 0:
                name = event.operator or phase
                self._handles[event.address] = self.recorder.allocate(name, "loss", event.nbytes, provenance="measured")
            elif event.nbytes < 0:
                if event.address not in self._handles:
                    raise CannotMeasureError(f"memory from before the section was freed in its phase {phase}")
                self.recorder.free(self._handles.pop(event.address))


@contextmanager
def _profiling() -> Iterator[Any]:
    """One thread, so that no reduction takes a buffer per thread; the caller's number is restored."""
    # The profiler's library announces its start and stop on stderr; 6 is above all of its levels.
    os.environ.setdefault("KINETO_LOG_LEVEL", "6")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
            yield profiler
    finally:
        torch.set_num_threads(threads)


def _roots(profiler: Any) -> Any:
    return profiler.profiler.kineto_results.experimental_event_tree()


def _allocations(event: Any, parent: str) -> Iterator[Event]:
    """Every request below an event of the profiler's tree."""
    if event.tag == _EventType.Allocation:
        fields = event.extra_fields
        yield Event(event.start_time_ns, fields.alloc_size, fields.ptr, parent)
    for child in event.children:
        yield from _allocations(child, event.name)


def _without_scratch(events: list[Event]) -> list[Event]:
    """Drop pairs allocated and freed inside one matrix product."""
    dropped: set[int] = set()
    open_in_product: dict[int, int] = {}
    for index, event in enumerate(events):
        if event.nbytes > 0 and event.operator in PRODUCTS:
            open_in_product[event.address] = index
        elif event.nbytes < 0 and event.address in open_in_product:
            if event.operator in PRODUCTS:
                dropped |= {index, open_in_product[event.address]}
            del open_in_product[event.address]
    return [event for index, event in enumerate(events) if index not in dropped]
