"""What the YAML parser says, in words that name the cause and the remedy."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from membudget.config.source import Source, printable
from membudget.errors import Problem

if TYPE_CHECKING:
    import yaml

_TAB = "a tab cannot indent YAML; use spaces"
_INDENT = "this line is indented unlike the other keys of its section"
_NO_COLON = 'this line has no ":" with a space after it, as in "block_size: 16"'
_KEY = re.compile(r":(\s|$)|^\s*(-\s|#)")
_QUOTES = 'a text with ": " in it needs quotes'
_GOES_ON = "this does not belong to the value before it; a text may need quotes around all of it"
_ESCAPE = 'this escape after "\\" is not known; single quotes take a text as it is'

_TEXTS = (
    ("block sequence entries are not allowed", 'a "-" is not expected here; begin the list on its own line'),
    ("could not find expected ':'", 'a ":" is missing after a key'),
    ("expected node content", "a value is expected here"),
    ("violates indentation", _TAB),
    ("<document start>", _GOES_ON),
    ("exceeded maximum nesting", "nested far too deep"),
    ("incompatible YAML document", "only YAML 1.1 and 1.2 are read"),
    ("did not find expected '-'", 'every item of this list begins with "-" at the same indentation'),
    ("unknown escape", _ESCAPE),
    ("did not find expected hexdecimal", _ESCAPE),
)
"""Part of a message of the parser, and ours."""


def syntax_problem(source: Source, error: yaml.MarkedYAMLError) -> Problem:
    """The problem behind an error of the parser, at the place a person would look at."""
    said, context = error.problem or "", error.context or ""
    mark = error.problem_mark or error.context_mark
    assert mark is not None
    line = source.lines[mark.line] if mark.line < len(source.lines) else ""
    before, rest = line[: mark.column], line[mark.column :]
    if error.context_mark and ("quoted scalar" in context or "flow" in context):
        start = error.context_mark.line + 1, error.context_mark.column + 1
        if not rest and not any(source.lines[mark.line + 1 :]):
            opened = "quote" if "quoted" in context else "bracket"
            return source.problem(start, f"this {opened} is never closed")
        if "',' or" in said:
            message = f'a "," or a closing bracket is missing before this; line {start[0]} opens the bracket'
            return source.problem((mark.line + 1, mark.column + 1), message)
    if "mapping values are not allowed" in said and ": " not in before:
        return _indentation_problem(source, mark.line)
    return source.problem((mark.line + 1, mark.column + 1), _text(said, before, rest))


def _indentation_problem(source: Source, index: int) -> Problem:
    """A key where none is expected: the line before has no ": ", or this one is indented by mistake."""
    earlier = (i for i in range(index - 1, -1, -1) if source.lines[i].strip())
    previous = next(earlier, index)
    if previous != index and not _KEY.search(source.lines[previous]):
        return source.problem((previous + 1, _first_column(source, previous)), _NO_COLON)
    return source.problem((index + 1, _first_column(source, index)), _INDENT)


def _first_column(source: Source, index: int) -> int:
    line = source.lines[index]
    return len(line) - len(line.lstrip()) + 1


def _text(said: str, before: str, rest: str) -> str:
    """Our words for what the parser said; before and rest are the line around the place it points at."""
    if "cannot start any token" in said:
        first = printable(rest[:1])
        return f'a text that begins with "{first}" needs quotes' if rest[:1] != "\t" else _TAB
    if "mapping values are not allowed" in said:
        return _QUOTES
    if "expected key" in said or "<block end>" in said:
        return _GOES_ON if before.strip() else _INDENT
    for part, text in _TEXTS:
        if part in said:
            return text
    return f"not YAML: {printable(said, 200)}"
