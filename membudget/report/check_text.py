"""`check` for people: one line per file, its verdict first."""

from __future__ import annotations

from collections.abc import Sequence

from membudget.errors import printable
from membudget.report.check_result import FileResult
from membudget.report.check_words import finding, totals_line
from membudget.report.screen import Screen

_STATUS = {"fits": "fits ", "over": "OVER ", "error": "error"}


def render(results: Sequence[FileResult], screen: Screen) -> str:
    """A line per file, problems with their source lines below, and a line that counts. Never wrapped."""
    lines = [line for result in results for line in _lines(result)]
    return "".join(f"{line}\n" for line in [*lines, totals_line(results)])


def _lines(result: FileResult) -> list[str]:
    status = _STATUS[result.status]
    if result.plan is not None:
        return [f"{status} {printable(result.file)}: {finding(result.plan)}"]
    # A problem begins with its file and position; what follows is the source line and a caret.
    texts = [str(problem).split("\n") for problem in result.problems]
    return [
        f"{status if number == 0 else '     '} {printable(line)}" for text in texts for number, line in enumerate(text)
    ]
