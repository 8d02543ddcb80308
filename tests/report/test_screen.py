"""Bars and percentages."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from membudget.report.screen import bar, percent


@given(whole=st.integers(0, 10**18), part=st.integers(0, 2 * 10**18), cells=st.integers(1, 40))
def test_bar_has_its_width_and_is_nearest(whole: int, part: int, cells: int) -> None:
    text = bar(part, whole, cells)
    filled = text.count("#")
    assert len(text) == cells
    assert text == "#" * filled + "." * (cells - filled)
    if 0 < part <= whole:
        assert abs(filled * whole - part * cells) * 2 <= whole


@given(whole=st.integers(1, 10**18), parts=st.tuples(st.integers(0, 10**18), st.integers(0, 10**18)))
def test_bar_is_monotone(whole: int, parts: tuple[int, int]) -> None:
    small, large = sorted(parts)
    assert bar(small, whole).count("#") <= bar(large, whole).count("#")


@pytest.mark.parametrize(
    ("part", "whole", "text"),
    [(0, 0, "0 %"), (0, 5, "0 %"), (1, 1000, "<1 %"), (1, 200, "1 %"), (1, 3, "33 %"), (3, 3, "100 %")],
)
def test_percent(part: int, whole: int, text: str) -> None:
    assert percent(part, whole) == text
