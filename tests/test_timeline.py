"""A timeline against the plainest account of the same events: a running sum."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from membudget.timeline import Dim, Peak, Recorder, Timeline, formula_of, values_of


@dataclass
class Account:
    """The timeline, and after each event the bytes alive and the phase, summed by hand."""

    timeline: Timeline
    totals: list[int]
    phases: list[str]


@st.composite
def accounts(draw: st.DrawFn) -> Account:
    recorder = Recorder("p0")
    alive: dict[int, int] = {}
    totals: list[int] = []
    phases: list[str] = []
    phase = "p0"
    for step in draw(st.lists(st.sampled_from(["allocate", "allocate", "free", "phase"]), max_size=30)):
        if step == "phase":
            phase = f"p{draw(st.integers(0, 3))}"
            recorder.phase(phase)
            continue
        if step == "free":
            if not alive:
                continue
            handle = draw(st.sampled_from(sorted(alive)))
            recorder.free(handle)
            del alive[handle]
        else:
            nbytes = draw(st.integers(0, 10**12))
            alive[recorder.allocate("x", "loss", nbytes)] = nbytes
        totals.append(sum(alive.values()))
        phases.append(phase)
        assert recorder.total_bytes == totals[-1]
    return Account(recorder.build(), totals, phases)


@given(accounts())
def test_totals_are_the_running_sum(account: Account) -> None:
    assert account.timeline.num_instants == len(account.totals)
    assert account.timeline.totals() == account.totals


@given(accounts())
def test_totals_are_the_sum_of_what_is_alive(account: Account) -> None:
    for instant, total in enumerate(account.totals):
        assert sum(a.nbytes for a in account.timeline.alive_at(instant)) == total


@given(accounts())
def test_the_peak_is_the_first_maximum_over_instants(account: Account) -> None:
    peak = account.timeline.peak()
    assert peak.nbytes == max(account.totals, default=0)
    if peak.nbytes:
        assert peak.instant == account.totals.index(peak.nbytes)
        assert peak.phase == account.phases[peak.instant]


@given(accounts(), st.sets(st.sampled_from(["p0", "p1", "p2", "p3"])))
def test_the_peak_of_some_phases_looks_at_their_instants_only(account: Account, wanted: set[str]) -> None:
    inside = [t for t, phase in zip(account.totals, account.phases, strict=True) if phase in wanted]
    assert account.timeline.peak(wanted).nbytes == max(inside, default=0)


@given(accounts())
def test_phases_follow_one_another_without_gaps(account: Account) -> None:
    phases = account.timeline.phases
    named = [phase.name for phase in phases for _ in range(phase.first, phase.end)]
    assert named == account.phases
    assert all(phase.end > phase.first for phase in phases)


@given(accounts())
def test_no_instant_of_an_allocation_is_counted_twice_or_lost(account: Account) -> None:
    byte_instants = 0
    for allocation in account.timeline.allocations:
        end = account.timeline.num_instants if allocation.dies is None else allocation.dies
        assert 0 <= allocation.born < end
        byte_instants += allocation.nbytes * (end - allocation.born)
    assert byte_instants == sum(account.totals)


def test_a_peak_is_not_the_sum_of_the_maxima_of_phases() -> None:
    recorder = Recorder("forward")
    logits = recorder.allocate("logits", "logits", 10)
    recorder.free(logits)
    recorder.phase("backward")
    recorder.allocate("gradient", "loss", 7)
    timeline = recorder.build()
    assert timeline.peak() == Peak(0, "forward", 10)
    assert timeline.peak(["backward"]) == Peak(2, "backward", 7)


def test_freeing_twice_is_refused() -> None:
    recorder = Recorder()
    handle = recorder.allocate("x", "loss", 1)
    recorder.free(handle)
    with pytest.raises(AssertionError):
        recorder.free(handle)


def test_a_phase_in_which_nothing_happened_is_dropped() -> None:
    recorder = Recorder("empty")
    recorder.phase("forward")
    recorder.allocate("x", "loss", 1)
    recorder.phase("also empty")
    assert [phase.name for phase in recorder.build().phases] == ["forward"]


def test_an_empty_timeline_peaks_at_nothing() -> None:
    assert Recorder().build().peak() == Peak(0, "", 0)


def test_formulas_name_the_dimensions_they_know() -> None:
    shape = (Dim(24_576, "tokens"), Dim(248_320, "vocab"), 1024)
    assert formula_of(shape, "bf16") == "tokens x vocab x 1,024 x 2 B"
    assert values_of(shape, "bf16") == "24,576 x 248,320 x 1,024 x 2 B"


def test_an_allocation_explains_itself_from_its_shape_or_its_size() -> None:
    recorder = Recorder()
    recorder.allocate("logits", "logits", 8, shape=(Dim(4, "tokens"),), dtype="bf16")
    recorder.allocate("context", "runtime", 1000)
    logits, context = recorder.build().allocations
    assert (logits.formula, logits.values) == ("tokens x 2 B", "4 x 2 B")
    assert (context.formula, context.values) == ("1,000 B", "1,000 B")
