"""Writing that survives streams without a character, pipes nobody reads, and failures halfway."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from typing import TextIO

from membudget.errors import UsageError


def write_stream(stream: TextIO | None, text: str) -> None:
    """Write and flush. What the stream cannot encode is spelled out; a reader that left is no failure."""
    if stream is None:
        return
    encoding = getattr(stream, "encoding", None) or "utf-8"
    try:
        stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
        stream.flush()
    except BrokenPipeError:
        _silence(stream)
    except OSError as error:
        _silence(stream)
        raise UsageError(f"cannot write the result: {error.strerror or error}") from error


def write_file(path: str, text: str) -> None:
    """Write a file whole or not at all: it appears, or changes, only when everything is written."""
    target = os.path.realpath(path)
    try:
        if os.path.lexists(target) and not stat.S_ISREG(os.stat(target).st_mode):
            _write_special(target, text)
        else:
            _replace(target, text)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror or error}") from error


def check_destination(path: str) -> None:
    """UsageError when write_file could not succeed: said before hours of work, not after them."""
    target = os.path.realpath(path)
    folder = os.path.dirname(target)
    if not path or os.path.isdir(target):
        raise UsageError(f"cannot write {path or 'a file without a name'}: name a file, not a folder")
    if not os.path.isdir(folder):
        raise UsageError(f"cannot write {path}: the folder {os.path.dirname(path) or folder} does not exist")
    if not os.access(target if os.path.exists(target) else folder, os.W_OK):
        raise UsageError(f"cannot write {path}: permission denied")


def _write_special(target: str, text: str) -> None:
    # A device or a pipe must not be replaced by a file; a directory fails to open, as it should.
    with open(target, "w", encoding="utf-8", errors="backslashreplace") as stream:
        stream.write(text)


def _replace(target: str, text: str) -> None:
    temporary = f"{target}.{os.getpid()}.tmp"
    try:
        with open(temporary, "x", encoding="utf-8", errors="backslashreplace") as stream:
            stream.write(text)
        if os.path.exists(target):
            os.chmod(temporary, stat.S_IMODE(os.stat(target).st_mode))
        os.replace(temporary, target)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise


def _silence(stream: TextIO) -> None:
    """Let the interpreter's last flush of a stream that failed go nowhere."""
    with suppress(OSError, ValueError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, stream.fileno())
        os.close(null)
