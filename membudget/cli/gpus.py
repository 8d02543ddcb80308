"""`membudget gpus`."""

from __future__ import annotations

from typing import Annotated

import typer

from membudget.cli.arguments import choose
from membudget.cli.options import Color, screen_for
from membudget.cli.outcome import Outcome


def gpus(
    format_: Annotated[str, typer.Option("--format", metavar="table|json", help="How to print it.")] = "table",
    color: Color = "auto",
) -> Outcome:
    """List the GPUs, and what torch sees on each."""
    from membudget.catalog.gpus import list_gpus
    from membudget.report.reporters import GPUS_REPORTERS

    report = choose("--format", format_, GPUS_REPORTERS)
    return Outcome(report(list_gpus(), screen_for(color, None)))
