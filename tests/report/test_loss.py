"""The formats of `loss`."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from membudget.calculator.result import LossPrice
from membudget.report import loss_json, loss_table
from membudget.report.loss_result import LossReport, held_like_whole
from membudget.report.screen import Screen
from tests.report.golden import assert_golden
from tests.report.samples import LOGITS_BYTES, price

CHUNKED = price("chunked", 4096, forward_peak_bytes=5 * LOGITS_BYTES, backward_peak_bytes=5 * LOGITS_BYTES)
FUSED = price("fused_head_grad_in_forward", 4096, held_bytes=512, provenance="modelled")


def report(*prices: LossPrice) -> LossReport:
    return LossReport(
        tokens=24_576,
        vocab=248_320,
        hidden=5120,
        terms=("kl",),
        keep="both",
        head="frozen",
        labels="data",
        autocast=False,
        settings=(),
        prices=prices,
        whole=price(),
    )


@pytest.mark.parametrize("width", [80, 120])
def test_whole_screen(width: int) -> None:
    skipped = replace(report(price(), CHUNKED, FUSED), skipped=(("cpu", "has no [reason]"),))
    text = loss_table.render(skipped, Screen(width))
    assert_golden(f"loss_{width}.txt", text)
    assert max(map(len, text.splitlines())) <= width
    assert text.isascii()


def test_held_like_whole_is_read_from_the_numbers() -> None:
    less = price("chunked", 4096, held_bytes=price().held_bytes * 98 // 100)
    rounded = price("chunked_slices", 4096, held_bytes=price().held_bytes + 512)
    one_chunk = price("chunked", 24_576)
    other_method = price("fused_head_grad_in_forward", 4096)
    prices = report(price(), CHUNKED, less, rounded, one_chunk, other_method)
    assert held_like_whole(prices) == [CHUNKED, rounded]
    said = "held memory is that of whole"
    assert said in loss_table.render(report(CHUNKED), Screen(200))
    assert said not in loss_table.render(report(price(), less, FUSED), Screen(200))


def test_temporaries_shrink_only_where_they_do() -> None:
    same = price("chunked", 4096)
    assert "Only temporaries shrink" in loss_table.render(report(CHUNKED), Screen(300))
    assert "Only temporaries shrink" not in loss_table.render(report(CHUNKED, same), Screen(300))


def test_json_contract() -> None:
    document = json.loads(loss_json.render(report(price(), CHUNKED), Screen()))
    assert [document[key] for key in ("schema_version", "tokens", "vocab", "hidden")] == [1, 24_576, 248_320, 5120]
    assert document["results"][1] == {
        "terms": ["kl"],
        "method": "chunked",
        "chunk": 4096,
        "logits_dtype": "bf16",
        "softmax_dtype": "native",
        "held_bytes": 4 * LOGITS_BYTES,
        "forward_peak_bytes": 5 * LOGITS_BYTES,
        "backward_peak_bytes": 5 * LOGITS_BYTES,
        "peak_bytes": 5 * LOGITS_BYTES,
        "gradient": "exact",
        "provenance": "exact",
    }


@settings(max_examples=40, deadline=None)
@given(peaks=st.lists(st.integers(0, 10**18), min_size=1, max_size=5), width=st.integers(1, 200))
def test_no_number_is_cut_at_any_width(peaks: list[int], width: int) -> None:
    prices = [price("fused_head_grad_in_forward", 64, forward_peak_bytes=peak, backward_peak_bytes=0) for peak in peaks]
    words = set(re.split(r"\s+", loss_table.render(report(*prices), Screen(width))))
    assert {f"{peak:,}" for peak in peaks} <= words
