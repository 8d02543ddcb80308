"""The loops of the user's source, from its syntax tree: which instructions run once per iteration."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from membudget.trace.events import Place

Position = tuple[int, int]
"""Line and column."""


@dataclass(frozen=True, order=True)
class Loop:
    """A loop statement or comprehension, from its first line to its last."""

    file: str
    first_line: int
    last_line: int
    bodies: tuple[tuple[Position, Position], ...]
    """What runs once per iteration, each from its first character to its last."""

    def runs(self, line: int, column: int) -> bool:
        """Whether the instruction at this place is run once per iteration."""
        return any(first <= (line, column) <= last for first, last in self.bodies)


def loop_of(place: Place) -> Loop | None:
    """The outermost loop that the frames of a place run in; None outside of any."""
    for file, line, column in reversed(place):
        around = [loop for loop in loops_in(file) if loop.runs(line, column)]
        if around:
            return min(around, key=lambda loop: (loop.first_line, -loop.last_line))
    return None


@cache
def loops_in(file: str) -> tuple[Loop, ...]:
    """Every loop of a source file; none where the source cannot be read."""
    try:
        with open(file, encoding="utf-8") as source:
            tree = ast.parse(source.read())
    except (OSError, SyntaxError, ValueError, RecursionError):
        return ()
    return tuple(_loop(file, node, bodies) for node in ast.walk(tree) if (bodies := list(_bodies(node))))


def _loop(file: str, node: ast.AST, bodies: list[ast.expr | ast.stmt]) -> Loop:
    assert isinstance(node, ast.stmt | ast.expr)
    spans = tuple(
        ((body.lineno, body.col_offset), (body.end_lineno or body.lineno, body.end_col_offset or body.col_offset))
        for body in bodies
    )
    return Loop(file, node.lineno, node.end_lineno or node.lineno, spans)


def _bodies(node: ast.AST) -> Iterator[ast.expr | ast.stmt]:
    """What a loop repeats: not what it goes over, which is computed once."""
    if isinstance(node, ast.For | ast.AsyncFor):
        yield from node.body
    elif isinstance(node, ast.While):
        yield node.test
        yield from node.body
    elif isinstance(node, ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp):
        yield from (node.key, node.value) if isinstance(node, ast.DictComp) else (node.elt,)
        for index, generator in enumerate(node.generators):
            yield from generator.ifs
            if index:
                yield generator.iter
