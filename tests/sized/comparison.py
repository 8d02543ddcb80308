"""Where the allocator's timeline of a loss section and the engine's part."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields

from membudget.calculator.loss_request import LossRequest
from membudget.calculator.section_totals import section_totals
from membudget.losses.section import torch_section
from membudget.probe.cpu_events import recorded
from membudget.programs.section_run import STEP_PHASES
from membudget.sequence import canonical, signed_bytes
from membudget.timeline import Timeline
from tests.allocator_events import explain_difference


def record(requests: Iterable[LossRequest]) -> list[Timeline]:
    """What the allocator saw of each request, run by torch one after another in one profiler session."""
    return recorded(torch_section(request).phases() for request in requests)


def difference(allocator: Timeline, engine: Timeline) -> str:
    """Empty when all totals are equal and every phase has the same events, else what differs first."""
    assert allocator.allocations, "the allocator reported nothing"
    measured, predicted = section_totals(allocator), section_totals(engine)
    found = [
        f"{field.name}: {ours:,} by the allocator, {theirs:,} by the engine"
        for field in fields(measured)
        if (ours := getattr(measured, field.name)) != (theirs := getattr(predicted, field.name))
    ]
    real, sized = events_by_phase(allocator), events_by_phase(engine)
    for phase in STEP_PHASES:
        if real.get(phase) != sized.get(phase):
            found.append(f"{phase}: {explain_difference(real.get(phase, []), sized.get(phase, []))}")
            break
    return "\n".join(found)


def events_by_phase(timeline: Timeline) -> dict[str, list[int]]:
    """The comparable events of each phase; a phase without any is left out."""
    events = signed_bytes(timeline)
    by_phase = {phase.name: canonical(events[phase.first : phase.end]) for phase in timeline.phases}
    return {name: found for name, found in by_phase.items() if found}
