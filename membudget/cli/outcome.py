"""What a command hands to main(), which alone writes: the text, where it goes, and the exit code."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Outcome:
    """The result of a command."""

    text: str
    """For stdout, or for the file `output`."""
    exit_code: int = 0
    output: str | None = None
    """The file of -o; None and "-" mean stdout."""
    messages: tuple[str, ...] = ()
    """For stderr, a line each."""
    causes: tuple[BaseException, ...] = ()
    """Unexpected exceptions that the text mentions; --debug shows their tracebacks."""
