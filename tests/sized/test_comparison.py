"""The comparison itself can fail, and says where: one event changed, moved, or left out is always reported."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from membudget.calculator.loss_request import LossRequest
from membudget.calculator.loss_run import run_section
from membudget.config.loss import Kl
from membudget.timeline import Phase, Recorder, Timeline
from tests.sized.comparison import difference, record

REQUEST = LossRequest((("kl", Kl(softmax_dtype="fp32")),), tokens=4, vocab=24, hidden=8)
ENGINE = run_section(REQUEST, device="cpu")
allocations = st.integers(0, len(ENGINE.allocations) - 1)


def with_size(timeline: Timeline, index: int, nbytes: int) -> Timeline:
    changed = list(timeline.allocations)
    changed[index] = replace(changed[index], nbytes=nbytes)
    return replace(timeline, allocations=tuple(changed))


def test_what_agrees_is_not_reported() -> None:
    assert difference(record([REQUEST])[0], ENGINE) == ""


@given(allocations, st.sampled_from([-1, 1, 512]))
def test_another_size_is_reported(index: int, more: int) -> None:
    assert difference(ENGINE, with_size(ENGINE, index, ENGINE.allocations[index].nbytes + more))


@given(allocations)
def test_a_tensor_that_is_missing_is_reported(index: int) -> None:
    """A size of zero is no event."""
    assert difference(ENGINE, with_size(ENGINE, index, 0))
    assert difference(with_size(ENGINE, index, 0), ENGINE)


@given(allocations)
def test_a_death_that_comes_later_is_reported(index: int) -> None:
    """Later by one allocation: the order inside a run of frees is not compared."""
    events = ENGINE.events()
    dies = ENGINE.allocations[index].dies
    assert dies is not None
    later = [instant for instant in range(dies, len(events)) if events[instant] >= 0]
    if later:
        events.insert(later[0] + 1, events[dies])
        del events[dies]
        assert difference(ENGINE, rebuilt(events))


def rebuilt(events: list[int]) -> Timeline:
    """The engine's timeline with its events in another order; phases begin where they began."""
    recorder = Recorder()
    handles: dict[int, int] = {}
    for instant, event in enumerate(events):
        for phase in ENGINE.phases:
            if phase.first == instant:
                recorder.phase(phase.name)
        if event >= 0:
            handles[event] = recorder.repeat(ENGINE.allocations[event])
        else:
            recorder.free(handles[~event])
    return recorder.build()


@pytest.mark.parametrize("earlier", [-1, 1])
def test_an_event_in_another_phase_is_reported(earlier: int) -> None:
    targets, forward, *others = ENGINE.phases
    border = targets.end - earlier
    moved = (Phase("targets", targets.first, border), Phase("forward", border, forward.end), *others)
    assert difference(ENGINE, replace(ENGINE, phases=moved))


def test_the_message_names_the_number_the_phase_and_the_events() -> None:
    largest = max(range(len(ENGINE.allocations)), key=lambda index: ENGINE.allocations[index].nbytes)
    found = difference(ENGINE, with_size(ENGINE, largest, 5000))
    # targets, logits, and five fp32 tensors of 4 x 24; the first of the five has 5,000 bytes in the engine's place.
    assert "forward_peak_bytes: 2,304 by the allocator, 5,768 by the engine" in found
    assert "forward: event 1 of 19 (allocator) and 19 (engine)" in found
    assert "allocator: [192, 384," in found
    assert "engine:    [192, 5000," in found


def test_an_empty_record_is_no_agreement() -> None:
    empty = Recorder().build()
    with pytest.raises(AssertionError, match="reported nothing"):
        difference(empty, empty)
