"""The agreement matrix: thousands of loss sections, run by torch and by the engine, judged by the CPU allocator.

Compared are the bytes held between forward and backward, the peaks of forward and backward, and every event of every
phase. There are no exceptions. What `compiled` and `fused_kernel` do here is their rule, emulated: agreement says that
the engine runs the rule as torch does, not that the kernels on a GPU follow it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

import pytest
import torch

from membudget.calculator.loss_request import LossRequest
from membudget.calculator.loss_run import run_section
from tests.sized.comparison import difference, events_by_phase, record
from tests.sized.matrix import CASES, FACTORS, METHODS, ROWS, beside_a_library, pairs_of, possible_pairs

BATCH = 50
FAST_BATCHES = 4
NUM_BATCHES = FAST_BATCHES if os.environ.get("MEMBUDGET_QUICK") else -(-len(CASES) // BATCH)


def disagreements(requests: Sequence[LossRequest]) -> list[str]:
    """What is wrong with which request."""
    compared = zip(requests, record(requests), strict=True)
    found = [(request, difference(seen, run_section(request, device="cpu"))) for request, seen in compared]
    return [f"{request}\n{text}" for request, text in found if text]


@pytest.mark.parametrize("batch", range(NUM_BATCHES))
def test_every_case_agrees(batch: int) -> None:
    cases = CASES[batch * BATCH : (batch + 1) * BATCH]
    failures = disagreements(cases)
    assert not failures, f"{len(failures)} of {len(cases)} cases disagree:\n" + "\n\n".join(failures)


@pytest.mark.skipif(not torch.__version__.startswith("2.13."), reason="the library's price is of PyTorch 2.13")
def test_a_librarys_method_beside_every_other_term_and_method_agrees() -> None:
    failures = disagreements(beside_a_library())
    assert not failures, "\n\n".join(failures)


def test_the_matrix_is_large_and_covers_every_pair() -> None:
    assert len(CASES) >= 1500
    assert len(set(CASES)) == len(CASES)
    missing = set(possible_pairs()).difference(*map(pairs_of, ROWS))
    assert not missing


def test_what_runs_everywhere_has_every_value_of_every_factor() -> None:
    for index, values in enumerate(FACTORS.values()):
        assert {row[index] for row in ROWS[: BATCH * FAST_BATCHES]} == set(values)


def test_only_the_method_of_a_term_that_is_not_there_is_left_out() -> None:
    """The product of all values, less the single terms that cannot have a second method."""
    columns = list(FACTORS.values())
    product = sum(len(a) * len(b) for i, a in enumerate(columns) for b in columns[i + 1 :])
    num_single = sum(len(terms) == 1 for terms in FACTORS["terms"])
    assert len(set(possible_pairs())) == product - num_single * len(METHODS)


def test_one_session_for_many_cases_records_what_a_session_for_each_records() -> None:
    cases = CASES[:20]
    together = [events_by_phase(timeline) for timeline in record(cases)]
    assert together == [events_by_phase(record([case])[0]) for case in cases]
