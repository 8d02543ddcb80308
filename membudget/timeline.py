"""The one idea: a training step is an ordered list of instants and the allocations alive at each.

A Recorder collects allocations and frees in the order in which they happen; `build` turns them into a
Timeline. Instant i is the moment right after event i, so an allocation born at event 3 and freed at
event 7 is alive at instants 3, 4, 5 and 6. Everything else in this package reads a Timeline.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate
from math import prod

from membudget.dtypes import ITEMSIZE

PROVENANCES = ("exact", "measured", "modelled", "assumed")
"""Where a number comes from, from the most to the least certain: derived to the byte, observed, counted with
simplifications, taken on trust."""


def least_certain(provenances: Iterable[str]) -> str:
    """The provenance of a sum: that of its least certain part; exact for an empty sum."""
    return max(provenances, key=PROVENANCES.index, default="exact")


class Dim(int):
    """A size that remembers what it counts, so that a formula can be read: Dim(24576, "tokens")."""

    name: str

    def __new__(cls, value: int, name: str) -> Dim:
        self = super().__new__(cls, value)
        self.name = name
        return self


def formula_of(shape: Sequence[int], dtype: str) -> str:
    """`tokens x vocab x 2 B`: the named dimensions of a shape and the bytes of one element."""
    factors = [d.name if isinstance(d, Dim) else f"{d:,}" for d in shape]
    return " x ".join([*factors, f"{ITEMSIZE[dtype]} B"])


def values_of(shape: Sequence[int], dtype: str) -> str:
    """`24,576 x 248,320 x 2 B`: the same formula with the numbers in it."""
    return " x ".join([*(f"{int(d):,}" for d in shape), f"{ITEMSIZE[dtype]} B"])


@dataclass(frozen=True, slots=True)
class Allocation:
    """One block of memory: what it is, how large, why, and from which event to which it lives."""

    name: str
    category: str
    nbytes: int
    """Bytes the allocator accounts for it; on CUDA a multiple of 512."""
    shape: tuple[int, ...]
    dtype: str
    given_formula: str
    """Set where the shape alone does not tell the size."""
    given_values: str
    provenance: str
    """One of PROVENANCES."""
    born: int
    dies: int | None
    """The event that frees it; None when it outlives the timeline."""
    count: int = 1
    """How many equal blocks stand behind it: repeated chunks are recorded as one allocation."""
    line: str = ""
    """`file:line` of the code that made it, where code was run."""

    @property
    def formula(self) -> str:
        """The size in names, `tokens x vocab x 2 B`."""
        if self.given_formula:
            return self.given_formula
        return self._padded(formula_of, "padding")

    @property
    def values(self) -> str:
        """The size in numbers, `24,576 x 248,320 x 2 B`."""
        if self.given_values:
            return self.given_values
        return self._padded(values_of, f"{self._padding_bytes:,} B padding")

    @property
    def _padding_bytes(self) -> int:
        """What the allocator's rounding adds to one block."""
        return self.nbytes // self.count - prod(self.shape) * ITEMSIZE[self.dtype]

    def _padded(self, text_of: Callable[[Sequence[int], str], str], padding: str) -> str:
        if not self.shape:
            return f"{self.nbytes // self.count:,} B"
        text = text_of(self.shape, self.dtype)
        return f"{text} + {padding}" if self._padding_bytes else text

    def alive_at(self, instant: int) -> bool:
        return self.born <= instant and (self.dies is None or instant < self.dies)


@dataclass(frozen=True, slots=True)
class Phase:
    """A named stretch of instants, first <= i < end; phases follow one another without gaps."""

    name: str
    first: int
    end: int


@dataclass(frozen=True, slots=True)
class Peak:
    """The first instant at which the most bytes are alive."""

    instant: int
    phase: str
    nbytes: int


