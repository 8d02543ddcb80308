"""The loops of the user's source, from its syntax tree."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cache

from membudget.trace.events import Place

_LOOPS = (ast.For, ast.AsyncFor, ast.While, ast.ListComp, ast.GeneratorExp, ast.SetComp, ast.DictComp)


@dataclass(frozen=True, order=True)
class Loop:
    """A loop statement or comprehension, from its first line to its last."""

    file: str
    first_line: int
    last_line: int


def loop_of(place: Place) -> Loop | None:
    """The outermost loop that the frames of a place run in; None outside of any."""
    for file, line in reversed(place):
        around = [loop for loop in loops_in(file) if loop.first_line <= line <= loop.last_line]
        if around:
            return min(around, key=lambda loop: (loop.first_line, -loop.last_line))
    return None


@cache
def loops_in(file: str) -> tuple[Loop, ...]:
    """Every loop of a source file; none where the source cannot be read."""
    try:
        with open(file, encoding="utf-8") as source:
            tree = ast.parse(source.read())
    except (OSError, SyntaxError, ValueError):
        return ()
    return tuple(
        Loop(file, node.lineno, node.end_lineno or node.lineno) for node in ast.walk(tree) if isinstance(node, _LOOPS)
    )
