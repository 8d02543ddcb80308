"""What a trace shows at its peak: equal tensors of one line together, and lines as a reader opens them."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, replace

from membudget.timeline import Allocation

MOST_ROWS = 14
"""More rows than this are added up in one."""


@dataclass(frozen=True)
class TraceRow:
    """Allocations of one name, formula, size and line."""

    name: str
    category: str
    formula: str
    values: str
    provenance: str
    line: str
    nbytes: int
    count: int = 1


def rows_of(alive: Iterable[Allocation]) -> list[TraceRow]:
    """The largest first."""
    together: dict[TraceRow, int] = {}
    for each in alive:
        one = TraceRow(each.name, each.category, each.formula, each.values, each.provenance, each.line, each.nbytes)
        together[one] = together.get(one, 0) + 1
    rows = [replace(one, nbytes=one.nbytes * count, count=count) for one, count in together.items()]
    return sorted(rows, key=lambda row: -row.nbytes)


def shortened(file: str) -> str:
    """A path from the working folder, where the file is below it."""
    inside = os.getcwd() + os.sep
    return file.removeprefix(inside)


def split_line(line: str) -> tuple[str, int]:
    """`file:12` in its two parts; an empty text is no file and line 0."""
    file, _, number = line.rpartition(":")
    return shortened(file), int(number or 0)


def text_of_line(line: str) -> str:
    """`file:12`, the path from the working folder."""
    file, number = split_line(line)
    return f"{file}:{number}" if file else "no line of yours"
