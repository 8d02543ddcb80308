"""The profiler's events as timelines: births and deaths brought together, phase by phase."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch

from membudget.errors import CannotMeasureError
from membudget.probe.cpu_events import Phases, recorded, torch_events
from membudget.sequence import signed_bytes


class Holder:
    """Two phases that share a tensor."""

    def __init__(self) -> None:
        self.kept: torch.Tensor | None = None

    def phases(self) -> tuple[tuple[str, Callable[[], None]], ...]:
        return ("make", self.make), ("drop", self.drop)

    def make(self) -> None:
        self.kept = torch.empty(10).exp()

    def drop(self) -> None:
        self.kept = None


def test_a_tensor_lives_from_phase_to_phase() -> None:
    (timeline,) = recorded([Holder().phases()])
    assert signed_bytes(timeline) == [40, 40, -40, -40]
    assert [phase.name for phase in timeline.phases] == ["make", "drop"]
    # empty(10) dies at the end of its phase, the sum in the next.
    assert [(a.born, a.dies) for a in timeline.allocations] == [(0, 2), (1, 3)]
    assert timeline.peak().nbytes == 80


def test_sections_are_kept_apart_and_made_when_their_turn_comes() -> None:
    made: list[int] = []

    def sections() -> Iterator[Phases]:
        for number in range(3):
            made.append(number)
            torch.ones(7)  # outside of all phases
            yield Holder().phases()

    timelines = recorded(sections())
    assert made == [0, 1, 2]
    assert [signed_bytes(timeline) for timeline in timelines] == [[40, 40, -40, -40]] * 3


def test_memory_from_before_is_not_given_back_inside() -> None:
    def sections() -> Iterator[Phases]:
        holder = Holder()
        holder.make()
        yield [("drop", holder.drop)]

    with pytest.raises(CannotMeasureError, match="memory from before the section was freed in its phase drop"):
        recorded(sections())


def test_scratch_of_a_product_is_left_out() -> None:
    a = torch.randn(300, 200, dtype=torch.bfloat16)
    b = torch.randn(200, 100, dtype=torch.bfloat16)
    assert torch_events(lambda: a @ b) == [300 * 100 * 2, -300 * 100 * 2]


def test_the_number_of_threads_is_the_callers_again() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        seen: list[int] = []
        torch_events(lambda: seen.append(torch.get_num_threads()))
        assert (seen, torch.get_num_threads()) == ([1], 2)
    finally:
        torch.set_num_threads(before)
