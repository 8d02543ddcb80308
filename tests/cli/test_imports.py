"""What is not imported, proved in a fresh interpreter, and that the proof can fail."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from membudget.cli.app import main

HEAVY = ("torch", "numpy", "rich")


def imported(statement: str, names: tuple[str, ...], folder: Path) -> set[str]:
    """Those of the modules that a statement imports in a fresh interpreter."""
    code = f"import sys\n{statement}\nprint('\\n#', *[n for n in {names!r} if n in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=folder, check=True)
    return set(done.stdout.rpartition("#")[2].split())


def command(*words: str) -> str:
    return f"from membudget.cli.app import main\nassert main({list(words)!r}) == 0"


def test_plan_check_and_loss_import_nothing_heavy(folder: Path) -> None:
    sizes = ("--tokens", "64", "--vocab", "100", "--hidden", "8")
    lines = [
        command("plan", "small.yaml", "--format", "json"),
        command("check", "small.yaml"),
        command("loss", "kl", *sizes, "--format", "json"),
    ]
    assert imported("\n".join(lines), HEAVY, folder) == set()


def test_a_table_imports_rich_and_help_does_not(folder: Path) -> None:
    assert imported(command("plan", "small.yaml"), HEAVY, folder) == {"rich"}
    assert imported(command("--help") + "\n" + command("loss", "--help"), HEAVY, folder) == set()


def test_help_and_check_of_probe_import_no_torch(folder: Path) -> None:
    assert main(["probe", "small.yaml", "--device", "cpu", "--method", "whole", "--save", "measured.json"]) == 0
    check = command("probe", "--check", "measured.json", "--format", "json")
    beside = command("plan", "small.yaml", "--with-measurement", "measured.json", "--format", "json")
    assert imported(f"{command('probe', '--help')}\n{check}\n{beside}", HEAVY, folder) == set()


def test_the_detector_detects(folder: Path) -> None:
    assert imported("import numpy", HEAVY, folder) == {"numpy"}


def test_version_imports_next_to_nothing(folder: Path) -> None:
    names = ("typer", "pydantic", "yaml", *HEAVY)
    assert imported(command("--version"), names, folder) == set()
