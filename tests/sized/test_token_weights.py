"""Sections whose tokens have weights: the engine against the CPU allocator's own events, event for event."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from membudget.calculator.loss_request import LossRequest
from membudget.calculator.loss_run import run_section
from membudget.config.loss import CHUNKING_METHODS, TERMS, Loss, Term
from membudget.losses.section import torch_section
from membudget.programs.section import HEAD_METHODS, LOGITS_METHODS
from tests.allocator_events import canonical, explain_difference, timeline_events, torch_events
from tests.sized.test_graphs import assert_graph_agrees

METHODS = sorted({*LOGITS_METHODS, *HEAD_METHODS})
TOKENS, VOCAB, HIDDEN = 32, 128, 48


def term_of(name: str, method: str, chunk: int, **choices: Any) -> tuple[str, Term]:
    """A term by its configuration's model; settings it does not have are dropped."""
    model = get_args(Loss.model_fields[name].annotation)[0]
    known = {key: value for key, value in choices.items() if key in model.model_fields}
    return name, model(method=method, chunk=chunk if method in CHUNKING_METHODS else None, **known)


def assert_agrees(request: LossRequest) -> None:
    section = torch_section(request)

    def step() -> None:
        for _, phase in section.phases()[:3]:
            phase()

    allocator = canonical(torch_events(step))
    engine = canonical(timeline_events(run_section(request, device="cpu").until("backward")))
    assert allocator
    assert allocator == engine, f"{request}\n{explain_difference(allocator, engine)}"


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", TERMS)
def test_every_term_with_every_method(name: str, method: str) -> None:
    for dtype, softmax_dtype, train_head in (("bf16", "fp32", True), ("fp16", "native", False)):
        term = term_of(name, method, 10, softmax_dtype=softmax_dtype)
        assert_agrees(LossRequest((term,), TOKENS, VOCAB, HIDDEN, dtype, train_head=train_head, token_weights=True))


@st.composite
def requests(draw: st.DrawFn) -> LossRequest:
    names = draw(st.lists(st.sampled_from(TERMS), min_size=1, max_size=3, unique=True))
    terms = tuple(
        term_of(
            name,
            draw(st.sampled_from(METHODS)),
            draw(st.sampled_from([1, 7, 8, 40])),
            softmax_dtype=draw(st.sampled_from(["native", "fp32"])),
            temperature=draw(st.sampled_from([1.0, 2.0])),
            upcast=draw(st.booleans()),
            beta=draw(st.sampled_from([0.5, 0.3])),
            k=draw(st.sampled_from([1, 500])),
        )
        for name in names
    )
    return LossRequest(
        terms,
        draw(st.sampled_from([1, 15, 32])),
        VOCAB,
        draw(st.sampled_from([16, 200])),
        draw(st.sampled_from(["bf16", "fp16", "fp32"])),
        keep=draw(st.sampled_from(["none", "both"])),
        train_head=draw(st.booleans()),
        labels=draw(st.sampled_from(["data", "targets"])),
        autocast=draw(st.booleans()),
        token_weights=True,
    )


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(requests())
def test_any_section_agrees(request: LossRequest) -> None:
    assert_agrees(request)


def masked(ops: Any, a: Any, b: Any, w: Any) -> Any:
    rows = ops.sum_rows(a)
    return ops.sum_all(ops.exp(ops.fill_with_zero(rows, ops.is_zero(ops.sum_rows(b)))))


def shielded(ops: Any, a: Any, b: Any, w: Any) -> Any:
    def forward(x: Any) -> Any:
        return x, (ops.is_zero(ops.sum_rows(b)),)

    def backward(upstream: Any, mask: Any) -> Any:
        return (ops.fill_rows_with_zero_(upstream, mask),)

    shield = ops.function(forward, backward, a)
    return ops.sum_all(ops.mul(ops.exp(shield), ops.tanh(shield)))


def divided(ops: Any, a: Any, b: Any, w: Any) -> Any:
    return ops.divide_by(ops.sum_all(ops.exp(a)), ops.detach(ops.sum_all(b)))


@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
@pytest.mark.parametrize("program", [masked, shielded, divided])
def test_the_operators_alone(program: Any, dtype: str) -> None:
    assert_graph_agrees(program, dtype, times=2)
