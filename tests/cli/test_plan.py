"""`plan`, from a file to the screen."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from membudget.cli.app import main
from tests.cli.conftest import SMALL

Capture = pytest.CaptureFixture[str]


def test_over_is_reported_and_ends_in_zero(folder: Path, capsys: Capture) -> None:
    assert main(["plan", "over.yaml"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("over: OVER by ")
    assert err == ""
    assert out.splitlines()[-1].startswith("over: OVER by ")
    assert "limit given: 1,000,000 B (counts)\n" in out
    assert "torch sees: 1.07 GB = 1.00 GiB (1,073,741,824 B)\n" in out


def test_the_smaller_limit_counts(folder: Path, capsys: Capture) -> None:
    main(["plan", "over.yaml", "--limit", "500 kB", "--format", "json"])
    assert json.loads(capsys.readouterr().out)["gpus"][0]["limit_bytes"] == 500_000
    main(["plan", "over.yaml", "--limit", "2 MB", "--format", "json"])
    assert json.loads(capsys.readouterr().out)["gpus"][0]["limit_bytes"] == 10**6


@pytest.mark.parametrize("limit", ["95", "95G", "0 GB", "-1 GB"])
def test_a_limit_that_is_no_limit(limit: str, folder: Path, capsys: Capture) -> None:
    assert main(["plan", "small.yaml", f"--limit={limit}"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("membudget: --limit: ")
    assert err.count("\n") == 1
    if limit == "95":
        assert '"95 GB" (95,000,000,000 bytes) or "95 GiB" (102,005,473,280 bytes)' in err


def test_explain_puts_numbers_into_formulas(folder: Path, capsys: Capture) -> None:
    (folder / "wide.yaml").write_text(SMALL.replace("vocab_size: 1000", "vocab_size: 100000"))
    main(["plan", "wide.yaml"])
    out = capsys.readouterr().out
    assert "logits: tokens x vocab x 2 B" in out
    assert "24 x 100,000 x 2 B" not in out
    main(["plan", "wide.yaml", "--explain"])
    assert "= 24 x 100,000 x 2 B" in capsys.readouterr().out


def test_items_add_up_in_json(folder: Path, capsys: Capture) -> None:
    assert main(["plan", "small.yaml", "--format", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["name"], document["fits"]) == ("small", True)
    (gpu,) = document["gpus"]
    assert sum(item["bytes"] for item in gpu["items"]) == gpu["peak"]["device_bytes"]
    assert max(phase["allocated_bytes"] for phase in gpu["phases"]) == gpu["peak"]["allocated_bytes"]


def test_markdown(folder: Path, capsys: Capture) -> None:
    assert main(["plan", "small.yaml", "--format", "markdown"]) == 0
    assert capsys.readouterr().out.startswith("**small: fits with ")


def test_color_only_when_asked_for_or_seen(folder: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    main(["plan", "small.yaml"])
    assert "\x1b" not in capsys.readouterr().out
    monkeypatch.setenv("NO_COLOR", "1")
    main(["plan", "small.yaml", "--color", "always"])
    assert "\x1b[1;32m" in capsys.readouterr().out


def test_output_file_is_written_whole(folder: Path, capsys: Capture) -> None:
    target = folder / "plan.json"
    target.write_text("old")
    target.chmod(0o640)
    assert main(["plan", "small.yaml", "--format", "json", "-o", str(target)]) == 0
    assert capsys.readouterr().out == ""
    assert json.loads(target.read_text())["name"] == "small"
    assert stat.S_IMODE(target.stat().st_mode) == 0o640
    assert main(["plan", "bad.yaml", "--format", "json", "-o", str(target)]) == 2
    assert json.loads(target.read_text())["name"] == "small"
    assert sorted(os.listdir(folder)) == ["bad.yaml", "over.yaml", "plan.json", "small.yaml"]


@pytest.mark.parametrize("output", ["missing/plan.txt", "."])
def test_output_that_cannot_be_written(output: str, folder: Path, capsys: Capture) -> None:
    assert main(["plan", "small.yaml", "-o", output]) == 2
    assert capsys.readouterr().err.startswith(f"membudget: cannot write {output}: ")


def test_unknown_gpu_has_a_position(folder: Path, capsys: Capture) -> None:
    text = SMALL.replace("memory: 1 GiB", "gpu: rtx-pro-6000")
    (folder / "gpu.yaml").write_text(text)
    assert main(["plan", "gpu.yaml"]) == 2
    err = capsys.readouterr().err
    line = text.splitlines().index("    - {role: drafter, indices: [0], gpu: rtx-pro-6000}") + 1
    assert err.startswith(f"gpu.yaml:{line}:")
    assert "rtx-pro-6000-blackwell" in err


def test_names_are_never_markup(folder: Path, capsys: Capture) -> None:
    (folder / "name.yaml").write_text('name: "[red]AdamW [bf16]"\n' + SMALL)
    assert main(["plan", "name.yaml"]) == 0
    assert capsys.readouterr().out.startswith("[red]AdamW [bf16]: fits")
