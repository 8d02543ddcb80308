"""What a trace found, ready for any report. Reading it needs no torch."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from membudget.calculator.section_totals import SectionTotals, section_totals
from membudget.timeline import Allocation, Peak, Timeline


@dataclass(frozen=True)
class Finding:
    """One thing the timeline says about the code, with the lines it says it of."""

    kind: str
    """loop_holds, loop_frees or alive_after_backward."""
    file: str
    first_line: int
    last_line: int
    nbytes: int
    text: str
    """The sentence for people."""


@dataclass(frozen=True)
class Trace:
    """The real code's timeline, beyond what it started from."""

    name: str
    settings: str
    """Sizes and dtypes in words."""
    timeline: Timeline
    """Phases forward and backward, for a configuration targets before them."""
    findings: tuple[Finding, ...] = ()
    plan_peak_bytes: int | None = None
    """The peak of the calculator for the same section; None where there is no configuration."""
    equals_plan: bool | None = None
    """Whether the two sequences of allocations and frees are the same, byte for byte."""
    notes: tuple[str, ...] = ()

    @property
    def totals(self) -> SectionTotals:
        return section_totals(self.timeline)

    @property
    def peak(self) -> Peak:
        return self.timeline.peak()

    @property
    def at_peak(self) -> list[Allocation]:
        """Alive at the peak, the largest first."""
        return sorted(self.timeline.alive_at(self.peak.instant), key=lambda each: -each.nbytes)

    @property
    def peak_lines(self) -> list[tuple[str, int]]:
        """`file:line` and the bytes it owns at the peak, the most first; "" for what has no line."""
        owned: dict[str, int] = defaultdict(int)
        for allocation in self.at_peak:
            owned[allocation.line] += allocation.nbytes
        return sorted(owned.items(), key=lambda item: -item[1])
