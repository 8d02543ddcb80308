"""Markdown tables in which no text of a user can break a row or start markup."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from membudget.errors import printable

_SPECIAL = re.compile(r"([\\`*_<>|\[\]])")


def escaped(text: str) -> str:
    """The text for a Markdown paragraph or table cell, shown exactly as it is."""
    # Underscores between letters are no markup in GitHub's Markdown, and names are full of them.
    return re.sub(r"(?<=\w)\\_(?=\w)", "_", _SPECIAL.sub(r"\\\1", printable(text)))


def table(header: Sequence[str], rows: Iterable[Sequence[str]], *, right: Sequence[int] = ()) -> str:
    """A table of cells that are Markdown already; the columns named in `right` are aligned to the right."""
    rule = ["---:" if column in right else "---" for column in range(len(header))]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in (header, rule, *rows))
