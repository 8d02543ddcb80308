"""`check`: which files, which exit code, which words."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from membudget.cli.app import main
from membudget.cli.files import candidates
from membudget.cli.pricing import Planner, price
from tests.cli.conftest import SMALL

Capture = pytest.CaptureFixture[str]


@pytest.mark.parametrize(
    ("files", "code", "with_exit_zero"),
    [
        (["small.yaml"], 0, 0),
        (["over.yaml"], 1, 0),
        (["bad.yaml"], 2, 2),
        (["small.yaml", "over.yaml"], 1, 0),
        (["over.yaml", "bad.yaml", "small.yaml"], 2, 2),
        (["missing.yaml", "small.yaml"], 2, 2),
        (["."], 2, 2),
    ],
)
def test_the_worst_exit_code_wins(
    files: list[str], code: int, with_exit_zero: int, folder: Path, capsys: Capture
) -> None:
    assert main(["check", *files]) == code
    assert main(["check", *files, "--exit-zero"]) == with_exit_zero
    assert main(["check", *files, "--format", "json"]) == code
    capsys.readouterr()


def test_all_files_are_reported(folder: Path, capsys: Capture) -> None:
    assert main(["check", "."]) == 2
    out, err = capsys.readouterr()
    assert err == ""
    starts = [line.split(":")[0] for line in out.splitlines() if not line.startswith(" ")]
    assert starts == ["error bad.yaml", "OVER  ./over.yaml", "fits  ./small.yaml", "3 files"] or starts == [
        "error ./bad.yaml",
        "OVER  ./over.yaml",
        "fits  ./small.yaml",
        "3 files",
    ]
    assert out.endswith("3 files: 1 fit, 1 over the limit, 1 with errors\n")


def test_limit(folder: Path, capsys: Capture) -> None:
    assert main(["check", "small.yaml", "--limit", "1 MB"]) == 1
    out = capsys.readouterr().out
    assert out.startswith("OVER  small.yaml: expected at most 1,000,000 B, got 0.61 GB = 0.57 GiB, over by ")
    assert main(["check", "small.yaml", "--limit", "95"]) == 2
    assert capsys.readouterr().out == ""


def test_equality_passes_and_a_byte_less_does_not(folder: Path, capsys: Capture) -> None:
    main(["check", "small.yaml", "--format", "json"])
    total = json.loads(capsys.readouterr().out)["results"][0]["device_bytes"]
    assert main(["check", "small.yaml", "--limit", f"{total} B"]) == 0
    assert main(["check", "small.yaml", "--limit", f"{total - 1} B"]) == 1
    assert "over by 1 B;" in capsys.readouterr().out


def test_nothing_matched_is_an_error(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "notes.txt").write_text("x")
    assert main(["check", "empty"]) == 2
    assert "empty: no *.yaml or *.yml file in this folder or below it" in capsys.readouterr().out
    assert main(["check", "*.yaml"]) == 2
    assert 'no configuration "*.yaml"' in capsys.readouterr().out


def test_folders_are_searched_in_order_and_hidden_files_skipped(tmp_path: Path) -> None:
    for name in ("b/2.yml", "b/1.yaml", "a.yaml", ".git/x.yaml", "b/.hidden.yaml", "c.txt", "b/d/3.yaml"):
        path = tmp_path / "configs" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    names = [candidate.name for candidate in candidates(["configs"])]
    assert names == [f"configs/{name}" for name in ("a.yaml", "b/1.yaml", "b/2.yml", "b/d/3.yaml")]


def test_a_file_is_checked_once(folder: Path, capsys: Capture) -> None:
    os.symlink("small.yaml", folder / "z-link.yaml")
    main(["check", "small.yaml", "./small.yaml", "z-link.yaml", str(folder / "small.yaml")])
    assert capsys.readouterr().out.endswith("1 file: 1 fit, 0 over the limit, 0 with errors\n")
    assert len(candidates([".", "small.yaml", "gone", "gone"])) == 4


def test_a_loop_of_links_is_an_error_not_a_hang(folder: Path, capsys: Capture) -> None:
    os.symlink("loop.yaml", folder / "loop.yaml")
    os.symlink(".", folder / "itself")
    assert main(["check", "loop.yaml", "small.yaml"]) == 2
    assert "2 files: 1 fit, 0 over the limit, 1 with errors" in capsys.readouterr().out
    assert len(candidates(["."])) == 4


def test_an_unexpected_failure_is_one_file_of_many(
    folder: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(path: str, limit: int | None, planner: Planner) -> object:
        if "over" in path:
            raise ZeroDivisionError("oops")
        return price(path, limit, planner)

    monkeypatch.setattr("membudget.cli.check.price", fail)
    assert main(["check", "over.yaml", "small.yaml"]) == 2
    out, err = capsys.readouterr()
    assert "error over.yaml: internal error, ZeroDivisionError: oops;" in out
    assert "fits  small.yaml" in out
    assert err == ""
    assert main(["check", "over.yaml", "small.yaml", "--debug"]) == 2
    assert "ZeroDivisionError: oops" in capsys.readouterr().err


def test_github(folder: Path, capsys: Capture) -> None:
    assert main(["check", ".", "--format", "github"]) == 2
    lines = capsys.readouterr().out.splitlines()
    assert all("\x1b" not in line for line in lines)
    over = next(line for line in lines if "Over memory limit" in line)
    # All of the small run is the CUDA context, which the section budget decides.
    assert f",line={SMALL.count(chr(10)) + 1},col=1,title=Over memory limit::expected at most 1,000,000 B" in over
    assert any(line.startswith("::error file=") and ",line=2,col=3,title=Bad configuration::" in line for line in lines)


def test_job_summary_is_appended(folder: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    summary = folder / "summary.md"
    summary.write_text("before\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    main(["check", "small.yaml"])
    main(["check", "over.yaml", "--format", "github"])
    text = summary.read_text()
    assert text.startswith("before\n")
    assert text.count("<!-- membudget check -->") == 2
    assert "| fits | small.yaml, GPU 0 (drafter) |" in text
    assert "| **OVER** | over.yaml, GPU 0 (drafter) |" in text


def test_a_summary_that_cannot_be_written_fails_nothing(
    folder: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(folder / "no" / "summary.md"))
    assert main(["check", "small.yaml"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("fits ")
    assert err.startswith("membudget: cannot append to $GITHUB_STEP_SUMMARY: ")
