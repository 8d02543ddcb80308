"""The text of one configuration file: read safely, and shown safely in messages."""

from __future__ import annotations

import errno
import os
import re
import stat
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from membudget.config.suggest import nearest
from membudget.errors import ConfigError, Problem
from membudget.errors import printable as spelled_out

MAX_FILE_BYTES = 1_000_000
"""A configuration is a few kilobytes; this much is a wrong file."""

SHOWN_COLUMNS = 100
"""Longer source lines are cut; a caret further right would only wrap in a terminal."""

_LINE_BREAK = re.compile(r"\r\n|\r|\n")


def printable(text: str, limit: int = 60) -> str:
    """The text with control characters escaped, and cut to `limit` characters."""
    cut = text if len(text) <= limit else text[: limit - 3] + "..."
    return spelled_out(cut)


@dataclass(frozen=True)
class Source:
    """A text and the name it goes by in messages."""

    file: str
    text: str

    @cached_property
    def lines(self) -> list[str]:
        return _LINE_BREAK.split(self.text)

    def problem(self, position: tuple[int, int], message: str) -> Problem:
        """A problem at (line, column), both from 1, with its source line; (0, 0) is the file as a whole."""
        line, column = position
        return Problem(printable(self.file, 500), line, column, message, self._excerpt(line, column))

    def position(self, index: int) -> tuple[int, int]:
        """Line and column of a character of the text."""
        before = _LINE_BREAK.split(self.text[:index])
        return len(before), len(before[-1]) + 1

    def _excerpt(self, line: int, column: int) -> str:
        if not 1 <= line <= len(self.lines) or column > SHOWN_COLUMNS:
            return ""
        text = self.lines[line - 1]
        cut = text if len(text) <= SHOWN_COLUMNS else text[: SHOWN_COLUMNS - 3] + "..."
        # One character for one, so that the caret stays under its column.
        return "".join(c if c.isprintable() else " " if c == "\t" else "?" for c in cut)


def read_source(path: str | Path) -> Source:
    """The text of a regular file in UTF-8, with or without byte order mark; never waits for a pipe or device.

    Raises ConfigError naming what is wrong with the file as a whole, or the first byte that is not UTF-8.
    """
    name = str(path)
    try:
        data = _read(Path(path))
    except (OSError, ValueError) as error:
        raise _refusal(name, _reason(Path(path), error)) from error
    if len(data) > MAX_FILE_BYTES:
        raise _refusal(name, f"is larger than {MAX_FILE_BYTES:,} bytes, the most a configuration may have")
    return Source(name, _decode(name, data))


class _NotAFileError(OSError):
    """What the path leads to is no regular file; the text says what it is."""


def _read(path: Path) -> bytes:
    mode = path.stat().st_mode
    if stat.S_ISDIR(mode):
        raise _NotAFileError(_folder_text(path))
    if not stat.S_ISREG(mode):
        kind = "a pipe" if stat.S_ISFIFO(mode) else "a socket" if stat.S_ISSOCK(mode) else "a device"
        raise _NotAFileError(f"is {kind}; only regular files are read")
    with open(path, "rb") as stream:
        return stream.read(MAX_FILE_BYTES + 1)


def _folder_text(path: Path) -> str:
    names = sorted(p.name for p in path.glob("*.y*ml"))[:5] if os.access(path, os.R_OK) else []
    inside = f" (it holds {', '.join(printable(n) for n in names)})" if names else ""
    return f"is a folder; name a file in it{inside}"


def _reason(path: Path, error: OSError | ValueError) -> str:
    if isinstance(error, _NotAFileError):
        return str(error)
    if isinstance(error, FileNotFoundError):
        return f"no such file{_near_names(path)}"
    if isinstance(error, PermissionError):
        return "cannot be read: permission denied; check the mode and the owner of the file and its folder"
    if isinstance(error, NotADirectoryError):
        return "no such file: a folder of this path is a file"
    if isinstance(error, ValueError):
        return "this is not the name of a file"
    if error.errno == errno.ELOOP:
        return "cannot be read: symbolic links that lead in a circle"
    return f"cannot be read: {(error.strerror or type(error).__name__).lower()}"


def _near_names(path: Path) -> str:
    if os.path.islink(path):
        return ": a symbolic link that leads nowhere"
    try:
        names = os.listdir(path.parent)
    except OSError:
        return f": the folder {printable(str(path.parent))} does not exist"
    near = nearest(path.name, names)
    return f' (did you mean "{printable(near)}"?)' if near else ""


def _refusal(name: str, message: str) -> ConfigError:
    return ConfigError([Problem(printable(name, 500), 0, 0, message)])


def _decode(name: str, data: bytes) -> str:
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise _refusal(name, "is written in UTF-16; save it as UTF-8")
    if b"\0" in data:
        raise _refusal(name, f"is a binary file (a NUL byte at offset {data.index(0):,}), not YAML")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        source = Source(name, data.decode("utf-8", "replace"))
        position = source.position(len(data[: error.start].decode("utf-8")))
        message = f"byte 0x{data[error.start]:02x} is not UTF-8; save the file as UTF-8"
        raise ConfigError([source.problem(position, message)]) from error
