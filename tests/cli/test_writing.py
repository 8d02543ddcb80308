"""Streams that cannot, and files that must not be cut in half."""

from __future__ import annotations

import errno
import io
import os
from pathlib import Path

import pytest

from membudget.cli.writing import write_file, write_stream
from membudget.errors import UsageError


def test_what_a_stream_cannot_encode_is_spelled_out() -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii")
    write_stream(stream, "caf\u00e9 \udcff\n")
    assert raw.getvalue() == b"caf\\xe9 \\udcff\n"


def test_no_stream_at_all() -> None:
    write_stream(None, "text")


class Failing(io.StringIO):
    def __init__(self, error: OSError) -> None:
        super().__init__()
        self.error = error

    def flush(self) -> None:
        raise self.error


def test_a_reader_that_left_is_no_failure() -> None:
    write_stream(Failing(BrokenPipeError(errno.EPIPE, "Broken pipe")), "text")


def test_a_full_disk_is_one() -> None:
    with pytest.raises(UsageError, match="cannot write the result: No space left on device"):
        write_stream(Failing(OSError(errno.ENOSPC, "No space left on device")), "text")


def test_a_closed_pipe_ends_quietly() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as stream:
        write_stream(stream, "x" * 100_000)
        # Closing flushes once more: into nothing, and so without an error.


def test_a_failure_halfway_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "out.txt"
    target.write_text("old")

    def fail(source: str, destination: str) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(UsageError, match=r"cannot write .*out\.txt: No space left on device"):
        write_file(str(target), "new")
    assert target.read_text() == "old"
    assert os.listdir(tmp_path) == ["out.txt"]


def test_a_link_stays_a_link_and_a_device_a_device(tmp_path: Path) -> None:
    (tmp_path / "real.txt").write_text("old")
    os.symlink("real.txt", tmp_path / "link.txt")
    write_file(str(tmp_path / "link.txt"), "new")
    assert (tmp_path / "link.txt").is_symlink()
    assert (tmp_path / "real.txt").read_text() == "new"
    write_file(os.devnull, "text")
    assert not os.path.isfile(os.devnull)
