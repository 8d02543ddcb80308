from __future__ import annotations

from time import perf_counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from membudget.calculator import drafter_parts
from membudget.calculator.plan import make_plan
from membudget.calculator.result import GROUPS
from tests.calculator.configs import MIXED, incident, phases, small, training_gpu


@pytest.mark.parametrize(("checkpointing", "measured"), [("layers", 25.5), ("none", 33.0)])
def test_peaks_that_others_measured(checkpointing: str, measured: float) -> None:
    """vllm-project/speculators PR 992: Qwen3-8B on an H100, 512 anchors x 16, compiled, Muon, fused loss."""
    config = incident(
        model={
            "hidden_size": 4096,
            "intermediate_size": 12288,
            "vocab_size": 151936,
            "target_layer_ids": [2, 18, 33],
        },
        target=None,
        batch={"max_anchors": 512, "block_size": 16},
        precision=MIXED,
        optimizer={"name": "muon"},
        loss={"cross_entropy": {"method": "fused_kernel"}, "labels": "targets", "autocast": True},
        step={
            "execution": "compiled",
            "clear_gradients": "after_forward",
            "checkpointing": checkpointing,
            "keep": "none",
        },
        hardware={"groups": [{"role": "drafter", "indices": [0], "gpu": "h100-80gb"}]},
    )
    gpu = training_gpu(config)
    assert gpu.peak.phase == "loss forward"
    assert gpu.allocated_bytes / 1e9 == pytest.approx(measured, rel=0.02)


def test_the_incident() -> None:
    gpu = training_gpu(incident(loss={"cross_entropy": {}, "kl": {"weight": 0.15}, "cap": {}}))
    items = {item.name: item for item in gpu.items}
    assert items["logits"].nbytes == items["targets"].nbytes == 12_205_424_640
    assert items["logits"].values == "24,576 x 248,320 x 2 B"
    assert gpu.peak.phase.startswith("loss")
    assert not gpu.fits


OPTIMIZERS = st.sampled_from(["adamw", "adam", "sgd", "muon", "adamw8bit"])
RECIPE = st.sampled_from(
    [{}, {"master_weights": True}, MIXED, {"parameters": "fp32", "frozen": "fp32"}, {"autocast": "bf16"}]
)
STEP = st.fixed_dictionaries(
    {
        "keep": st.sampled_from(["none", "logits", "targets", "both"]),
        "clear_gradients": st.sampled_from(["before_forward", "after_forward"]),
        "gradients_cleared_to": st.sampled_from(["none", "zero"]),
        "checkpointing": st.sampled_from(["none", "layers"]),
        "execution": st.sampled_from(["eager", "compiled"]),
    }
)
LOSS = st.sampled_from(
    [
        {"cross_entropy": {}},
        {"cross_entropy": {}, "kl": {"softmax_dtype": "fp32"}, "labels": "targets"},
        {"kl": {"method": "fused_head", "chunk": 7}, "autocast": True},
        {"cap": {"method": "chunked", "chunk": 5}, "reverse_kl": {}},
    ]
)
MODEL = st.fixed_dictionaries(
    {},
    optional={
        "train_lm_head": st.booleans(),
        "draft_vocab_size": st.integers(1, 1000),
        "num_hidden_layers": st.integers(1, 40),
    },
)
RUNS = st.fixed_dictionaries(
    {
        "model": MODEL,
        "precision": RECIPE,
        "optimizer": st.fixed_dictionaries({"name": OPTIMIZERS}),
        "step": STEP,
        "loss": LOSS,
    }
)


@settings(deadline=None, max_examples=60)
@given(RUNS, st.sampled_from(["allocated", "reserved", "device"]))
def test_a_plan_is_consistent(run: dict[str, Any], compare: str) -> None:
    gpu = training_gpu(small(**run, budget={"compare": compare}))
    assert sum(item.nbytes for item in gpu.items) == gpu.device_bytes
    assert gpu.allocated_bytes == max(gpu.timeline.totals()) == max(nbytes for _, nbytes in gpu.phase_peaks)
    assert gpu.allocated_bytes <= gpu.reserved_bytes <= gpu.device_bytes
    assert phases(gpu)[gpu.peak.phase] == gpu.allocated_bytes
    assert {item.category for item in gpu.items} <= {c for group in GROUPS.values() for c in group}
    assert all(item.nbytes % 512 == 0 for item in gpu.items)


@settings(deadline=None, max_examples=30)
@given(RUNS)
def test_a_step_ends_as_it_began(run: dict[str, Any]) -> None:
    """What is alive at the end, without the batch, is what the next step finds: a steady state."""
    gpu = training_gpu(small(**run))
    alive = gpu.timeline.alive_at(gpu.timeline.num_instants - 1)
    left: dict[str, int] = {}
    for allocation in alive:
        if allocation.category != "inputs":
            left[allocation.name] = left.get(allocation.name, 0) + allocation.nbytes
    load = gpu.timeline.phases[0]
    found: dict[str, int] = {}
    for allocation in gpu.timeline.alive_at(load.end - 1):
        found[allocation.name] = found.get(allocation.name, 0) + allocation.nbytes
    assert left == found


