"""The formats of `probe`, apart from the others: they need the models of a measurement, which only `probe` reads."""

from __future__ import annotations

from collections.abc import Callable

from membudget.report import probe_json, probe_table
from membudget.report.probe_result import ProbeReport
from membudget.report.screen import Screen

PROBE_REPORTERS: dict[str, Callable[[ProbeReport, Screen], str]] = {
    "table": probe_table.render,
    "json": probe_json.render,
}
