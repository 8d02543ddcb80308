"""The catalogue of GPUs for programs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict

from membudget.catalog.gpus import Gpu, cublas_workspace_bytes
from membudget.report.plan_json import SCHEMA_VERSION
from membudget.report.screen import Screen


def render(gpus: Sequence[Gpu], screen: Screen) -> str:
    """The catalogue as JSON; sizes are integer bytes, except vendor_gb, the number printed on the box."""
    rows = [{**asdict(gpu), "cublas_workspace_bytes": cublas_workspace_bytes(gpu)} for gpu in gpus]
    return json.dumps({"schema_version": SCHEMA_VERSION, "gpus": rows}, indent=2) + "\n"
