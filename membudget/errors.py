"""Every failure a person can meet, each class with the exit code it ends in.

    MembudgetError                2   anything this tool refuses
    +-- UsageError                2   wrong arguments or files on the command line
    +-- SizeError                 2   a size such as "95" or "1,000MB" that cannot be read exactly
    +-- ConfigError               2   a configuration with one or more problems, each with its position
    +-- CannotMeasureError        3   the device or the environment needed to measure is missing

A budget over its limit is a result, not a failure: it ends in ExitCode.OVER without an exception.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class ExitCode(IntEnum):
    """What the process tells its caller. The numbers are a contract."""

    FITS = 0
    OVER = 1
    BAD_INPUT = 2
    CANNOT_MEASURE = 3


def printable(text: str) -> str:
    """The text with control characters spelled out, so that a name cannot steer a terminal."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


class MembudgetError(Exception):
    """Root of all failures with a text for people; `str()` is that text, cause first, then the remedy."""

    exit_code: ExitCode = ExitCode.BAD_INPUT


class UsageError(MembudgetError):
    """The command line asks for something that does not exist or does not make sense."""


class SizeError(MembudgetError, ValueError):
    """A size that cannot be read exactly; a ValueError too, so that validators report its position."""


class CannotMeasureError(MembudgetError):
    """Nothing can be measured here: no device, no torch, or the device ran out of memory."""

    exit_code = ExitCode.CANNOT_MEASURE


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong in a file; lines and columns count from 1, 0 means the file as a whole."""

    file: str
    line: int
    column: int
    message: str
    source_line: str = ""

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}:{self.column}" if self.line else self.file
        text = f"{where}: {self.message}"
        if not self.source_line:
            return text
        gutter = f"{self.line:>5} | "
        caret = " " * (len(gutter) - 2 + self.column) + " ^"
        return f"{text}\n{gutter}{self.source_line}\n{caret}"


class ConfigError(MembudgetError):
    """A configuration file with problems: all of them, sorted by position."""

    def __init__(self, problems: list[Problem]) -> None:
        self.problems = sorted(problems, key=lambda p: (p.file, p.line, p.column, p.message))
        super().__init__("\n".join(str(problem) for problem in self.problems))
