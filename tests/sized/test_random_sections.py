"""Loss sections nobody thought of: hypothesis composes them, the CPU allocator judges."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from membudget.config.loss import CHUNKING_METHODS
from membudget.programs.section import HEAD_METHODS, LOGITS_METHODS, Group
from membudget.programs.terms import TERM_PROGRAMS, TermSettings
from tests.loss_cases import Case
from tests.sized.test_agreement import assert_agrees

term_settings = st.builds(
    TermSettings,
    name=st.sampled_from(sorted(TERM_PROGRAMS)),
    weight=st.sampled_from([1.0, 0.15]),
    softmax_dtype=st.sampled_from([None, "fp32"]),
    temperature=st.sampled_from([1.0, 2.0]),
    upcast=st.booleans(),
    autocast=st.booleans(),
    beta=st.sampled_from([0.5, 0.3]),
    k=st.sampled_from([1, 5, 500]),
)


@st.composite
def groups(draw: st.DrawFn) -> Group:
    terms = draw(st.lists(term_settings, min_size=1, max_size=3, unique_by=lambda term: term.name))
    method = draw(st.sampled_from(sorted({*LOGITS_METHODS, *HEAD_METHODS})))
    chunk = draw(st.sampled_from([1, 3, 8, 32, 64])) if method in CHUNKING_METHODS else 0
    return Group(tuple(terms), method, chunk)


cases = st.builds(
    Case,
    groups=st.lists(groups(), min_size=1, max_size=3).map(tuple),
    tokens=st.sampled_from([1, 7, 32, 33]),
    vocab=st.sampled_from([96, 128]),
    hidden=st.sampled_from([16, 48, 200]),
    dtype=st.sampled_from(["bf16", "fp32", "fp16"]),
    keep=st.sampled_from(["none", "logits", "targets", "both"]),
    train_head=st.booleans(),
    labels_from_targets=st.booleans(),
)


@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(cases)
def test_any_section_agrees(case: Case) -> None:
    assert_agrees(case)
