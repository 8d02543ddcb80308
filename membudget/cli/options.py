"""Options that several commands share."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from membudget.cli.arguments import choose
from membudget.report.screen import Screen

Limit = Annotated[
    str | None,
    typer.Option(
        "--limit",
        metavar="SIZE",
        help='The most a GPU may use, such as "95 GB" or "88 GiB"; what torch sees counts when smaller.',
    ),
]
Output = Annotated[
    str | None,
    typer.Option("--output", "-o", metavar="FILE", help="Write the result to a file, whole or not at all."),
]
Color = Annotated[
    str,
    typer.Option("--color", metavar="auto|always|never", help="Colour; auto heeds NO_COLOR and TERM=dumb."),
]

PIPED_WIDTH = 120
"""Columns when neither a terminal nor COLUMNS says how many."""


def screen_for(color: str, output: str | None, *, explain: bool = False, only_lines: bool = False) -> Screen:
    """The screen a table is made for: the terminal's width, and colour where it is wanted and seen."""
    import shutil

    wanted = choose("--color", color, {"auto": _color_welcome(output), "always": True, "never": False})
    return Screen(shutil.get_terminal_size((PIPED_WIDTH, 24)).columns, wanted, explain, only_lines)


def _color_welcome(output: str | None) -> bool:
    if output not in (None, "-") or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return sys.stdout is not None and sys.stdout.isatty()
