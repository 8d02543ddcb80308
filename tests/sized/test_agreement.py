"""The engine against the CPU allocator's own events, event for event: every term with every method."""

from __future__ import annotations

import pytest

from membudget.programs.section import Group
from membudget.programs.terms import TermSettings
from tests.allocator_events import canonical, explain_difference, timeline_events
from tests.loss_cases import Case, case, run_sized, run_torch

TERMS = (
    "cross_entropy",
    "kl",
    "reverse_kl",
    "jsd",
    "tv",
    "kl_topk",
    "cap",
    "cross_entropy+kl",
    "cross_entropy+kl+cap",
)
CHUNKS = {
    "whole": (0,),
    "chunked": (8, 10, 32),
    "chunked_slices": (8, 10, 32),
    "chunked_checkpoint": (8, 10, 32),
    "grad_in_forward": (8, 10, 32),
    "fused_head": (8, 10, 32),
    "fused_head_grad_in_forward": (8, 10, 32),
    "cpu": (0,),
    "compiled": (0,),
    "fused_kernel": (0,),
}
"""Chunks of 32 tokens: dividing, not dividing, and all of them."""


def assert_agrees(of: Case) -> None:
    allocator = canonical(run_torch(of))
    engine = canonical(timeline_events(run_sized(of)))
    assert allocator, "the allocator reported nothing"
    assert allocator == engine, f"{of}\n{explain_difference(allocator, engine)}"


@pytest.mark.parametrize("method", CHUNKS)
@pytest.mark.parametrize("terms", TERMS)
def test_events_of_term_and_method(terms: str, method: str) -> None:
    for chunk in CHUNKS[method]:
        for keep, train_head in (("both", False), ("none", True), ("logits", True), ("targets", False)):
            assert_agrees(case(terms, method, chunk, softmax_dtype="fp32", keep=keep, train_head=train_head, k=5))


@pytest.mark.parametrize("dtype", ["bf16", "fp16", "fp32"])
@pytest.mark.parametrize("terms", TERMS)
def test_events_in_every_dtype(terms: str, dtype: str) -> None:
    for softmax_dtype in (None, "fp32"):
        for method, chunk in (("whole", 0), ("chunked_checkpoint", 10), ("grad_in_forward", 10)):
            assert_agrees(case(terms, method, chunk, softmax_dtype=softmax_dtype, dtype=dtype, k=5))


@pytest.mark.parametrize("method", ["whole", "chunked", "fused_head"])
def test_events_with_settings_of_terms(method: str) -> None:
    chunk = CHUNKS[method][-2] if len(CHUNKS[method]) > 1 else 0
    assert_agrees(case("kl+jsd", method, chunk, temperature=2.0, beta=0.3))
    assert_agrees(case("cross_entropy", method, chunk, upcast=True, keep="none"))
    assert_agrees(case("cross_entropy", method, chunk, autocast=True))
    assert_agrees(case("kl_topk", method, chunk, k=500))


def test_events_of_terms_with_different_methods() -> None:
    groups = (
        Group((TermSettings("cross_entropy"),), "fused_kernel", 0),
        Group((TermSettings("kl", weight=0.15),), "whole", 0),
        Group((TermSettings("cap"),), "fused_head", 10),
        Group((TermSettings("tv"),), "grad_in_forward", 8),
    )
    for train_head in (False, True):
        assert_agrees(Case(groups, train_head=train_head))
        assert_agrees(Case(groups[::-1], train_head=train_head, keep="none"))
