"""Folding long loops changes nothing: every phase has the same peak and ends at the same total."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from membudget.calculator import loss_fold
from membudget.calculator.loss import FOLDED_FROM, MAX_CHUNKS, price_loss, section_timeline
from membudget.calculator.loss_request import LossRequest
from membudget.calculator.loss_run import run_section
from membudget.config.loss import CHUNKING_METHODS, Kl, Term
from membudget.timeline import Timeline
from tests.calculator.test_loss_price import TERMS


def outline(timeline: Timeline) -> list[tuple[str, int, int]]:
    """Per phase its peak and the total at its end."""
    totals = timeline.totals()
    return [(p.name, max(totals[p.first : p.end]), totals[p.end - 1]) for p in timeline.phases]


def alive_at_peak(timeline: Timeline) -> dict[str, int]:
    """Bytes by name at the peak."""
    found: dict[str, int] = {}
    for allocation in timeline.alive_at(timeline.peak().instant):
        found[allocation.name] = found.get(allocation.name, 0) + allocation.nbytes
    return found


@st.composite
def requests(draw: st.DrawFn) -> LossRequest:
    chunk = draw(st.sampled_from([1, 2, 7, 16, 33]))
    tokens = chunk * draw(st.integers(FOLDED_FROM, 30)) + draw(st.integers(0, chunk - 1))
    terms: list[tuple[str, Term]] = []
    for name in draw(st.lists(st.sampled_from(sorted(TERMS)), min_size=1, max_size=3, unique=True)):
        method = draw(st.sampled_from([*sorted(CHUNKING_METHODS), "whole", "fused_kernel"]))
        update: dict[str, Any] = {"method": method, "chunk": chunk if method in CHUNKING_METHODS else None}
        terms.append((name, TERMS[name].model_copy(update=update)))
    return LossRequest(
        tuple(terms),
        tokens,
        vocab=draw(st.sampled_from([64, 100, 512])),
        hidden=draw(st.sampled_from([8, 64, 300])),
        keep=draw(st.sampled_from(["none", "logits", "targets", "both"])),
        train_head=draw(st.booleans()),
        labels=draw(st.sampled_from(["data", "targets"])),
    )


@settings(max_examples=150, deadline=None)
@given(requests())
def test_folding_changes_nothing(request: LossRequest) -> None:
    unfolded = run_section(request)
    folded = section_timeline(request)
    assert outline(folded) == outline(unfolded)
    assert alive_at_peak(folded) == alive_at_peak(unfolded)


@pytest.mark.parametrize("method", sorted(CHUNKING_METHODS))
def test_long_loops_are_folded(method: str) -> None:
    request = LossRequest((("kl", Kl(method=method, chunk=1)),), tokens=1_000_000, vocab=248_320, hidden=5120)  # type: ignore[arg-type]
    timeline = section_timeline(request)
    assert timeline.num_instants < 1000
    assert price_loss(request).peak_bytes > 0


def test_a_loop_that_cannot_be_folded_is_run(monkeypatch: pytest.MonkeyPatch) -> None:
    request = LossRequest((("kl", Kl(method="chunked", chunk=2)),), tokens=64, vocab=100, hidden=8)
    expected = outline(section_timeline(request))
    monkeypatch.setattr(loss_fold, "_repeated_blocks", lambda short, longer: None)
    timeline = section_timeline(request)
    assert outline(timeline) == expected
    assert timeline.num_instants == run_section(request).num_instants


def test_two_chunk_sizes_are_run_one_by_one() -> None:
    terms = (
        ("kl", Kl(method="chunked", chunk=2)),
        ("tv", TERMS["tv"].model_copy(update={"method": "chunked", "chunk": 3})),
    )
    request = LossRequest(terms, tokens=60, vocab=100, hidden=8)
    assert request.num_chunks == 30 + 20 < MAX_CHUNKS
    assert outline(section_timeline(request)) == outline(run_section(request))


def test_twins_count_what_they_stand_for() -> None:
    """Held softmaxes of all chunks add up to one tensor over all tokens."""
    request = LossRequest((("kl", Kl(method="chunked", chunk=16)),), tokens=16 * 40, vocab=256, hidden=8)
    timeline = price_loss(request).timeline
    end_of_forward = next(phase.end for phase in timeline.phases if phase.name == "forward") - 1
    softmaxes = [a for a in timeline.alive_at(end_of_forward) if a.name == "kl softmax"]
    assert sum(a.count for a in softmaxes) == 40
    assert sum(a.nbytes for a in softmaxes) == 640 * 256 * 2
