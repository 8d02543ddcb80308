"""Files that are no configuration, each refused in words and without waiting."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from membudget.config.load import load_config, parse_config
from membudget.config.source import MAX_FILE_BYTES, SHOWN_COLUMNS, Source, printable
from membudget.errors import ConfigError
from tests.config.examples import MINIMAL

needs_posix = pytest.mark.skipif(os.name != "posix", reason="pipes, sockets and owners of POSIX")


def refusal(path: Path | str) -> str:
    """The text, without the path it begins with."""
    start = time.perf_counter()
    with pytest.raises(ConfigError) as error:
        load_config(path)
    assert time.perf_counter() - start < 2
    return str(error.value).removeprefix(str(path))


def written(folder: Path, data: bytes) -> Path:
    path = folder / "run.yaml"
    path.write_bytes(data)
    return path


def test_a_folder(tmp_path: Path) -> None:
    assert refusal(tmp_path) == ": is a folder; name a file in it"
    written(tmp_path, b"")
    assert refusal(tmp_path) == ": is a folder; name a file in it (it holds run.yaml)"


def test_a_missing_file_names_the_one_most_like_it(tmp_path: Path) -> None:
    assert refusal(tmp_path / "ruin.yaml") == ": no such file"
    written(tmp_path, b"")
    assert refusal(tmp_path / "ruin.yaml") == ': no such file (did you mean "run.yaml"?)'


def test_a_missing_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert refusal("no/run.yaml") == ": no such file: the folder no does not exist"


def test_a_path_through_a_file(tmp_path: Path) -> None:
    path = written(tmp_path, b"")
    assert refusal(path / "run.yaml") == ": no such file: a folder of this path is a file"


@pytest.mark.parametrize("name", ["a\0b", "x" * 5000])
def test_names_no_file_can_have(name: str) -> None:
    with pytest.raises(ConfigError, match="name"):
        load_config(name)


@needs_posix
def test_symbolic_links_that_lead_in_a_circle(tmp_path: Path) -> None:
    first, second = tmp_path / "a.yaml", tmp_path / "b.yaml"
    first.symlink_to(second)
    second.symlink_to(first)
    assert refusal(first) == ": cannot be read: symbolic links that lead in a circle"


@needs_posix
def test_a_symbolic_link_that_leads_nowhere(tmp_path: Path) -> None:
    link = tmp_path / "a.yaml"
    link.symlink_to(tmp_path / "gone.yaml")
    assert refusal(link) == ": no such file: a symbolic link that leads nowhere"


@needs_posix
def test_a_pipe_without_a_writer_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.yaml")
    assert refusal(tmp_path / "pipe.yaml") == ": is a pipe; only regular files are read"


@needs_posix
def test_a_device_is_not_read() -> None:
    assert refusal("/dev/zero") == ": is a device; only regular files are read"


@needs_posix
def test_a_socket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # the name of a socket may not be long
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("s.yaml")
        assert refusal("s.yaml") == ": is a socket; only regular files are read"


@contextmanager
def without_privileges() -> Iterator[None]:
    """Root may read everything, so act as nobody meanwhile."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@needs_posix
def test_a_file_without_permission_to_read(tmp_path: Path) -> None:
    path = written(tmp_path, MINIMAL.encode())
    parse_config(MINIMAL, "warm.yaml")  # nobody may be unable to import what is imported late
    path.chmod(0)
    with without_privileges():
        assert ": cannot be read: permission denied" in refusal(path)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\x7fELF\x02\x01\0\0", ": is a binary file (a NUL byte at offset 6), not YAML"),
        ("name: x\n".encode("utf-16"), ": is written in UTF-16; save it as UTF-8"),
        (b"name: caf\xe9\n", ":1:10: byte 0xe9 is not UTF-8; save the file as UTF-8"),
        (
            "# caf\u00e9\nname: \u00e9".encode() + b"\xff",
            ":2:8: byte 0xff is not UTF-8; save the file as UTF-8",
        ),
        (b"# " + b"x" * 5_000_000, ": is larger than 1,000,000 bytes, the most a configuration may have"),
    ],
)
def test_bytes_that_are_no_text(tmp_path: Path, data: bytes, message: str) -> None:
    assert refusal(written(tmp_path, data)).splitlines()[0] == message


def test_a_file_as_large_as_allowed(tmp_path: Path) -> None:
    padding = b"#" * (MAX_FILE_BYTES - len(MINIMAL))
    assert load_config(written(tmp_path, MINIMAL.encode() + padding)).model.hidden_size == 64
    assert "larger than" in refusal(written(tmp_path, MINIMAL.encode() + padding + b"#"))
    with pytest.raises(ConfigError, match="longer than"):
        parse_config(MINIMAL + "#" * MAX_FILE_BYTES, "a.yaml")


def test_a_byte_order_mark_and_carriage_returns_are_accepted(tmp_path: Path) -> None:
    text = "\ufeff" + MINIMAL.replace("\n", "\r\n")
    expected = parse_config(MINIMAL, "a.yaml")
    assert load_config(written(tmp_path, text.encode())) == expected
    assert parse_config(text, "a.yaml") == expected


def test_a_long_line_is_cut_and_keeps_its_caret() -> None:
    source = Source("a.yaml", "x" * 300)
    shown = str(source.problem((1, SHOWN_COLUMNS), "here")).splitlines()
    assert shown[1] == "    1 | " + "x" * 97 + "..."
    assert shown[2].index("^") == len("    1 | ") + SHOWN_COLUMNS - 1
    assert str(source.problem((1, 200), "here")) == "a.yaml:1:200: here"


@given(st.text(), st.text(), st.integers(0, 5), st.integers(0, 200))
def test_a_message_never_carries_control_characters(file: str, text: str, line: int, column: int) -> None:
    problem = Source(file, text).problem((line, column), "here")
    assert all(part.isprintable() for part in (problem.file, problem.source_line))
    assert len(problem.source_line) <= SHOWN_COLUMNS


@given(st.text(), st.integers(4, 50))
def test_printable_text_is_short_and_printable(text: str, limit: int) -> None:
    shown = printable(text, limit)
    assert shown.isprintable()
    assert shown == text or len(text) > limit or not text.isprintable()


@given(st.binary())
def test_any_bytes_are_read_or_refused(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    with pytest.raises(ConfigError) as error:
        load_config(written(tmp_path_factory.getbasetemp(), data))
    assert error.value.problems
