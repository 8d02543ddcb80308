"""A trace for people: what is alive at the peak, who made it, and what the timeline says about the code."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from membudget.errors import printable
from membudget.report.screen import Screen, header_line, percent, to_text
from membudget.report.trace_rows import MOST_ROWS, TraceRow, rows_of, shortened, text_of_line
from membudget.report.words import MARKS, in_gb, plural, provenance_line, sized
from membudget.trace.result import Trace

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

TIER = "traced: the real code on fake tensors, no GPU; bytes beyond its inputs, in the blocks of CUDA's allocator"


def render(trace: Trace, screen: Screen) -> str:
    """The peak in one line, its items, the totals, and the findings; see Screen for what can be chosen."""
    return to_text(_line_parts(trace) if screen.only_lines else _parts(trace), screen)


def _parts(trace: Trace) -> Iterator[RenderableType]:
    from rich.text import Text

    yield Text(_headline(trace), "bold")
    yield Text(printable(trace.settings))
    yield Text(TIER)
    yield Text()
    rows = rows_of(trace.at_peak)
    yield _items(rows, trace.peak.nbytes, trace.peak.phase)
    yield Text()
    totals = trace.totals
    for label, nbytes in (
        ("held", totals.held_bytes),
        ("forward peak", totals.forward_peak_bytes),
        ("backward peak", totals.backward_peak_bytes),
    ):
        yield Text(f"{label:>15}: {sized(nbytes)}")
    yield Text()
    for finding in trace.findings:
        yield Text(f"- {printable(finding.text.replace(finding.file, shortened(finding.file)))}")
    for note in (*_plan(trace), *trace.notes):
        yield Text(f"- {printable(note)}")
    yield Text(provenance_line(row.provenance for row in rows))


def _headline(trace: Trace) -> str:
    return f"{printable(trace.name)}: peak {sized(trace.peak.nbytes)} in loss {trace.peak.phase}"


def _plan(trace: Trace) -> Iterator[str]:
    if trace.equals_plan:
        yield (
            "equals plan's loss section to the byte: the same allocations and frees in the same order (in plan, the "
            "rest of the step decides in which phase the peak is)"
        )
    elif trace.equals_plan is not None:
        assert trace.plan_peak_bytes is not None
        yield (
            f"DIFFERS from plan's loss section, whose peak is {sized(trace.plan_peak_bytes)}: the trace is nearer to "
            f"the code; please report it"
        )


def _items(rows: list[TraceRow], peak_bytes: int, phase: str) -> Table:
    from rich.table import Table

    table = Table(box=header_line(), pad_edge=False, show_edge=False, padding=(0, 1, 0, 0))
    table.add_column(f"alive at the peak, {phase}", overflow="fold")
    table.add_column("GB", justify="right", no_wrap=True)
    table.add_column("bytes", justify="right", no_wrap=True)
    table.add_column("share", justify="right", no_wrap=True)
    for row in rows[:MOST_ROWS]:
        count = f"{row.count:,} x " if row.count > 1 else ""
        text = f"{row.name}: {count}{row.formula}\n  {text_of_line(row.line)}"
        table.add_row(*_cells(text, row.nbytes, peak_bytes, MARKS[row.provenance]))
    rest = rows[MOST_ROWS:]
    if rest:
        text = f"{plural(len(rest), 'smaller item')}"
        table.add_row(*_cells(text, sum(row.nbytes for row in rest), peak_bytes, ""))
    return table


def _line_parts(trace: Trace) -> Iterator[RenderableType]:
    from rich.table import Table
    from rich.text import Text

    yield Text(_headline(trace), "bold")
    table = Table(box=header_line(), pad_edge=False, show_edge=False, padding=(0, 1, 0, 0))
    table.add_column("line that owns it at the peak", overflow="fold")
    for header in ("GB", "bytes", "share"):
        table.add_column(header, justify="right", no_wrap=True)
    for line, nbytes in trace.peak_lines:
        table.add_row(*_cells(text_of_line(line), nbytes, trace.peak.nbytes, ""))
    yield table


def _cells(text: str, nbytes: int, whole: int, mark: str) -> list[RenderableType]:
    from rich.text import Text

    cells = (printable_lines(text), mark + in_gb(nbytes), f"{nbytes:,}", percent(nbytes, whole))
    return [Text(cell) for cell in cells]


def printable_lines(text: str) -> str:
    """Control characters spelled out, line by line."""
    return "\n".join(printable(line) for line in text.splitlines())
