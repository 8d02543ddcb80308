"""Configuration -> Plan: for every GPU its timeline, its totals and how they compare with the limit."""

from __future__ import annotations

from membudget.calculator.drafter import DrafterStep
from membudget.calculator.items import Ledger, items_at
from membudget.calculator.loss_request import LossRequest
from membudget.calculator.overhead import Segments, runtime_items
from membudget.calculator.result import GpuPlan, Plan
from membudget.calculator.target import target_ledger
from membudget.catalog.gpus import Gpu, find_gpu
from membudget.config.models import Config
from membudget.config.run import GpuGroup
from membudget.timeline import Timeline


def make_plan(config: Config, *, name: str, limit_bytes: int | None = None) -> Plan:
    """The budget of a run, GPU by GPU.

    `limit_bytes` is a limit from outside the configuration: of it, `budget.limit` and what torch sees on a
    GPU the smallest counts.
    """
    given = _given(config, limit_bytes)
    gpus = [drafter_plan(config, limit_bytes=limit_bytes)]
    targets = [index for g in config.hardware.groups if g.role == "target" for index in g.indices]
    for group in config.hardware.groups:
        if group.role == "target":
            assert config.target is not None
            gpu = _gpu_of(group)
            for index in group.indices:
                position = targets.index(index)
                ledger = target_ledger(config, config.target, num_gpus=len(targets), position=position, gpu=gpu)
                gpus.append(_gpu_plan(config, group, index, gpu, ledger, given))
    return Plan(name, tuple(sorted(gpus, key=lambda g: g.index)), (), tuple(_not_included(config)))


def drafter_plan(config: Config, *, limit_bytes: int | None = None) -> GpuPlan:
    """The budget of the GPU that trains, without those of the target model."""
    group = next(group for group in config.hardware.groups if group.role == "drafter")
    gpu = _gpu_of(group)
    step = DrafterStep(config, gpu)
    step.run()
    return _gpu_plan(config, group, group.indices[0], gpu, step.ledger, _given(config, limit_bytes))


def _given(config: Config, limit_bytes: int | None) -> int | None:
    return min((limit for limit in (limit_bytes, config.budget.limit) if limit is not None), default=None)


def _gpu_of(group: GpuGroup) -> Gpu | None:
    return find_gpu(group.gpu) if group.gpu is not None else None


def _gpu_plan(
    config: Config, group: GpuGroup, index: int, gpu: Gpu | None, ledger: Ledger, given: int | None
) -> GpuPlan:
    timeline = ledger.recorder.build()
    totals = timeline.totals()
    peak = timeline.peak()
    reserved = _most_reserved(timeline, ledger)
    context = config.budget.cuda_context
    outside = runtime_items(allocated_bytes=peak.nbytes, reserved_bytes=reserved, cuda_context_bytes=context)
    capacity = group.memory if gpu is None else gpu.torch_bytes
    assert capacity is not None
    return GpuPlan(
        index=index,
        role=group.role,
        gpu_name=gpu.name if gpu else "GPU given by its memory",
        timeline=timeline,
        peak=peak,
        items=(*items_at(timeline, ledger, peak.instant), *outside),
        phase_peaks=tuple((phase.name, max(totals[phase.first : phase.end])) for phase in timeline.phases),
        allocated_bytes=peak.nbytes,
        reserved_bytes=reserved,
        device_bytes=reserved + context,
        capacity_bytes=capacity,
        given_limit_bytes=given,
        compare=config.budget.compare,
    )


def _most_reserved(timeline: Timeline, ledger: Ledger) -> int:
    """The most that is reserved at any instant; that need not be the instant of the allocated peak."""
    segments = Segments()
    most = 0
    for event in timeline.events():
        index = event if event >= 0 else ~event
        segments.add(ledger.blocks(index, timeline.allocations[index]), 1 if event >= 0 else -1)
        most = max(most, segments.nbytes)
    return most


def _not_included(config: Config) -> list[str]:
    """What a run may need on top, as far as it applies to this one."""
    missing = [
        "fragmentation: free pieces of reserved memory that fit no later request",
        "kernel scratch: attention backward, reductions, sorting",
        "attention block mask: built once per step",
        "forward temporaries of a draft layer: the loss section has its own",
        "batch overlap: the next batch beside the current one",
        "logging and checkpoint saving: copies made now and then",
    ]
    if LossRequest.of(config).needs_teacher and config.batch.loss_tokens >= config.batch.total_seq_len:
        missing.append(
            "full-context teacher logits: code may compute them before it picks the loss tokens, as speculators does "
            "when there are at least as many tokens as context"
        )
    if config.step.execution == "compiled":
        missing.append("torch.compile autotuning: the first, slower step")
        if config.precision.frozen != config.precision.compute:
            missing.append("copies of frozen heads: a compiled step casts each for one product at a time")
    if any(group.role == "target" for group in config.hardware.groups):
        missing.append("NCCL buffers: hidden states travel between GPUs")
        missing.append("target caches: attention and linear-attention state")
    return missing