@settings(deadline=None, max_examples=40)
@given(RUNS, st.data())
def test_growing_a_size_never_lowers_the_peak(run: dict[str, Any], data: st.DataObject) -> None:
    where, key, step = data.draw(
        st.sampled_from(
            [
                ("model", "hidden_size", 8),
                ("model", "intermediate_size", 3),
                ("model", "num_hidden_layers", 1),
                ("model", "head_dim", 2),
                ("batch", "total_seq_len", 5),
                ("batch", "max_anchors", 1),
                ("batch", "block_size", 1),
            ]
        )
    )
    config = small(**run)
    old = getattr(getattr(config, where), key)
    grown = dict(run)
    grown[where] = {**run.get(where, {}), key: old + step}
    assert training_gpu(config).allocated_bytes <= training_gpu(small(**grown)).allocated_bytes


@settings(deadline=None, max_examples=30)
@given(RUNS)
def test_checkpointing_never_raises_the_forward_peak(run: dict[str, Any]) -> None:
    held, not_held = (
        phases(training_gpu(small(**{**run, "step": {**run["step"], "checkpointing": how}})))
        for how in ("layers", "none")
    )
    for phase in ("forward layers", "loss forward", "loss backward"):
        assert held[phase] <= not_held[phase]


@settings(deadline=None, max_examples=30)
@given(RUNS, st.integers(3, 12))
def test_folding_layers_changes_no_peak(run: dict[str, Any], layers: int) -> None:
    config = small(**{**run, "model": {**run["model"], "num_hidden_layers": layers}})
    plain = training_gpu(config)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(drafter_parts, "UNFOLDED_LAYERS", 2)
        folded = training_gpu(config)
    assert folded.timeline.num_instants < plain.timeline.num_instants or layers == 3
    assert folded.phase_peaks == plain.phase_peaks
    assert folded.items == plain.items
    assert folded.reserved_bytes == plain.reserved_bytes


@pytest.mark.parametrize(
    ("command_line", "configured", "expected"),
    [
        (None, None, 101_974_016_000),
        ("95 GB", None, 95_000_000_000),
        (None, "90 GB", 90_000_000_000),
        ("95 GB", "90 GB", 90_000_000_000),
        ("80 GB", "90 GB", 80_000_000_000),
        ("500 GB", None, 101_974_016_000),
    ],
)
def test_the_smallest_limit_counts(command_line: str | None, configured: str | None, expected: int) -> None:
    given_bytes = int(command_line.removesuffix(" GB")) * 10**9 if command_line else None
    budget = {"limit": configured} if configured else {}
    gpu = training_gpu(incident(budget=budget), limit_bytes=given_bytes)
    assert gpu.limit_bytes == expected


def test_an_unknown_gpu_is_refused() -> None:
    with pytest.raises(ValueError, match="rtx-pro-6000-blackwell"):
        small(hardware={"groups": [{"role": "drafter", "indices": [0], "gpu": "rtx-pro-6000-blackwel"}]})


def test_what_is_left_out_fits_the_run() -> None:
    eager = make_plan(small(), name="x").not_included
    compiled = make_plan(small(step={"execution": "compiled"}), name="x").not_included
    with_targets = make_plan(incident(loss={"kl": {}}), name="x").not_included
    assert not any("torch.compile" in line or "NCCL" in line or "teacher" in line for line in eager)
    assert any("torch.compile" in line for line in compiled)
    assert any("NCCL" in line for line in with_targets)
    assert any("teacher" in line for line in with_targets)


def test_the_largest_sizes_allowed_are_priced_at_once() -> None:
    config = small(model={"num_hidden_layers": 10**4}, batch={"max_anchors": 10**6, "block_size": 10**6})
    start = perf_counter()
    gpu = training_gpu(config)
    assert perf_counter() - start < 1
    assert not gpu.fits


def test_reserved_is_the_most_of_any_instant() -> None:
    """Many blocks just over 10 MiB reserve 12 MiB each, at an instant that need not be the allocated peak."""

    def total(anchors: int) -> int:
        config = small(
            model={
                "hidden_size": 1024,
                "intermediate_size": 5121,
                "num_hidden_layers": 30,
                "num_attention_heads": 1,
                "num_key_value_heads": 1,
                "head_dim": 1,
                "vocab_size": 32_000,
                "target_layer_ids": [1],
            },
            batch={"total_seq_len": 128, "max_anchors": anchors, "block_size": 1},
            hardware={"groups": [{"role": "drafter", "indices": [0], "gpu": "h100-80gb"}]},
            step={"checkpointing": "layers"},
        )
        return make_plan(config, name="x").tightest.device_bytes

    totals = [total(anchors) for anchors in range(5000, 7000, 100)]
    assert totals == sorted(totals)
