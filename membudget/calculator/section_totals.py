"""The few numbers that say what a loss section costs, read off its timeline."""

from __future__ import annotations

from dataclasses import dataclass

from membudget.timeline import Timeline


@dataclass(frozen=True)
class SectionTotals:
    """Bytes beyond what the section started from."""

    held_bytes: int
    """Alive between forward and backward."""
    forward_peak_bytes: int
    """The most before backward, the teacher's logits included."""
    backward_peak_bytes: int

    @property
    def peak_bytes(self) -> int:
        return max(self.forward_peak_bytes, self.backward_peak_bytes)


def section_totals(timeline: Timeline) -> SectionTotals:
    """Of a timeline with phases targets (perhaps), forward and backward."""
    totals = timeline.totals()
    forward = next((phase for phase in timeline.phases if phase.name == "forward"), None)
    return SectionTotals(
        held_bytes=0 if forward is None else totals[forward.end - 1],
        forward_peak_bytes=timeline.peak(("targets", "forward")).nbytes,
        backward_peak_bytes=timeline.peak(("backward",)).nbytes,
    )
