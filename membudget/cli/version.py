"""`membudget version`."""

from __future__ import annotations

from membudget import __version__
from membudget.cli.outcome import Outcome


def version() -> Outcome:
    """Show the version."""
    return Outcome(f"membudget {__version__}\n")
