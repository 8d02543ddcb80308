"""A plan for programs: one JSON object; its names are a contract, more keys may be added."""

from __future__ import annotations

import json
from typing import Any

from membudget.calculator.result import GpuPlan, Item, MeasuredLoss, Plan
from membudget.report.screen import Screen

SCHEMA_VERSION = 1
"""Goes up when a name of any JSON output changes its meaning or goes away."""


def render(plan: Plan, screen: Screen) -> str:
    """The plan as JSON; all sizes are integer bytes. The screen does not matter."""
    document: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "name": plan.name,
        "fits": plan.fits,
        "gpus": [_gpu(gpu) for gpu in plan.gpus],
        "not_included": list(plan.not_included),
    }
    if plan.measured is not None:
        document["measurement"] = _measured(plan.measured)
    return json.dumps(document, indent=2) + "\n"


def item_object(item: Item) -> dict[str, Any]:
    """One line of the budget as it stands in JSON."""
    return {
        "name": item.name,
        "category": item.category,
        "bytes": item.nbytes,
        "formula": item.formula,
        "values": item.values,
        "provenance": item.provenance,
        "count": item.count,
    }


def _measured(measured: MeasuredLoss) -> dict[str, Any]:
    """Bytes are null, and the reason is a text, where the file says nothing of this run."""
    predicted, found = measured.predicted_bytes, measured.measured_bytes
    return {
        "file": measured.file,
        "device": measured.device,
        "method": measured.method,
        "chunk": measured.chunk,
        "predicted_bytes": predicted,
        "measured_bytes": found,
        "difference_bytes": None if predicted is None or found is None else found - predicted,
        "reason": measured.reason or None,
    }


def _gpu(gpu: GpuPlan) -> dict[str, Any]:
    return {
        "index": gpu.index,
        "role": gpu.role,
        "gpu": gpu.gpu_name,
        "fits": gpu.fits,
        "limit_bytes": gpu.limit_bytes,
        "given_limit_bytes": gpu.given_limit_bytes,
        "capacity_bytes": gpu.capacity_bytes,
        "compare": gpu.compare,
        "margin_bytes": gpu.margin_bytes,
        "peak": {
            "phase": gpu.peak.phase,
            "allocated_bytes": gpu.allocated_bytes,
            "reserved_bytes": gpu.reserved_bytes,
            "device_bytes": gpu.device_bytes,
        },
        "items": [item_object(item) for item in gpu.items],
        "phases": [{"name": name, "allocated_bytes": nbytes} for name, nbytes in gpu.phase_peaks],
    }
