"""`check` inside GitHub Actions: an annotation at the line that takes the memory.

Plain text without a trace of colour: escape codes keep GitHub from seeing the command.
Source: the documentation of workflow commands, "Setting an error message".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from membudget.report.check_result import FileResult, Position, largest_item
from membudget.report.check_words import finding, totals_line
from membudget.report.screen import Screen

MAX_ANNOTATIONS = 10
"""GitHub shows no more errors than this per step."""

_SECTIONS = {
    "parameters": "model",
    "frozen": "model",
    "gradients": "model",
    "optimizer": "optimizer",
    "inputs": "batch",
    "activations": "batch",
    "logits": "loss",
    "targets": "loss",
    "loss": "loss",
    "workspace": "hardware",
    "runtime": "budget",
}
"""The section of the configuration that decides the size of each category."""


def render(results: Sequence[FileResult], screen: Screen) -> str:
    """At most ten annotations, then one plain line that counts; the screen does not matter."""
    annotations = [line for result in results for line in _annotations(result)]
    shown = annotations[:MAX_ANNOTATIONS]
    hidden = len(annotations) - len(shown)
    summary = totals_line(results) + (f"; {hidden} more not shown here" if hidden else "")
    return "".join(f"{line}\n" for line in [*shown, summary])


def _annotations(result: FileResult) -> Iterator[str]:
    if result.plan is None:
        for problem in result.problems:
            position = (problem.line, problem.column) if problem.line else (0, 0)
            yield _error(problem.file or result.file, position, "Bad configuration", problem.message)
    elif not result.plan.fits:
        yield _error(result.file, _position(result), "Over memory limit", finding(result.plan))


def _position(result: FileResult) -> Position:
    """Where the section of the largest item begins; the top of the file when it is left to its defaults."""
    assert result.plan is not None
    item = largest_item(result.plan.tightest)
    section = _SECTIONS.get(item.category, "") if item else ""
    return result.positions.get((section,), (1, 1))


def _error(file: str, position: Position, title: str, message: str) -> str:
    line, column = position
    where = f",line={line},col={column}" if line else ""
    return f"::error file={_property(file)}{where},title={_property(title)}::{_data(message)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
