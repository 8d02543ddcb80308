"""A measurement for programs: the same object that `--save` writes; names are a contract, more keys may be added."""

from __future__ import annotations

import json

from membudget.probe.measurement import to_document
from membudget.report.probe_result import ProbeReport
from membudget.report.screen import Screen


def render(report: ProbeReport, screen: Screen) -> str:
    """Sizes are integer bytes. With `--check` a key says whether it passed. The screen does not matter."""
    document = to_document(report.measurement)
    checked = report.checked
    if checked is not None:
        document["check"] = {
            "passed": checked.passed,
            "tolerance": str(checked.tolerance),
            "parted": [{"method": row.method, "chunk": row.chunk} for row in checked.parted],
        }
    return json.dumps(document, indent=2) + "\n"
