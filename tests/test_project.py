"""What the README promises is what there is."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from membudget import __version__
from membudget.cli.app import main

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
SET_UP = re.findall(r"```sh\n(.*?)\n```", README, flags=re.DOTALL)

inside_a_clone = pytest.mark.skipif(not (ROOT / ".ci").exists(), reason="not a clone of the repository")


def words(line: str) -> list[str]:
    return line.split()


def test_two_set_up_commands_of_one_line_each() -> None:
    assert len(SET_UP) == 2
    assert not any("\n" in command for command in SET_UP)


@inside_a_clone
def test_ci_runs_the_test_command_of_the_readme() -> None:
    assert SET_UP[1] in (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()


def test_the_first_screen_is_what_plan_prints(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    block = re.search(r"```\n\$ membudget plan ddtree.yaml\n(.*?)```", README, flags=re.DOTALL)
    assert block is not None
    assert main(["plan", "ddtree.yaml"]) == 0
    printed = [words(line) for line in capsys.readouterr().out.splitlines()]
    for line in block.group(1).splitlines():
        assert line == "..." or words(line) in printed, line


def test_the_table_of_the_history_is_what_check_says(capsys: pytest.CaptureFixture[str]) -> None:
    rows = re.findall(r"^\| \[([\w-]+)\]\(profiles/.*?\| ([\d.]+ GB) \| (fits|over)", README, flags=re.MULTILINE)
    assert len(rows) == len(list((ROOT / "profiles").glob("*.yaml"))) == 6
    assert main(["check", str(ROOT / "profiles"), "--limit", "95 GB"]) == 1
    printed = capsys.readouterr().out.splitlines()
    for name, total, verdict in rows:
        line = next(line for line in printed if f"/{name}.yaml:" in line)
        assert line.startswith("fits" if verdict == "fits" else "OVER")
        assert total in line


def test_links_of_the_readme_lead_somewhere() -> None:
    for target in re.findall(r"\]\(([^)]+)\)", README):
        assert (ROOT / target).exists(), target


def test_one_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["version"] == __version__
    assert f"## {__version__}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_files_stay_small() -> None:
    for path in (ROOT / "membudget").rglob("*.py"):
        assert len(path.read_text(encoding="utf-8").splitlines()) <= 300, path


ROOMS = ["cli", "report", "probe", "trace", "losses", "calculator", "programs", "sized", "config", "catalog"]
"""From the top: a room imports from those below it."""


def test_every_room_has_its_place() -> None:
    assert {path.parent.name for path in (ROOT / "membudget").glob("*/__init__.py")} == set(ROOMS)


@pytest.mark.parametrize("room", ROOMS)
def test_imports_go_one_way(room: str) -> None:
    above = set(ROOMS[: ROOMS.index(room)])
    for path in (ROOT / "membudget" / room).glob("*.py"):
        imported = set(re.findall(r"from membudget\.(\w+)", path.read_text(encoding="utf-8")))
        assert not imported & above, (path, imported & above)


def test_every_assumption_says_why() -> None:
    for path in (ROOT / "profiles").glob("*.yaml"):
        marks = re.findall(r"assumed\b(.*)", path.read_text(encoding="utf-8"))
        reasons = [mark for mark in marks if mark.startswith(": ") and len(mark) > 10]
        others = [mark for mark in marks if not mark.startswith(": ")]
        assert len(reasons) >= 12, path
        assert all("say" in mark or "every" in mark or "values" in mark for mark in others), (path, others)
