"""A trace for programs: one JSON object; its names are a contract, more keys may be added."""

from __future__ import annotations

import json
from typing import Any

from membudget.report.plan_json import SCHEMA_VERSION
from membudget.report.screen import Screen
from membudget.report.trace_rows import TraceRow, rows_of, shortened, split_line
from membudget.trace.result import Finding, Trace


def render(trace: Trace, screen: Screen) -> str:
    """Sizes are integer bytes beyond what the code started from; `items` and `lines` are those at the peak."""
    totals, peak = trace.totals, trace.peak
    document: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "name": trace.name,
        "settings": trace.settings,
        "held_bytes": totals.held_bytes,
        "forward_peak_bytes": totals.forward_peak_bytes,
        "backward_peak_bytes": totals.backward_peak_bytes,
        "peak_bytes": peak.nbytes,
        "peak_phase": peak.phase,
        "items": [_item(row) for row in rows_of(trace.at_peak)],
        "lines": [_line(line, nbytes) for line, nbytes in trace.peak_lines],
        "findings": [_finding(finding) for finding in trace.findings],
        "notes": list(trace.notes),
    }
    if trace.equals_plan is not None:
        document["plan"] = {"peak_bytes": trace.plan_peak_bytes, "same_sequence": trace.equals_plan}
    return json.dumps(document, indent=2) + "\n"


def _item(row: TraceRow) -> dict[str, Any]:
    return {
        "name": row.name,
        "category": row.category,
        "bytes": row.nbytes,
        "count": row.count,
        "formula": row.formula,
        "provenance": row.provenance,
        **_place(row.line),
    }


def _line(line: str, nbytes: int) -> dict[str, Any]:
    return {**_place(line), "bytes": nbytes}


def _place(line: str) -> dict[str, Any]:
    """An empty file and line 0 for what no line of the code made."""
    file, number = split_line(line)
    return {"file": file, "line": number}


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "kind": finding.kind,
        "file": shortened(finding.file),
        "first_line": finding.first_line,
        "last_line": finding.last_line,
        "bytes": finding.nbytes,
        "text": finding.text,
    }
