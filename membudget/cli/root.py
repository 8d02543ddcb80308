"""What `membudget` does before, or without, a command."""

from __future__ import annotations

from typing import Annotated

import typer

from membudget.cli.outcome import Outcome
from membudget.errors import UsageError


def root(
    context: typer.Context,
    show_version: Annotated[bool, typer.Option("--version", "-V", help="Show the version and exit.")] = False,
) -> Outcome | None:
    if show_version:
        raise UsageError("--version stands alone: `membudget --version`")
    if context.invoked_subcommand is None:
        return Outcome("", exit_code=2, messages=(f"no command\n\n{context.get_help()}",))
    return None