@dataclass(frozen=True)
class Timeline:
    """Allocations in order of birth, and the phases of the step."""

    allocations: tuple[Allocation, ...]
    phases: tuple[Phase, ...]
    num_instants: int

    def totals(self) -> list[int]:
        """Bytes alive at each instant; computed once, not to be changed."""
        return self._totals

    @cached_property
    def _totals(self) -> list[int]:
        deltas = [0] * (self.num_instants + 1)
        for allocation in self.allocations:
            deltas[allocation.born] += allocation.nbytes
            if allocation.dies is not None:
                deltas[allocation.dies] -= allocation.nbytes
        return list(accumulate(deltas[: self.num_instants]))

    def peak(self, phases: Iterable[str] | None = None) -> Peak:
        """The peak of the whole step, or of the named phases only; an empty timeline peaks at 0 bytes."""
        totals = self.totals()
        wanted = None if phases is None else set(phases)
        best = Peak(0, self.phases[0].name if self.phases else "", 0)
        for phase in self.phases:
            if phase.end == phase.first or (wanted is not None and phase.name not in wanted):
                continue
            nbytes = max(totals[phase.first : phase.end])
            if nbytes > best.nbytes:
                best = Peak(totals.index(nbytes, phase.first), phase.name, nbytes)
        return best

    def alive_at(self, instant: int) -> list[Allocation]:
        return [a for a in self.allocations if a.alive_at(instant)]

    def events(self) -> list[int]:
        """What happens, in order: i where allocation i is born, ~i where it is freed."""
        events = [0] * self.num_instants
        for index, allocation in enumerate(self.allocations):
            events[allocation.born] = index
            if allocation.dies is not None:
                events[allocation.dies] = ~index
        return events

    def until(self, last_phase: str) -> Timeline:
        """The timeline cut off after a phase."""
        end = next(phase.end for phase in self.phases if phase.name == last_phase)
        allocations = tuple(
            a if a.dies is None or a.dies < end else replace(a, dies=None) for a in self.allocations if a.born < end
        )
        return Timeline(allocations, tuple(phase for phase in self.phases if phase.end <= end), end)


class Recorder:
    """Collects events; phases begin where `phase` is called and end where the next one begins."""

    def __init__(self, phase: str = "step") -> None:
        self._allocations: list[tuple[str, str, int, tuple[int, ...], str, str, str, str, int, int, str]] = []
        self._dies: dict[int, int] = {}
        self._phases: list[tuple[str, int]] = [(phase, 0)]
        self._clock = 0
        self.total_bytes = 0

    def allocate(
        self,
        name: str,
        category: str,
        nbytes: int,
        *,
        shape: tuple[int, ...] = (),
        dtype: str = "uint8",
        formula: str = "",
        values: str = "",
        provenance: str = "exact",
        count: int = 1,
        line: str = "",
    ) -> int:
        """Record an allocation; the returned handle is what `free` takes."""
        self._allocations.append(
            (name, category, nbytes, shape, dtype, formula, values, provenance, self._clock, count, line)
        )
        self._clock += 1
        self.total_bytes += nbytes
        return len(self._allocations) - 1

    def repeat(self, allocation: Allocation) -> int:
        """Record an allocation of another timeline."""
        a = allocation
        return self.allocate(
            a.name,
            a.category,
            a.nbytes,
            shape=a.shape,
            dtype=a.dtype,
            formula=a.given_formula,
            values=a.given_values,
            provenance=a.provenance,
            count=a.count,
            line=a.line,
        )

    def free(self, handle: int) -> None:
        """Record the end of an allocation; freeing twice is a programming error."""
        assert handle not in self._dies
        self._dies[handle] = self._clock
        self._clock += 1
        self.total_bytes -= self._allocations[handle][2]

    def phase(self, name: str) -> None:
        """Begin a phase at the next event; a phase in which nothing happened is dropped."""
        if self._phases[-1][1] == self._clock:
            self._phases.pop()
        self._phases.append((name, self._clock))

    def build(self) -> Timeline:
        """The timeline of all that was recorded."""
        ends = [*(first for _, first in self._phases[1:]), self._clock]
        phases = tuple(
            Phase(name, first, end) for (name, first), end in zip(self._phases, ends, strict=True) if end > first
        )
        allocations = tuple(
            Allocation(
                name,
                category,
                nbytes,
                shape,
                dtype,
                formula,
                values,
                provenance,
                born,
                self._dies.get(handle),
                count,
                line,
            )
            for handle, (
                name,
                category,
                nbytes,
                shape,
                dtype,
                formula,
                values,
                provenance,
                born,
                count,
                line,
            ) in enumerate(self._allocations)
        )
        return Timeline(allocations, phases, self._clock)
