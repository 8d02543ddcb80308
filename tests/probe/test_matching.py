"""Whether a measurement speaks of a run."""

from __future__ import annotations

from typing import Any

import pytest

from membudget.probe.matching import measured_loss
from membudget.probe.measurement import Measurement
from membudget.probe.probing import Options
from tests.probe.examples import FakeDevice, config, measured

FUSED = {"kl": {"method": "fused_head", "chunk": 8}}


def matched(measurement: Measurement, loss: Any = None, **sections: Any) -> Any:
    return measured_loss(measurement, config(loss, **sections), "m.json")


def test_the_row_of_the_method_and_chunk() -> None:
    measurement = measured(FakeDevice(excess=512))
    for loss, row in ((None, measurement.rows[0]), (FUSED, measurement.rows[1])):
        found = matched(measurement, loss)
        assert (found.predicted_bytes, found.measured_bytes) == (row.predicted_bytes, row.measured_bytes)
        assert (found.method, found.chunk, found.reason) == (row.method, row.chunk, "")
        assert found.device == "Fake GPU, torch 2.13.0: made up"


def test_rows_that_compute_no_such_terms_are_passed_over() -> None:
    assert matched(measured(wanted=(("liger", None), ("whole", None)))).measured_bytes


def test_weights_and_names_do_not_matter() -> None:
    assert matched(measured(), {"kl": {"weight": 7.0}}, name="another").measured_bytes


def test_terms_with_methods_of_their_own_match_the_configured_row() -> None:
    loss = {"cross_entropy": {}, "kl": FUSED["kl"]}
    found = matched(measured(wanted=(("whole", None), ("configured", None)), loss=loss), loss)
    assert found.measured_bytes
    assert (found.method, found.chunk) == ("configured", None)
    without = matched(measured(loss=loss), loss)
    assert without.reason == (
        "nothing in it is of this loss section: no row has these methods (cross_entropy: whole, kl: fused_head with "
        "chunk 8); its rows: whole, fused_head with chunk 8"
    )


@pytest.mark.parametrize(
    ("loss", "sections", "message"),
    [
        (None, {"batch": {"block_size": 8}}, "tokens is 48 here and 24 there"),
        (None, {"precision": {"parameters": "fp32", "frozen": "fp32"}}, "logits_dtype is fp32 here and bf16 there"),
        (None, {"step": {"keep": "none"}}, "keep is none here and both there"),
        ({"kl": {}, "autocast": True}, {}, "autocast is true here and false there"),
        ({"kl": {"softmax_dtype": "fp32"}}, {}, "kl.softmax_dtype is fp32 here and native there"),
        ({"kl": {}, "cap": {}}, {}, "the loss is kl + cap here and kl there"),
        ({"kl": {"method": "chunked", "chunk": 8}}, {}, "no row has these methods (kl: chunked with chunk 8)"),
        ({"kl": {"method": "fused_head", "chunk": 7}}, {}, "no row has these methods (kl: fused_head with chunk 7)"),
    ],
)
def test_what_does_not_match_is_said(loss: Any, sections: dict[str, Any], message: str) -> None:
    found = matched(measured(), loss, **sections)
    assert (found.predicted_bytes, found.measured_bytes) == (None, None)
    assert found.reason.startswith("nothing in it is of this loss section: ")
    assert message in found.reason


def test_a_row_that_was_not_measured_is_no_match() -> None:
    found = matched(measured(FakeDevice(free_bytes=0)))
    assert found.measured_bytes is None
    assert found.reason.startswith("its row of whole is skipped: needs ")


def test_a_part_of_the_tokens_is_no_match() -> None:
    found = matched(measured(FakeDevice(free_bytes=400_000), options=Options(scale=4)))
    assert found.reason == "its row of whole is of 1/4 of the tokens, not of all"
