"""main(): every ending has its exit code and one clear line."""

from __future__ import annotations

import gc
import json
import runpy
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from membudget import __version__
from membudget.cli.app import main
from membudget.errors import CannotMeasureError

Capture = pytest.CaptureFixture[str]


def test_version(capsys: Capture) -> None:
    for line in (["--version"], ["-V"], ["version"]):
        assert main(line) == 0
        assert capsys.readouterr() == (f"membudget {__version__}\n", "")


@pytest.mark.parametrize("flag", ["-h", "--help"])
@pytest.mark.parametrize("command", [[], ["plan"], ["check"], ["loss"], ["gpus"], ["schema"], ["version"]])
def test_help(command: list[str], flag: str, capsys: Capture) -> None:
    assert main([*command, flag]) == 0
    out, err = capsys.readouterr()
    assert out.startswith(f"Usage: membudget{''.join(f' {word}' for word in command)} ")
    assert "\x1b" not in out
    assert err == ""


def test_help_tells_exit_codes_and_examples(capsys: Capture) -> None:
    main(["-h"])
    assert "Exit codes: 0 fits (plan: always), 1 over the limit (check)," in capsys.readouterr().out
    main(["check", "-h"])
    assert 'membudget check configs/ --limit "95 GB"' in capsys.readouterr().out


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("plann x", "No such command 'plann'. Did you mean 'plan'? (see `membudget --help`)"),
        ("plan", "Missing argument 'CONFIG' (see `membudget plan --help`)"),
        ("check", "Missing argument 'CONFIG' (see `membudget check --help`)"),
        ("plan a b", "Got unexpected extra argument(s) (b) (see `membudget plan --help`)"),
        (
            "plan a --format jsno",
            '--format: no "jsno" (did you mean "json"?); choose one of table, json, markdown',
        ),
        ("plan a --color sometimes", '--color: no "sometimes"; choose one of auto, always, never'),
        ("--version plan", "--version stands alone: `membudget --version`"),
    ],
)
def test_usage_errors_are_one_line(line: str, message: str, capsys: Capture) -> None:
    assert main(line.split()) == 2
    assert capsys.readouterr() == ("", f"membudget: {message}\n")


def test_unknown_option_suggests(capsys: Capture) -> None:
    assert main(["plan", "x", "--limt", "3"]) == 2
    err = capsys.readouterr().err
    assert "--limt" in err
    assert "--limit" in err
    assert err.count("\n") == 1


def test_no_command_shows_the_help_and_fails(capsys: Capture) -> None:
    assert main([]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("membudget: no command\n\nUsage: membudget ")


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (CannotMeasureError("no CUDA device here"), 3, "membudget: no CUDA device here\n"),
        (KeyboardInterrupt(), 130, "membudget: interrupted\n"),
        (MemoryError(), 2, "membudget: this machine ran out of memory while computing; nothing was computed\n"),
        (
            ZeroDivisionError("division\nby zero"),
            2,
            "membudget: internal error, ZeroDivisionError: division\\nby zero; run again with --debug for the "
            "traceback, and please report it\n",
        ),
        (
            RecursionError(),
            2,
            "membudget: internal error, RecursionError: no details; run again with --debug for the traceback, "
            "and please report it\n",
        ),
        (SystemExit(1), 2, "membudget: internal error, SystemExit: 1; run again with --debug"),
    ],
)
def test_any_exception_becomes_a_line_and_a_code(
    error: BaseException, code: int, text: str, monkeypatch: pytest.MonkeyPatch, folder: Path, capsys: Capture
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr("membudget.cli.plan.price", fail)
    assert main(["plan", "small.yaml"]) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(text)
    assert err.count("\n") == 1
    assert main(["plan", "small.yaml", "--debug"]) == code
    debugged = capsys.readouterr().err
    assert debugged.startswith("Traceback (most recent call last):\n")
    assert text.rstrip("\n") in debugged


def test_errors_are_json_where_json_was_asked_for(folder: Path, capsys: Capture) -> None:
    for line in (["plan", "bad.yaml", "--format", "json"], ["plan", "--format=json", "bad.yaml"]):
        assert main(line) == 2
        document = json.loads(capsys.readouterr().out)
        assert (document["schema_version"], document["status"]) == (1, "error")
        # The wrong key, and the right one that is therefore missing.
        assert ("bad.yaml", 2, 3) in [(e["file"], e["line"], e["column"]) for e in document["errors"]]


def test_usage_errors_are_json_too(capsys: Capture) -> None:
    assert main(["plan", "--format", "json"]) == 2
    out, err = capsys.readouterr()
    (error,) = json.loads(out)["errors"]
    assert error == {
        "file": None,
        "line": None,
        "column": None,
        "message": "Missing argument 'CONFIG' (see `membudget plan --help`)",
    }
    assert err == f"membudget: {error['message']}\n"


def test_debug_after_a_double_dash_is_an_argument(capsys: Capture) -> None:
    assert main(["plan", "--", "--debug"]) == 2
    assert 'no configuration "--debug"' in capsys.readouterr().err


def test_main_reads_the_process_arguments(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.setattr(sys, "argv", ["membudget", "--version"])
    assert main() == 0
    assert capsys.readouterr().out.startswith("membudget ")


def test_python_dash_m(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.setattr(sys, "argv", ["membudget", "plan"])
    for name in ("disable", "freeze"):
        monkeypatch.setattr(gc, name, lambda: None)
    with pytest.raises(SystemExit) as ended:
        runpy.run_module("membudget", run_name="__main__")
    assert ended.value.code == 2
    assert capsys.readouterr().err.startswith("membudget: Missing argument 'CONFIG'")


WORDS = st.sampled_from(
    [
        "plan", "check", "loss", "gpus", "schema", "--format", "json", "table", "text", "--limit", "1 MB", "95",
        "small.yaml", "bad.yaml", "over.yaml", ".", "--exit-zero", "--explain", "kl", "--tokens", "7", "--vocab",
        "--hidden", "--chunk", "--debug", "--", "-o", "-", "\x00", "\udcff", "", "--help", "--color", "always",
    ]
)  # fmt: skip


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(line=st.lists(st.one_of(WORDS, st.text(max_size=8)), max_size=8))
def test_no_command_line_raises_or_exits_by_accident(line: list[str], folder: Path, capsys: Capture) -> None:
    code = main([word for word in line if not word.startswith("--install-c")])
    out, err = capsys.readouterr()
    assert code in (0, 1, 2)
    assert "internal error" not in out + err
    assert code != 1 or "check" in line
    assert "Traceback" not in err or "--debug" in line
