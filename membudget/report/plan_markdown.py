"""A plan as Markdown, for a pull request or a page."""

from __future__ import annotations

from collections.abc import Iterator

from membudget.calculator.result import GpuPlan, Plan
from membudget.report.markdown import escaped, table
from membudget.report.measured_words import measured_lines
from membudget.report.plan_rows import rows
from membudget.report.screen import Screen, percent
from membudget.report.words import (
    MARKS,
    GpuGroup,
    gpu_label,
    grouped,
    headline,
    limit_rows,
    provenance_line,
    sized,
    totals,
    verdict,
)
from membudget.units import format_gb


def render(plan: Plan, screen: Screen) -> str:
    """The plan as Markdown; of the screen only `explain` matters."""
    blocks = [f"**{escaped(headline(plan))}**\n"]
    groups = grouped(plan.gpus)
    for group in groups:
        gpu = group.gpu
        blocks.append(f"### {gpu_label(group.indices, gpu.role)}: {escaped(gpu.gpu_name)}\n")
        blocks.append(_items(gpu, screen))
        blocks.append(_phases(gpu))
        blocks.append(_limits(group))
    notes = measured_lines(plan.measured) if plan.measured else []
    notes += [f"note: {note}" for note in plan.notes]
    if plan.not_included:
        notes.append("not included: " + "; ".join(plan.not_included))
    notes.append(provenance_line(item.provenance for group in groups for item in group.gpu.items))
    blocks.append("".join(f"- {escaped(note)}\n" for note in notes))
    return "\n".join(blocks)


def _items(gpu: GpuPlan, screen: Screen) -> str:
    header = ["alive at the peak", "formula", "GB", "bytes", "share"]
    if screen.explain:
        header.insert(2, "with numbers")
    return table(header, _item_rows(gpu, screen), right=range(len(header) - 3, len(header)))


def _item_rows(gpu: GpuPlan, screen: Screen) -> Iterator[list[str]]:
    for group in rows(gpu, everything=screen.explain):
        yield _row(f"**{group.group}**", ("", ""), group.nbytes, MARKS[group.provenance], gpu, screen)
        for item in group.items:
            texts = (escaped(item.formula), escaped(item.values))
            yield _row(escaped(item.name), texts, item.nbytes, MARKS[item.provenance], gpu, screen)
    for name, nbytes, provenance in totals(gpu):
        yield _row(f"**{name}**", ("", ""), nbytes, MARKS[provenance], gpu, screen)


def _row(name: str, texts: tuple[str, str], nbytes: int, mark: str, gpu: GpuPlan, screen: Screen) -> list[str]:
    described = texts if screen.explain else texts[:1]
    sizes = (escaped(mark) + format_gb(nbytes), f"{nbytes:,}", percent(nbytes, gpu.device_bytes))
    return [name, *described, *sizes]


def _phases(gpu: GpuPlan) -> str:
    mark = escaped(MARKS[totals(gpu)[0][2]])
    rows = [
        [
            escaped(name) + (" **(peak)**" if name == gpu.peak.phase else ""),
            mark + format_gb(nbytes),
            f"{nbytes:,}",
        ]
        for name, nbytes in gpu.phase_peaks
    ]
    return table(["phase", "allocated, GB", "bytes"], rows, right=(1, 2))


def _limits(group: GpuGroup) -> str:
    gpu = group.gpu
    lines = [f"{label}: {sized(nbytes)} {remark}".rstrip() for label, nbytes, remark in limit_rows(gpu)]
    lines.append(f"verdict: **{verdict(gpu)}**")
    for indices, other in group.others:
        total = f"{other.compare} total {format_gb(other.compared_bytes)}"
        lines.append(f"{gpu_label(indices, other.role)}: {total}, {verdict(other)}")
    return "".join(f"- {line}\n" for line in lines)
