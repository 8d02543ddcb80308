"""What `probe` says on stderr while it runs: a line that moves on a terminal, a line per row elsewhere."""

from __future__ import annotations

import os
import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING

from membudget.cli.writing import write_stream

if TYPE_CHECKING:
    from rich.status import Status

    from membudget.probe.probing import Wanted


def say(text: str) -> None:
    """One line, at once."""
    write_stream(sys.stderr, f"membudget: {text}\n")


class Progress:
    """Announces rows; rich only where someone watches."""

    def __init__(self, num_rows: int) -> None:
        self._num_rows = num_rows
        self._status: Status | None = None
        self._stack = ExitStack()

    def __enter__(self) -> Progress:
        if _is_watched():
            from rich.console import Console

            status = Console(stderr=True).status("probing")
            self._status = self._stack.enter_context(status)
        return self

    def __exit__(self, *exception: object) -> None:
        self._stack.close()

    def row(self, index: int, wanted: Wanted) -> None:
        """Row `index`, from 0, begins."""
        method, chunk = wanted
        text = f"probing {index + 1} of {self._num_rows}: {method}"
        if chunk is not None:
            text += f", chunk {chunk:,}"
        if self._status is not None:
            self._status.update(text)
        else:
            say(text)


def _is_watched() -> bool:
    return sys.stderr is not None and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
