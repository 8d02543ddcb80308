"""What was observed while code ran: storages that were born and died, in order; and the Timeline made of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from membudget.timeline import Recorder, Timeline

Place = tuple[tuple[str, int, int], ...]
"""Frames of the user's code as (file, line, column of the instruction), the innermost first."""


class Scope(NamedTuple):
    """What a program says of the storages it makes."""

    name: str = ""
    """What their names begin with."""
    provenance: str = "exact"


NO_SCOPE = Scope()


@dataclass
class Birth:
    """One storage on the traced device."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    nbytes: int
    """As requested, before the allocator rounds it."""
    place: Place
    """Where the user's code was; in backward, where it made the operator whose gradient this is."""
    category: str = "loss"
    provenance: str = "exact"


@dataclass
class EventLog:
    """Births by number; events in order: i where storage i is born, ~i where it dies."""

    births: list[Birth] = field(default_factory=list)
    events: list[int] = field(default_factory=list)
    phases: list[tuple[str, int]] = field(default_factory=list)
    """Name and first event."""
    sums: list[tuple[int, int]] = field(default_factory=list)
    """(sum, accumulated) of each gradient accumulation that PyTorch may do in place."""

    def born(self, birth: Birth) -> int:
        self.births.append(birth)
        self.events.append(len(self.births) - 1)
        return len(self.births) - 1

    def died(self, index: int) -> None:
        self.events.append(~index)

    def phase(self, name: str) -> None:
        self.phases.append((name, len(self.events)))

    def timeline(self, block_bytes: Callable[[int], int]) -> Timeline:
        """The timeline, with every size rounded as the allocator does it; sums done in place are no allocations."""
        same = self._accumulated_in_place()
        recorder = Recorder(self.phases[0][0] if self.phases else "step")
        starts: dict[int, list[str]] = {}
        for name, first in self.phases:
            starts.setdefault(first, []).append(name)
        handles: dict[int, int] = {}
        for place, event in enumerate(self.events):
            for name in starts.get(place, ()):
                recorder.phase(name)
            if event >= 0:
                if event not in same.inner:
                    handles[event] = self._allocate(recorder, self.births[event], block_bytes)
            elif ~event not in same.outer:
                recorder.free(handles[same.root(~event)])
        for name in starts.get(len(self.events), ()):
            recorder.phase(name)
        return recorder.build()

    @staticmethod
    def _allocate(recorder: Recorder, birth: Birth, block_bytes: Callable[[int], int]) -> int:
        return recorder.allocate(
            birth.name,
            birth.category,
            block_bytes(birth.nbytes),
            shape=birth.shape,
            dtype=birth.dtype,
            provenance=birth.provenance,
            line="{}:{}".format(*birth.place[0]) if birth.place else "",
        )

    def places(self) -> tuple[Place, ...]:
        """The place of each allocation of the timeline."""
        same = self._accumulated_in_place()
        return tuple(birth.place for index, birth in enumerate(self.births) if index not in same.inner)

    def allocations_of(self, births: Iterable[int]) -> set[int]:
        """The numbers these storages have among the allocations of the timeline."""
        same = self._accumulated_in_place()
        kept = [index for index in range(len(self.births)) if index not in same.inner]
        number = {birth: position for position, birth in enumerate(kept)}
        return {number[same.root(birth)] for birth in births}

    def _accumulated_in_place(self) -> _Merged:
        """Sums whose first operand nobody else held: it dies before anything else is born, so PyTorch adds into it."""
        merged = _Merged()
        place_of = {event: place for place, event in enumerate(self.events)}
        for total, accumulated in self.sums:
            end = place_of.get(~accumulated)
            place = place_of[total] + 1
            while place < len(self.events) and self.events[place] < 0 and place != end:
                place += 1
            if place == end:
                merged.inner[total] = accumulated
                merged.outer.add(accumulated)
        return merged


@dataclass
class _Merged:
    """Storages that in truth are one: a sum and the gradient it was added into."""

    inner: dict[int, int] = field(default_factory=dict)
    """The sum, and whose storage it has."""
    outer: set[int] = field(default_factory=set)
    """Storages that live on as a sum: their death is none."""

    def root(self, index: int) -> int:
        while index in self.inner:
            index = self.inner[index]
        return index
