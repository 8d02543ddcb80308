"""Results made by hand, small enough to check every figure in a golden by eye."""

from __future__ import annotations

from dataclasses import replace

from membudget.calculator.result import GpuPlan, Item, LossPrice, Plan
from membudget.timeline import Peak, Timeline

EMPTY = Timeline((), (), 0)
LOGITS_BYTES = 24_576 * 248_320 * 2
MIB = 2**20

DRAFTER_ITEMS = (
    Item("trainable [bf16]", "parameters", 3_460_426_240, "parameters x 2 B", "1,730,213,120 x 2 B", "exact"),
    Item("lm_head", "frozen", 2_542_796_800, "vocab x hidden x 2 B", "248,320 x 5,120 x 2 B", "exact"),
    Item("exp_avg, exp_avg_sq", "optimizer", 6_920_852_480, "2 x parameters x 2 B", "2 x 1,730,213,120 x 2 B", "exact"),
    Item("layers", "activations", 5_000_000_000, "5 x tokens x 40,690 B", "5 x 24,576 x 40,690 B", "modelled"),
    Item("targets", "targets", LOGITS_BYTES, "tokens x vocab x 2 B", "24,576 x 248,320 x 2 B", "exact"),
    Item("logits", "logits", LOGITS_BYTES, "tokens x vocab x 2 B", "24,576 x 248,320 x 2 B", "exact"),
    Item(
        "kl: log_softmax",
        "loss",
        5 * LOGITS_BYTES,
        "5 x tokens x vocab x 2 B",
        "5 x 24,576 x 248,320 x 2 B",
        "exact",
        5,
    ),
    Item("cuBLAS workspaces", "workspace", 64 * MIB, "2 x 32 MiB", "2 x 33,554,432 B", "exact", 2),
    Item("allocator slack", "runtime", 8 * MIB, "rounding to segments", "8,388,608 B", "modelled"),
    Item("CUDA context", "runtime", 512 * MIB, "budget.cuda_context", "536,870,912 B", "assumed"),
)


def drafter(**changes: object) -> GpuPlan:
    """The drafter's GPU, over a limit of 95 GB in the forward pass of the loss."""
    allocated = sum(item.nbytes for item in DRAFTER_ITEMS if item.category != "runtime")
    gpu = GpuPlan(
        index=7,
        role="drafter",
        gpu_name="RTX PRO 6000 Blackwell",
        timeline=EMPTY,
        peak=Peak(3, "loss forward", allocated),
        items=DRAFTER_ITEMS,
        phase_peaks=(
            ("load", 12_991_184_384),
            ("forward layers", 30_196_608_000),
            ("loss forward", allocated),
            ("loss backward", allocated - 1),
            ("optimizer step", 19_912_036_864),
        ),
        allocated_bytes=allocated,
        reserved_bytes=allocated + 8 * MIB,
        device_bytes=allocated + 520 * MIB,
        capacity_bytes=97_250 * MIB,
        given_limit_bytes=95 * 10**9,
        compare="device",
    )
    return replace(gpu, **changes)  # type: ignore[arg-type]


def target(index: int) -> GpuPlan:
    """One of the GPUs that hold the frozen model; it fits easily."""
    weights = Item("weights", "frozen", 9 * 10**9, "weights / 6", "54,000,000,000 B / 6", "assumed")
    context = Item("CUDA context", "runtime", 512 * MIB, "budget.cuda_context", "536,870,912 B", "assumed")
    return GpuPlan(
        index=index,
        role="target",
        gpu_name="RTX PRO 6000 Blackwell",
        timeline=EMPTY,
        peak=Peak(0, "forward", weights.nbytes),
        items=(weights, context),
        phase_peaks=(("forward", weights.nbytes),),
        allocated_bytes=weights.nbytes,
        reserved_bytes=weights.nbytes,
        device_bytes=weights.nbytes + context.nbytes,
        capacity_bytes=97_250 * MIB,
        given_limit_bytes=95 * 10**9,
        compare="device",
    )


def over_plan() -> Plan:
    """Six GPUs that fit and one that does not."""
    return Plan(
        name="ddtree",
        gpus=(*(target(index) for index in range(6)), drafter()),
        notes=("kl, chunked: held memory is that of whole",),
        not_included=("fragmentation", "NCCL"),
    )


def fitting_plan() -> Plan:
    """The same run under a limit it meets to the byte."""
    gpu = drafter()
    return Plan("v6", (replace(gpu, capacity_bytes=gpu.device_bytes, given_limit_bytes=None),), (), ())


def price(method: str = "whole", chunk: int | None = None, **changes: object) -> LossPrice:
    """KL over the incident's logits, in one pass unless changed."""
    result = LossPrice(
        terms=("kl",),
        method=method,
        chunk=chunk,
        logits_dtype="bf16",
        softmax_dtype="native",
        held_bytes=4 * LOGITS_BYTES,
        forward_peak_bytes=7 * LOGITS_BYTES,
        backward_peak_bytes=6 * LOGITS_BYTES,
        gradient="exact",
        provenance="exact",
        timeline=EMPTY,
    )
    return replace(result, **changes)  # type: ignore[arg-type]
