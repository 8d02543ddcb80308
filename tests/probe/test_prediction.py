"""Predictions for a probe, and parts of the tokens."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from membudget.calculator.loss import price_loss
from membudget.calculator.loss_request import with_method
from membudget.calculator.section_totals import section_totals
from membudget.errors import UsageError
from membudget.probe.prediction import inputs_bytes, predicted, reduced
from tests.probe.examples import settings


def test_the_prediction_of_cuda_is_the_price_of_the_loss() -> None:
    request = with_method(settings().request, "chunked", 7)
    price = price_loss(request)
    totals = section_totals(predicted(request, "cuda"))
    assert (totals.peak_bytes, totals.held_bytes) == (price.peak_bytes, price.held_bytes)
    assert totals.peak_bytes > section_totals(predicted(request, "cpu")).peak_bytes


def test_too_many_chunks_for_a_cpu() -> None:
    request = with_method(settings().model_copy(update={"tokens": 10_000}).request, "chunked", 1)
    with pytest.raises(UsageError, match="10,000 chunks; on the CPU no more than 4,096 are run"):
        predicted(request, "cpu")
    assert predicted(request, "cuda")


@given(tokens=st.integers(1, 10**6), chunk=st.integers(1, 10**6), scale=st.integers(1, 1000))
def test_a_part_of_the_tokens_has_as_many_chunks(tokens: int, chunk: int, scale: int) -> None:
    request = with_method(settings().model_copy(update={"tokens": tokens}).request, "chunked", chunk)
    part = reduced(request, scale)
    assert part.num_chunks == request.num_chunks
    assert part.tokens <= tokens
    if tokens % scale == 0 and chunk % scale == 0:
        assert part.tokens == tokens // scale


def test_a_part_without_chunks_is_rounded_up() -> None:
    assert reduced(settings().request, 7).tokens == 4
    assert reduced(settings().request, 1) == settings().request


def test_bytes_of_the_inputs() -> None:
    # 24 x 64 and 1000 x 64 in bf16 for student and teacher, 24 labels of 8 B, in blocks of 512 B.
    assert inputs_bytes(settings({"kl": {}}).request) == 2 * (3072 + 128_000) + 512
    assert inputs_bytes(settings({"cross_entropy": {}, "labels": "data"}).request) == 3072 + 128_000 + 512
