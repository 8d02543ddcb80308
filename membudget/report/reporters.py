"""The formats of each command; whoever adds one writes a module with `render` and a line here."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from membudget.calculator.result import Plan
from membudget.catalog.gpus import Gpu
from membudget.report import (
    check_github,
    check_json,
    check_markdown,
    check_text,
    gpus_json,
    gpus_table,
    loss_json,
    loss_table,
    plan_json,
    plan_markdown,
    plan_table,
    trace_json,
    trace_table,
)
from membudget.report.check_result import FileResult
from membudget.report.loss_result import LossReport
from membudget.report.screen import Screen
from membudget.trace.result import Trace

PLAN_REPORTERS: dict[str, Callable[[Plan, Screen], str]] = {
    "table": plan_table.render,
    "json": plan_json.render,
    "markdown": plan_markdown.render,
}
CHECK_REPORTERS: dict[str, Callable[[Sequence[FileResult], Screen], str]] = {
    "text": check_text.render,
    "json": check_json.render,
    "github": check_github.render,
    "markdown": check_markdown.render,
}
LOSS_REPORTERS: dict[str, Callable[[LossReport, Screen], str]] = {
    "table": loss_table.render,
    "json": loss_json.render,
}
TRACE_REPORTERS: dict[str, Callable[[Trace, Screen], str]] = {
    "table": trace_table.render,
    "json": trace_json.render,
}
GPUS_REPORTERS: dict[str, Callable[[Sequence[Gpu], Screen], str]] = {
    "table": gpus_table.render,
    "json": gpus_json.render,
}
