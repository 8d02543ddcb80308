"""The sentences and names that several formats share, so that they say the same."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from membudget.calculator.result import GROUPS, GpuPlan, Plan
from membudget.errors import printable
from membudget.report.screen import percent
from membudget.timeline import PROVENANCES, least_certain
from membudget.units import format_both, format_exact, format_gb

MARKS = dict(zip(PROVENANCES, ("", "*", "~", "?"), strict=True))
"""What stands before a number, from the most to the least certain."""


def sized(nbytes: int) -> str:
    """`95.00 GB = 88.48 GiB (95,000,000,000 B)`; sizes too small for these units in bytes only."""
    both, exact = format_both(nbytes), format_exact(nbytes)
    return exact if both == exact else f"{both} ({exact})"


def plural(count: int, noun: str) -> str:
    """`1 file`, `3 files`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def gpu_label(indices: Sequence[int], role: str) -> str:
    """`GPUs 0-5 (target)`, `GPU 7 (drafter)`."""
    noun = "GPU" if len(indices) == 1 else "GPUs"
    return f"{noun} {_ranges(sorted(indices))} ({role})"


def verdict(gpu: GpuPlan) -> str:
    """`OVER by 8.97 GB = 8.36 GiB` or `fits with ... left`; equality fits."""
    if gpu.margin_bytes == 0:
        return "fits to the byte, nothing left"
    size = format_both(abs(gpu.margin_bytes))
    return f"fits with {size} left" if gpu.fits else f"OVER by {size}"


def headline(plan: Plan) -> str:
    """The whole answer in one sentence: about the GPU that is most over, or the tightest one."""
    gpu = plan.tightest
    on = f"on {gpu_label([gpu.index], gpu.role)}"
    if len(plan.gpus) > 1 and gpu.fits:
        on += ", the tightest"
    peak = f", peak in {printable(gpu.peak.phase)}" if gpu.peak.phase else ""
    return f"{_named(plan)}: {verdict(gpu)} {on}{peak}"


def _named(plan: Plan) -> str:
    """The run's name; in quotes when a CI system could read its beginning as a command (`::error`, `##[`)."""
    name = printable(plan.name)
    return f'"{name}"' if name.startswith((":", "#")) else name


def reason(gpu: GpuPlan) -> str:
    """What fills a GPU at its peak: `logits and loss 85.44 GB (57 %), model 24.01 GB (16 %), ...`."""
    groups = {
        name: sum(item.nbytes for item in gpu.items if item.category in categories)
        for name, categories in GROUPS.items()
    }
    largest = sorted((item for item in groups.items() if item[1]), key=lambda item: -item[1])
    shares = [f"{name} {format_gb(size)} ({percent(size, gpu.device_bytes)})" for name, size in largest]
    return "at the peak: " + ", ".join(shares)


def in_gb(nbytes: int) -> str:
    """`12.21` or `<0.01`, for a column whose header says GB."""
    return format_gb(nbytes).removesuffix("GB").replace(" ", "")


def limit_rows(gpu: GpuPlan) -> list[tuple[str, int, str]]:
    """What was given, what torch sees, and what is compared: a label, bytes, and which limit counts."""
    counts = "(counts)"
    rows = [("torch sees", gpu.capacity_bytes, counts)]
    if gpu.given_limit_bytes is not None:
        given_counts = gpu.given_limit_bytes <= gpu.capacity_bytes
        rows = [
            ("limit given", gpu.given_limit_bytes, counts if given_counts else ""),
            ("torch sees", gpu.capacity_bytes, "" if given_counts else counts),
        ]
    return [*rows, (f"{gpu.compare} total", gpu.compared_bytes, "")]


def totals(gpu: GpuPlan) -> list[tuple[str, int, str]]:
    """The three totals, each with its label, bytes and provenance, that of its least certain part."""
    tensors = least_certain(item.provenance for item in gpu.items if item.category != "runtime")
    slack = "modelled" if gpu.reserved_bytes != gpu.allocated_bytes else "exact"
    everything = least_certain(item.provenance for item in gpu.items)
    return [
        ("allocated: the tensors", gpu.allocated_bytes, tensors),
        ("reserved: + allocator slack", gpu.reserved_bytes, least_certain((tensors, slack))),
        ("device: + context (nvidia-smi)", gpu.device_bytes, everything),
    ]


@dataclass(frozen=True)
class GpuGroup:
    """GPUs of one role and model under one limit: one is shown in full, the others only where they differ."""

    indices: tuple[int, ...]
    """The GPUs whose budget is exactly that of `gpu`."""
    gpu: GpuPlan
    """The one with the smallest margin."""
    others: tuple[tuple[tuple[int, ...], GpuPlan], ...]
    """Budgets that differ from it, each with the GPUs that have it."""


def grouped(gpus: Iterable[GpuPlan]) -> list[GpuGroup]:
    """GPUs by role and model; groups over their limit first, otherwise in order of index."""
    groups: dict[object, dict[object, list[GpuPlan]]] = {}
    for gpu in gpus:
        kind = (gpu.role, gpu.gpu_name, gpu.capacity_bytes, gpu.given_limit_bytes, gpu.compare)
        totals = (gpu.allocated_bytes, gpu.reserved_bytes, gpu.device_bytes)
        budget = (gpu.peak.phase, gpu.items, gpu.phase_peaks, totals)
        groups.setdefault(kind, {}).setdefault(budget, []).append(gpu)
    found = [_group(list(budgets.values())) for budgets in groups.values()]
    return sorted(found, key=lambda group: group.gpu.fits)


def _group(budgets: list[list[GpuPlan]]) -> GpuGroup:
    first, *others = sorted(budgets, key=lambda same: same[0].margin_bytes)
    return GpuGroup(_indices(first), first[0], tuple((_indices(same), same[0]) for same in others))


def _indices(gpus: Iterable[GpuPlan]) -> tuple[int, ...]:
    return tuple(sorted(gpu.index for gpu in gpus))


def provenance_line(items: Iterable[str]) -> str:
    """`11 lines exact, 4 modelled (~), 1 assumed (?)` from the provenance of each line."""
    provenances = list(items)
    parts = [
        f"{provenances.count(name)} {name}" + (f" ({mark})" if mark else "")
        for name, mark in MARKS.items()
        if name in provenances
    ]
    return "lines: " + (", ".join(parts) if parts else "none")


def _ranges(numbers: Sequence[int]) -> str:
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)
