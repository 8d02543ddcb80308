"""`check` as Markdown, for a job summary or a comment that is kept up to date."""

from __future__ import annotations

from collections.abc import Sequence

from membudget.report.check_result import FileResult, largest_item
from membudget.report.check_words import limit_origin, totals_line
from membudget.report.markdown import escaped, table
from membudget.report.screen import Screen
from membudget.report.words import gpu_label
from membudget.units import format_both, format_gb

MARKER = "<!-- membudget check -->"
"""The first line, invisible on the page: what a tool that updates its own comment looks for."""

MAX_FILES = 60
"""Rows beyond this many are counted, not shown."""

_VERDICT = {"fits": "fits", "over": "**OVER**", "error": "**error**"}


def render(results: Sequence[FileResult], screen: Screen) -> str:
    """A table with a row per file, those that fail first; the screen does not matter."""
    rows = [_row(result) for result in sorted(results, key=lambda result: -result.exit_code)]
    header = ("verdict", "file", "total", "limit", "margin", "largest item")
    hidden = len(rows) - MAX_FILES
    rest = f"\n{hidden} more files are not shown.\n" if hidden > 0 else ""
    return f"{MARKER}\n{totals_line(results)}\n\n{table(header, rows[:MAX_FILES], right=(2, 3, 4))}{rest}"


def _row(result: FileResult) -> list[str]:
    verdict, file = _VERDICT[result.status], escaped(result.file)
    if result.plan is None:
        return [verdict, file, "", "", "", _problems(result)]
    gpu = result.plan.tightest
    item = largest_item(gpu)
    largest = f"{escaped(item.name)}, {format_gb(item.nbytes)}" if item else ""
    total, limit, margin = (format_both(size) for size in (gpu.compared_bytes, gpu.limit_bytes, gpu.margin_bytes))
    origin = limit_origin(gpu).removeprefix("limit: ")
    return [verdict, f"{file}, {gpu_label([gpu.index], gpu.role)}", total, f"{limit} ({origin})", margin, largest]


def _problems(result: FileResult) -> str:
    first = result.problems[0]
    place = f"{first.line}:{first.column}: " if first.line else ""
    more = f" (and {len(result.problems) - 1} more)" if len(result.problems) > 1 else ""
    # One row stays one row of readable length, whatever the message quotes.
    return escaped(f"{place}{first.message}"[:500]) + more
