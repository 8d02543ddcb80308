"""The engine against peaks that other people measured on real GPUs (tests/data/measured_losses.yaml)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from membudget.calculator.loss import price_loss
from membudget.calculator.loss_request import LossRequest, with_method
from membudget.config.loss import CrossEntropy, Jsd, Kl
from membudget.programs.kernels import fused_kernel
from membudget.programs.terms import TermSettings, sum_of_terms
from membudget.sized.namespace import SizedOps
from membudget.sized.tensor import Tensor
from membudget.timeline import Recorder

MEASURED: dict[str, list[dict[str, Any]]] = yaml.safe_load(
    (Path(__file__).parent.parent / "data" / "measured_losses.yaml").read_text(encoding="utf-8")
)
MIB, GIB = 2**20, 2**30
WORKSPACE_BYTES = {"A100": 8_519_680, "H100": 33_554_432}
"""One cuBLAS workspace; a training process holds two, of the forward and of the autograd thread."""


class Gpu(SizedOps):
    """A CUDA device on which a benchmark makes its own tensors."""

    def __init__(self) -> None:
        super().__init__(Recorder("warm-up"))

    def leaf_of(self, name: str, shape: tuple[int, ...], dtype: str) -> Tensor:
        tensor = self.new(name, shape, dtype)
        tensor.requires_grad = True
        return tensor

    def workspaces(self, gpu: str) -> list[Tensor]:
        return [self.new("cuBLAS workspace", (WORKSPACE_BYTES[gpu],), "bool") for _ in range(2)]

    def measured_peak(self) -> int:
        return self.recorder.build().peak(("measured",)).nbytes


@pytest.mark.parametrize("row", MEASURED["kl_fp32"], ids=lambda row: str(row["vocab"]))
def test_kl_of_distributions_made_beforehand(row: dict[str, Any]) -> None:
    ops = Gpu()
    shape = (row["tokens"], row["vocab"])
    leaf = ops.leaf_of("leaf", shape, "fp32")
    x = ops.log_softmax(leaf)
    target = ops.softmax(ops.new("other", shape, "fp32"))

    def iteration() -> None:
        y = ops.divide(ops.kl_div(x, target, log_target=False), float(row["tokens"]))
        ops.run_backward(y, retain_graph=True)

    iteration()
    ops.recorder.phase("measured")
    iteration()
    assert round(ops.measured_peak() / MIB, 1) == row["measured_mib"]


def linear_cross_entropy(ops: Gpu, hidden: Tensor, weight: Tensor, labels: Tensor, upcast: bool) -> Tensor:
    """A module's forward: the logits are its local variable."""
    logits = ops.matmul(hidden, ops.t(weight))
    if upcast:
        logits = ops.to(logits, "fp32")
    return ops.cross_entropy(logits, labels)


def measure_linear_cross_entropy(row: dict[str, Any], gpu: str, *, upcast: bool, spare_head: bool) -> int:
    ops = Gpu()
    hidden = ops.leaf_of("hidden", (row["tokens"], row["hidden"]), "bf16")
    weight = ops.leaf_of("weight", (row["vocab"], row["hidden"]), "bf16")
    spare = [ops.new("unused head", weight.shape, "bf16")] if spare_head else []
    labels = ops.new("labels", (row["tokens"],), "int64")
    workspaces = ops.workspaces(gpu)
    for phase in ("warm-up", "measured"):
        ops.recorder.phase(phase)
        ops.run_backward(linear_cross_entropy(ops, hidden, weight, labels, upcast))
    assert len(spare) + len(workspaces) >= 2
    return ops.measured_peak()


@pytest.mark.parametrize("row", MEASURED["linear_cross_entropy"], ids=lambda row: str(row["tokens"]))
def test_linear_head_and_cross_entropy(row: dict[str, Any]) -> None:
    """The differences of the three rows are 3 units of logits: cross entropy ran on the bf16 logits."""
    peak = measure_linear_cross_entropy(row, "A100", upcast=False, spare_head=True)
    assert round(peak / MIB, 2) == row["measured_mib"]


@pytest.mark.parametrize("row", MEASURED["one_product"], ids=lambda row: str(row["tokens"]))
def test_one_product_and_cross_entropy_upcast(row: dict[str, Any]) -> None:
    peak = measure_linear_cross_entropy(row, "H100", upcast=True, spare_head=False)
    assert round(peak / GIB, 2) == row["measured_gib"]


@pytest.mark.parametrize("row", MEASURED["beyond_inputs"], ids=lambda row: f"{row['term']}-{row['implementation']}")
def test_peak_beyond_logits_and_targets(row: dict[str, Any]) -> None:
    ops = SizedOps(Recorder())
    shape = (row["tokens"], row["vocab"])
    logits = ops.external("logits", shape, "bf16", requires_grad=True)
    targets = ops.external("targets", shape, "bf16")
    labels = ops.external("labels", shape[:1], "int64")
    terms = (TermSettings(row["term"], softmax_dtype="fp32", autocast=True),)
    if row["implementation"] == "fused_kernel":
        loss = fused_kernel(ops, terms, logits, targets, labels, 0, 1.0)
    else:
        loss = sum_of_terms(ops, terms, logits, targets, labels, 1.0)
    ops.run_backward(loss)
    peak = ops.recorder.build().peak().nbytes
    unit = row["tokens"] * row["vocab"] * 2
    assert round(peak / GIB, 1) == row["measured_gib"]
    assert round(peak / unit, 2) == row["units"]


def test_compiled_head_and_cross_entropy() -> None:
    (row,) = MEASURED["compiled"]
    term = CrossEntropy(method="compiled", upcast=True)
    terms = (("cross_entropy", term),)
    request = LossRequest(terms, row["tokens"], row["vocab"], row["hidden"], keep="none", train_head=True)
    price = price_loss(request)
    assert round(price.forward_peak_bytes / MIB) == row["forward_peak_mib"]
    assert round(price.backward_peak_bytes / MIB) == row["peak_mib"]


def test_compiled_jsd_keeps_two_masks_and_a_kernel_none() -> None:
    held = {}
    for method in ("compiled", "fused_kernel"):
        pair = [LossRequest((named,), 1024, 4096, 64) for named in (("jsd", Jsd()), ("kl", Kl()))]
        jsd, kl = (price_loss(with_method(request, method, None)).held_bytes for request in pair)
        held[method] = (jsd - kl) / (1024 * 4096)
    assert held == {"compiled": 2, "fused_kernel": 0}


def test_softcap_and_upcast() -> None:
    (row,) = MEASURED["softcap"]
    ops = Gpu()
    hidden = ops.external("hidden", (row["tokens"], row["hidden"]), "bf16", requires_grad=True)
    weight = ops.external("weight", (row["vocab"], row["hidden"]), "bf16", requires_grad=True)
    labels = ops.external("labels", (row["tokens"],), "int64")

    def softcapped(logits: Tensor) -> Tensor:
        return ops.scale(ops.tanh(ops.divide(logits, 30.0)), 30.0)

    def loss_of() -> Tensor:
        logits = ops.matmul(hidden, ops.t(weight))
        logits = softcapped(logits)
        return ops.cross_entropy(ops.to(logits, "fp32"), labels)

    ops.recorder.phase("forward")
    loss = loss_of()
    ops.recorder.phase("backward")
    ops.run_backward(loss)
    timeline = ops.recorder.build()
    assert round(timeline.peak(("forward",)).nbytes / MIB) == row["forward_peak_mib"]
    assert round(timeline.peak().nbytes / MIB) == row["peak_mib"]
    assert round(ops.recorder.total_bytes / MIB) == row["gradients_alone_mib"]
