"""`membudget plan`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from membudget.cli.arguments import choose, parse_limit
from membudget.cli.options import Color, Limit, Output, screen_for
from membudget.cli.outcome import Outcome
from membudget.cli.pricing import Planner, price

if TYPE_CHECKING:
    from membudget.calculator.result import Plan
    from membudget.config.models import Config

EXAMPLES = """\b
Examples:
  membudget plan ddtree.yaml
  membudget plan run.yaml --limit "95 GB" --explain
"""


def plan(
    config: Annotated[str, typer.Argument(metavar="CONFIG", help="A file, or the name of a shipped profile.")],
    limit: Limit = None,
    format_: Annotated[str, typer.Option("--format", metavar="table|json|markdown", help="How to print it.")] = "table",
    explain: Annotated[bool, typer.Option("--explain", help="Show each formula with its numbers.")] = False,
    with_measurement: Annotated[
        str | None,
        typer.Option("--with-measurement", metavar="FILE", help="Show what `probe --save` measured of this loss."),
    ] = None,
    output: Output = None,
    color: Color = "auto",
) -> Outcome:
    """Show what a training step needs, item by item.

    Per GPU: what is alive at the peak and why, the phases, the totals, the limit and the verdict.
    Ends in 0 even when over the limit: it reports. `membudget check` judges.
    """
    from membudget.config.load import find_config
    from membudget.report.reporters import PLAN_REPORTERS

    report = choose("--format", format_, PLAN_REPORTERS)
    screen = screen_for(color, output, explain=explain)
    limit_bytes = parse_limit(limit)
    loaded, result = price(find_config(config), limit_bytes, _planner(format_))
    if with_measurement is not None:
        result = _with_measurement(result, loaded.config, with_measurement)
    return Outcome(report(result, screen), output=output)


def _with_measurement(plan: Plan, config: Config, file: str) -> Plan:
    """The plan, and what the file says of its loss section."""
    from dataclasses import replace

    from membudget.probe.matching import measured_loss
    from membudget.probe.measurement_file import read_measurement

    return replace(plan, measured=measured_loss(read_measurement(file), config, file))


def _planner(format_: str) -> Planner:
    """Notes are sentences for people, and cost a few more plans; JSON does without."""
    if format_ == "json":
        from membudget.calculator.plan import make_plan

        return make_plan
    from membudget.calculator.notes import plan_with_notes

    return plan_with_notes
