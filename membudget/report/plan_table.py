"""A plan for people at a terminal: one table per GPU, the verdict above and below."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from membudget.calculator.result import GpuPlan, Item, Plan
from membudget.errors import printable
from membudget.report.measured_words import measured_lines
from membudget.report.plan_rows import rows
from membudget.report.screen import Screen, bar, header_line, percent, to_text
from membudget.report.words import (
    MARKS,
    GpuGroup,
    gpu_label,
    grouped,
    headline,
    in_gb,
    limit_rows,
    provenance_line,
    reason,
    sized,
    totals,
    verdict,
)
from membudget.units import format_gb

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table
    from rich.text import Text

_BAR_WIDTH = 80
"""Below this many columns the bars go, the numbers stay."""


def render(plan: Plan, screen: Screen) -> str:
    """The whole plan as text; see Screen for what can be chosen."""
    return to_text(_parts(plan, screen), screen)


def _parts(plan: Plan, screen: Screen) -> Iterator[RenderableType]:
    from rich.text import Text

    style = "bold green" if plan.fits else "bold red"
    yield Text(headline(plan), style)
    yield _cell(reason(plan.tightest))
    groups = grouped(plan.gpus)
    for group in groups:
        yield Text()
        yield from _group_parts(group, screen, in_full=screen.explain or _matters(group, plan))
    yield Text()
    for line in measured_lines(plan.measured) if plan.measured else ():
        yield _cell(line)
    for note in plan.notes:
        yield _cell(f"- {printable(note)}")
    if plan.not_included:
        yield _cell("not included: " + "; ".join(_missing(part, screen) for part in plan.not_included))
    yield _cell(provenance_line(item.provenance for group in groups for item in group.gpu.items))
    yield Text(headline(plan), style)


def _matters(group: GpuGroup, plan: Plan) -> bool:
    """Whether a reader needs to see the group's items: it is over, or nothing is and it is the tightest."""
    return not group.gpu.fits or (plan.fits and plan.tightest.index in group.indices)


def _missing(part: str, screen: Screen) -> str:
    """What is not included: its name, and with --explain what that means."""
    return printable(part if screen.explain else part.partition(":")[0])


def _group_parts(group: GpuGroup, screen: Screen, *, in_full: bool) -> Iterator[RenderableType]:
    gpu = group.gpu
    if not in_full:
        everyone = sorted([*group.indices, *(index for indices, _ in group.others for index in indices)])
        total = f"at most {format_gb(gpu.compared_bytes)} {gpu.compare}"
        yield _cell(f"{gpu_label(everyone, gpu.role)}: {total}, {verdict(gpu)} (--explain lists the items)")
        return
    title = f"{gpu_label(group.indices, gpu.role)}: {printable(gpu.gpu_name)}"
    yield _cell(f"{title}, each" if len(group.indices) > 1 else title, "bold")
    yield from _in_full(gpu, screen)
    for indices, other in group.others:
        total = f"{other.compare} total {format_gb(other.compared_bytes)}"
        yield _cell(f"{gpu_label(indices, other.role)}: {total}, {verdict(other)}")


def _in_full(gpu: GpuPlan, screen: Screen) -> Iterator[RenderableType]:
    yield _table(gpu, screen)
    yield _cell("")
    for label, nbytes, remark in limit_rows(gpu):
        yield _cell(f"{label:>15}: {sized(nbytes)} {remark}")
    yield _cell(f"{'verdict':>15}: {verdict(gpu)}", "green" if gpu.fits else "red")


def _table(gpu: GpuPlan, screen: Screen) -> Table:
    from rich.table import Table

    table = Table(box=header_line(), pad_edge=False, show_edge=False, padding=(0, 1, 0, 0))
    phase = f"alive at the peak, {gpu.peak.phase}" if gpu.peak.phase else "alive at the peak"
    table.add_column(printable(phase), overflow="fold")
    table.add_column("GB", justify="right", no_wrap=True)
    table.add_column("bytes", justify="right", no_wrap=True)
    if screen.width >= _BAR_WIDTH:
        table.add_column("share", no_wrap=True)
    _add_items(table, gpu, screen)
    _add_totals(table, gpu)
    _add_phases(table, gpu)
    return table


def _add_items(table: Table, gpu: GpuPlan, screen: Screen) -> None:
    for group in rows(gpu, everything=screen.explain):
        mark = MARKS[group.provenance]
        _row(table, _cell(group.group, "bold"), group.nbytes, mark, gpu.device_bytes, "bold")
        for item in group.items:
            _row(table, _item_cell(item, screen), item.nbytes, MARKS[item.provenance], gpu.device_bytes)


def _add_totals(table: Table, gpu: GpuPlan) -> None:
    table.add_section()
    for name, nbytes, provenance in totals(gpu):
        _row(table, _cell(name, "bold"), nbytes, MARKS[provenance], gpu.device_bytes, "bold")


def _add_phases(table: Table, gpu: GpuPlan) -> None:
    table.add_section()
    table.add_row(_cell("phases, most allocated in each", "bold"))
    top = max((nbytes for _, nbytes in gpu.phase_peaks), default=0)
    mark = MARKS[totals(gpu)[0][2]]
    for name, nbytes in gpu.phase_peaks:
        peak = name == gpu.peak.phase
        text = f"  {printable(name)}" + (" <- PEAK" if peak else "")
        _row(table, _cell(text, "bold" if peak else ""), nbytes, mark, top, "bold" if peak else "")


def _row(table: Table, name: RenderableType, nbytes: int, mark: str, whole: int, style: str = "") -> None:
    cells = [name, _cell(mark + in_gb(nbytes), style), _cell(f"{nbytes:,}", style)]
    if len(table.columns) > len(cells):
        cells.append(_cell(f"{bar(nbytes, whole, 8)} {percent(nbytes, whole):>5}", style))
    table.add_row(*cells)


def _cell(text: str, style: str = "") -> Text:
    from rich.text import Text

    return Text(text, style)


def _item_cell(item: Item, screen: Screen) -> RenderableType:
    from rich.padding import Padding

    lines = [f"{printable(item.name)}: {printable(item.formula)}"]
    if screen.explain and item.values != item.formula:
        lines.append(f"  = {printable(item.values)}")
    return Padding(_cell("\n".join(lines)), (0, 0, 0, 2))
