"""`check` for programs: one JSON object; its names are a contract, more keys may be added."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from membudget.report.check_result import FileResult, largest_item
from membudget.report.errors_json import problem_object
from membudget.report.plan_json import SCHEMA_VERSION, item_object
from membudget.report.screen import Screen


def render(results: Sequence[FileResult], screen: Screen) -> str:
    """The results as JSON; all sizes are integer bytes, null where a file could not be read."""
    document = {
        "schema_version": SCHEMA_VERSION,
        "fits": all(result.status == "fits" for result in results),
        "results": [_result(result) for result in results],
    }
    return json.dumps(document, indent=2) + "\n"


def _result(result: FileResult) -> dict[str, Any]:
    """One file: its totals are those of the GPU with the smallest margin."""
    gpu = result.plan.tightest if result.plan else None
    largest = largest_item(gpu) if gpu else None
    return {
        "file": result.file,
        "status": result.status,
        "gpu": gpu.index if gpu else None,
        "role": gpu.role if gpu else None,
        "peak_phase": gpu.peak.phase if gpu else None,
        "compare": gpu.compare if gpu else None,
        "compared_bytes": gpu.compared_bytes if gpu else None,
        "device_bytes": gpu.device_bytes if gpu else None,
        "limit_bytes": gpu.limit_bytes if gpu else None,
        "given_limit_bytes": gpu.given_limit_bytes if gpu else None,
        "capacity_bytes": gpu.capacity_bytes if gpu else None,
        "margin_bytes": gpu.margin_bytes if gpu else None,
        "largest_item": item_object(largest) if largest else None,
        "errors": [problem_object(problem) for problem in result.problems],
    }
