"""The real loss on a real CUDA device, against the engine: every method that runs there."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from membudget.config.loss import CHUNKING_METHODS, Method
from membudget.probe.cuda_device import open_cuda
from membudget.probe.probing import Options, Wanted, probe
from tests.probe.examples import settings

LIBRARIES = ("liger", "cut_cross_entropy", "torch_linear_cross_entropy")
MODELLED = ("compiled", "fused_kernel", *LIBRARIES)


def wanted(methods: tuple[str, ...]) -> list[Wanted]:
    return [(method, 96 if method in CHUNKING_METHODS else None) for method in methods]


@pytest.mark.cuda
@pytest.mark.parametrize("loss", [{"cross_entropy": {}}, {"kl": {}}, {"cross_entropy": {}, "kl": {}, "cap": {}}])
def test_predicted_is_measured(loss: dict[str, Any]) -> None:
    methods = tuple(method for method in get_args(Method) if method not in MODELLED)
    run = settings(loss).model_copy(update={"tokens": 256, "vocab": 4096, "hidden": 512})
    measurement = probe(open_cuda(), run, wanted(methods), Options(repeat=2))
    for row in measurement.rows:
        assert row.status == "measured", row
        assert not row.runs_differ, row
        assert row.difference_bytes == 0, row
        assert row.measured_held_bytes == row.predicted_held_bytes, row
        assert (row.milliseconds or 0) > 0


@pytest.mark.cuda
def test_out_of_memory_is_caught_and_freed() -> None:
    import torch

    total = torch.cuda.get_device_properties(0).total_memory
    vocab = total // (2 * 256)  # logits as large as the device
    run = settings({"cross_entropy": {}}).model_copy(update={"tokens": 256, "vocab": vocab, "hidden": 8})
    device = open_cuda()
    before = torch.cuda.memory_allocated()
    (row,) = probe(device, run, wanted(("whole",)), Options(force=True)).rows
    assert row.status == "out_of_memory"
    assert "Tried to allocate" in row.reason
    assert torch.cuda.memory_allocated() - before < 2**28
    small = settings({"cross_entropy": {}})
    assert probe(device, small, wanted(("whole",)), Options()).rows[0].status == "measured"
