"""Sentences that the formats share."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from membudget.calculator.result import Plan
from membudget.errors import printable
from membudget.report.words import (
    gpu_label,
    grouped,
    headline,
    limit_rows,
    plural,
    provenance_line,
    sized,
    totals,
    verdict,
)
from membudget.timeline import least_certain
from tests.report.samples import MIB, drafter, over_plan, target


@pytest.mark.parametrize(
    ("indices", "text"),
    [
        ([7], "GPU 7 (drafter)"),
        ([0, 1, 2], "GPUs 0-2 (drafter)"),
        ([3, 0, 2], "GPUs 0, 2-3 (drafter)"),
    ],
)
def test_gpu_label(indices: list[int], text: str) -> None:
    assert gpu_label(indices, "drafter") == text


def test_a_byte_over_is_over_and_says_so() -> None:
    exact = drafter().device_bytes
    assert verdict(drafter(given_limit_bytes=exact + 1, capacity_bytes=exact)) == "fits to the byte, nothing left"
    assert verdict(drafter(given_limit_bytes=exact - 1, capacity_bytes=exact)) == "OVER by 1 B"
    assert verdict(drafter(given_limit_bytes=exact + 1, capacity_bytes=2 * exact)) == "fits with 1 B left"


def test_headline_names_the_gpu_that_is_most_over() -> None:
    assert headline(over_plan()) == ("ddtree: OVER by 8.97 GB = 8.36 GiB on GPU 7 (drafter), peak in loss forward")
    fits = Plan("v6", (target(0), drafter(given_limit_bytes=None, capacity_bytes=10**12)), (), ())
    assert headline(fits).startswith("v6: fits with 85.46 GB = 79.59 GiB left on GPU 0 (target), the tightest,")


def test_limit_rows_say_which_limit_counts() -> None:
    given, seen = 95 * 10**9, 97_250 * MIB
    assert [(label, remark) for label, _, remark in limit_rows(drafter())] == [
        ("limit given", "(counts)"),
        ("torch sees", ""),
        ("device total", ""),
    ]
    larger = limit_rows(drafter(given_limit_bytes=seen + 1, compare="allocated"))
    assert larger[:2] == [("limit given", seen + 1, ""), ("torch sees", seen, "(counts)")]
    assert larger[2][0] == "allocated total"
    assert limit_rows(drafter(given_limit_bytes=None))[0] == ("torch sees", seen, "(counts)")
    assert limit_rows(drafter(capacity_bytes=given))[0][2] == "(counts)"


def test_equal_gpus_are_one_group_and_those_over_come_first() -> None:
    groups = grouped(over_plan().gpus)
    assert [group.indices for group in groups] == [(7,), (0, 1, 2, 3, 4, 5)]
    assert all(not group.others for group in groups)


def test_gpus_that_differ_stand_beside_the_fullest() -> None:
    fuller = replace(target(1), device_bytes=target(1).device_bytes + 1)
    (group,) = grouped([target(0), fuller, target(2)])
    assert (group.indices, group.gpu) == ((1,), fuller)
    assert group.others == (((0, 2), target(0)),)
    # Another limit is another group: the limit lines would not be true of it.
    assert len(grouped([target(0), replace(target(1), given_limit_bytes=None)])) == 2


def test_totals_are_as_certain_as_their_least_certain_part() -> None:
    assert [provenance for _, _, provenance in totals(drafter())] == ["modelled", "modelled", "assumed"]


@given(st.lists(st.sampled_from(["exact", "measured", "modelled", "assumed"])))
def test_least_certain(provenances: list[str]) -> None:
    found = least_certain(provenances)
    order = ["exact", "measured", "modelled", "assumed"]
    assert found in (provenances or ["exact"])
    assert all(order.index(provenance) <= order.index(found) for provenance in provenances)


def test_small_phrases() -> None:
    assert (plural(1, "file"), plural(0, "file"), plural(1000, "file")) == ("1 file", "0 files", "1,000 files")
    assert provenance_line(["exact", "assumed", "exact"]) == "lines: 2 exact, 1 assumed (?)"
    assert provenance_line([]) == "lines: none"
    assert sized(95 * 10**9) == "95.00 GB = 88.48 GiB (95,000,000,000 B)"
    assert sized(512) == "512 B"


@given(st.text())
def test_printable_never_steers_a_terminal(text: str) -> None:
    assert printable(text).isprintable()
    assert text.isprintable() <= (printable(text) == text)
