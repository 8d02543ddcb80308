"""Scaling from small sizes: exact, or refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from membudget.errors import CannotMeasureError
from membudget.probe.scaling import Sizes, at_sizes, scaled, small_sizes
from membudget.timeline import Recorder, Timeline
from tests.probe.examples import settings

FULL = Sizes(248_320, 5120)
SMALL = small_sizes(settings().request)


def timeline(sizes: list[int], nested: bool = False) -> Timeline:
    """One tensor of each size; the first dies last where they are nested."""
    recorder = Recorder("forward")
    handles = [recorder.allocate("tensor", "loss", nbytes) for nbytes in sizes]
    for handle in reversed(handles) if nested else handles:
        recorder.free(handle)
    return recorder.build()


def runs(bytes_of: Callable[[Sizes], int]) -> list[Timeline]:
    return [timeline([bytes_of(sizes), 8]) for sizes in SMALL]


@given(st.tuples(*[st.integers(0, 10**9)] * 4))
def test_any_such_size_is_found_exactly(numbers: tuple[int, int, int, int]) -> None:
    a, b, c, d = numbers

    def bytes_of(sizes: Sizes) -> int:
        return a + b * sizes.vocab + c * sizes.hidden + d * sizes.vocab * sizes.hidden

    found = scaled(runs(bytes_of), SMALL, FULL)
    assert [allocation.nbytes for allocation in found.allocations] == [bytes_of(FULL), 8]


@pytest.mark.parametrize(
    ("bytes_of", "message"),
    [
        (lambda s: s.vocab**2, "a run at another small size takes 1,089 B, not"),
        (lambda s: s.hidden**3, "a run at another small size"),
        (lambda s: 512 * -(-s.vocab * s.hidden // 512), "a run at another small size takes 1,024 B, not 512 B"),
        (lambda s: s.vocab // 2, "bytes do not grow by whole numbers"),
    ],
)
def test_other_sizes_are_refused(bytes_of: Callable[[Sizes], int], message: str) -> None:
    with pytest.raises(CannotMeasureError, match=message):
        scaled(runs(bytes_of), SMALL, FULL)


def test_another_order_is_refused() -> None:
    with pytest.raises(CannotMeasureError, match="the order of events depends on vocabulary or hidden size"):
        scaled([*[timeline([8, 8])] * 4, timeline([8, 8], nested=True)], SMALL, FULL)


def test_other_phases_are_refused() -> None:
    one = timeline([8, 8])
    other = replace(one, phases=(replace(one.phases[0], name="backward"),))
    with pytest.raises(CannotMeasureError, match="the order of events"):
        scaled([*[one] * 4, other], SMALL, FULL)


@pytest.mark.parametrize(("k", "small_ks"), [(30, {30}), (5000, {size.vocab for size in SMALL})])
def test_k_of_topk_stays_below_the_vocabulary_or_takes_all_of_it(k: int, small_ks: set[int]) -> None:
    request = settings({"kl_topk": {"k": k}}).request
    small = [at_sizes(request, sizes) for sizes in small_sizes(request)]
    assert {term.k for each in small for _, term in each.terms} == small_ks  # type: ignore[attr-defined]
    assert all((k < request.vocab) == (term.k < each.vocab) for each in small for _, term in each.terms)  # type: ignore[attr-defined]
    assert {each.tokens for each in small} == {request.tokens}
