"""The real loss on the CPU, scaled, against the engine at full size: not a byte apart."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from membudget.config.loss import CHUNKING_METHODS, Method
from membudget.probe.cpu_device import MISSING, CpuDevice
from membudget.probe.measurement import Measurement
from membudget.probe.probing import Options, Wanted, probe
from tests.probe.examples import settings

ALL_TERMS: dict[str, Any] = {
    "cross_entropy": {},
    "kl": {"temperature": 2.0},
    "reverse_kl": {},
    "jsd": {"beta": 0.3},
    "tv": {"softmax_dtype": "fp32"},
    "kl_topk": {"k": 30},
    "cap": {},
}
RUNNABLE = tuple(method for method in get_args(Method) if method not in (*MISSING, "liger", "cut_cross_entropy"))


def rows(*chunks: int, methods: tuple[str, ...] = RUNNABLE) -> list[Wanted]:
    return [(method, chunk) for method in methods for chunk in (chunks if method in CHUNKING_METHODS else (None,))]


def assert_nothing_apart(measurement: Measurement, but: set[str] = frozenset()) -> None:  # type: ignore[assignment]
    for row in measurement.rows:
        if row.method not in but:
            assert row.status == "measured", (row.method, row.reason)
            assert (row.difference_bytes, row.same_events) == (0, True), row
            assert row.measured_held_bytes == row.predicted_held_bytes
            assert row.milliseconds


LIBRARY = {"torch_linear_cross_entropy"}


def test_every_term_by_every_method() -> None:
    measurement = probe(CpuDevice(), settings(ALL_TERMS), rows(5, 24), Options())
    assert_nothing_apart(measurement, but=LIBRARY)
    (row,) = (row for row in measurement.rows if row.method in LIBRARY)
    assert (row.status, row.reason) == ("skipped", "method of a library: it computes cross_entropy alone")


@pytest.mark.parametrize(
    "sections",
    [
        {"precision": {"parameters": "fp32", "frozen": "fp32"}},
        {"model": {"train_lm_head": True, "frozen_tables": ["embed_tokens"]}},
        {"step": {"keep": "none"}},
    ],
)
def test_settings_of_the_run(sections: dict[str, Any]) -> None:
    loss: dict[str, Any] = {"cross_entropy": {}, "kl": {}}
    measurement = probe(CpuDevice(), settings(loss, **sections), rows(7), Options())
    assert_nothing_apart(measurement, but=LIBRARY)


def test_terms_as_configured() -> None:
    loss: dict[str, Any] = {
        "cross_entropy": {"method": "fused_head", "chunk": 7},
        "kl": {"method": "chunked", "chunk": 5},
        "cap": {},
    }
    measurement = probe(CpuDevice(), settings(loss), [("configured", None)], Options(repeat=2))
    assert_nothing_apart(measurement)
    assert not measurement.rows[0].runs_differ


def test_a_library_that_chooses_its_chunks_is_run_as_it_is() -> None:
    measurement = probe(CpuDevice(), settings({"cross_entropy": {}}), [("torch_linear_cross_entropy", None)], Options())
    assert_nothing_apart(measurement)


def test_a_library_that_chooses_its_chunks_is_not_scaled() -> None:
    run = settings({"cross_entropy": {}}).model_copy(update={"vocab": 248_320, "hidden": 5120})
    (row,) = probe(CpuDevice(), run, [("torch_linear_cross_entropy", None)], Options()).rows
    assert row.status == "skipped"
    assert "scaling" in row.reason or "small size" in row.reason or "whole numbers" in row.reason


@pytest.mark.parametrize("method", [*MISSING, "liger", "cut_cross_entropy"])
def test_what_no_cpu_runs_says_why(method: str) -> None:
    (row,) = probe(CpuDevice(), settings({"cross_entropy": {}}), [(method, None)], Options()).rows
    assert row.status == "skipped"
    assert row.predicted_bytes
    assert row.measured_bytes is None
    assert "priced by rule" in row.reason or "pip install" in row.reason or "GPU" in row.reason


def test_too_many_tokens_are_refused_and_a_part_of_them_is_not() -> None:
    run = settings().model_copy(update={"tokens": 40_000_000})
    (row,) = probe(CpuDevice(), run, [("whole", None)], Options()).rows
    assert (row.status, row.measured_bytes) == ("skipped", None)
    assert row.reason.startswith("even at a reduced size it takes ")
    (row,) = probe(CpuDevice(), run, [("whole", None)], Options(scale=4000)).rows
    assert (row.status, row.scale, row.difference_bytes) == ("measured", 4000, 0)
