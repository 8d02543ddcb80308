"""`membudget trace` as a person or a program calls it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from membudget.cli.app import main

LOSS = """\
import torch.nn.functional as F


def kl(logits, targets, chunk=2):
    total = 0
    for i in range(0, len(logits), chunk):
        total = total + F.kl_div(logits[i:i + chunk].log_softmax(-1), targets[i:i + chunk].softmax(-1), reduction="sum")
    return total


def broken(logits, targets):
    return logits.sum().item()


def head(hidden, weight, labels):
    return F.cross_entropy(hidden @ weight.t(), labels)
"""
SIZES = ("--tokens", "8", "--vocab", "3000")


@pytest.fixture
def losses(tmp_path: Path) -> Path:
    file = tmp_path / "losses.py"
    file.write_text(LOSS)
    return file


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = main(["trace", *words])
    out, err = capsys.readouterr()
    return code, out, err


def document(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    code, out, err = run(capsys, *words, "--format", "json")
    assert (code, err) == (0, "")
    result: dict[str, Any] = json.loads(out)
    return result


def test_a_configuration(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = document(capsys, "small.yaml")
    assert found["plan"] == {"peak_bytes": found["peak_bytes"], "same_sequence": True}
    assert found["peak_bytes"] == max(found["forward_peak_bytes"], found["backward_peak_bytes"])
    assert sum(item["bytes"] * 1 for item in found["items"]) == found["peak_bytes"]
    assert sum(line["bytes"] for line in found["lines"]) == found["peak_bytes"]
    assert {"name", "category", "bytes", "formula", "provenance", "file", "line"} <= set(found["items"][0])
    (finding,) = found["findings"]
    assert finding["kind"] == "loop_holds"


def test_a_function(losses: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = document(capsys, "losses.py:kl", *SIZES)
    assert found["schema_version"] == 1
    assert found["held_bytes"] >= 2 * 8 * 3000 * 2
    assert found["peak_phase"] in ("forward", "backward")
    assert {"losses.py"} <= {line["file"] for line in found["lines"]} <= {"losses.py", ""}
    (finding,) = found["findings"]
    assert (finding["file"], finding["first_line"], finding["last_line"]) == ("losses.py", 6, 7)
    assert document(capsys, "losses:kl", *SIZES)["held_bytes"] == found["held_bytes"]


def test_the_table_says_what_the_loop_does(losses: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "losses.py:kl", *SIZES, "--arg", "chunk=4")
    assert (code, err) == (0, "")
    assert "held memory is not reduced by this loop: losses.py:6-7" in " ".join(out.split())
    assert "2 x 4 x vocab x 2 B" in out
    assert "losses.py:7" in out


def test_peak_lines(losses: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "losses.py:kl", *SIZES, "--peak-lines")
    rows = out.splitlines()
    assert code == 0
    assert rows[1].startswith("line that owns it at the peak")
    assert rows[3].startswith("losses.py:7 ")


def test_a_head_is_trained_when_asked(losses: Path, capsys: pytest.CaptureFixture[str]) -> None:
    frozen, trained = (
        document(capsys, "losses.py:head", *SIZES, "--hidden", "16", "--head", head)["backward_peak_bytes"]
        for head in ("frozen", "trainable")
    )
    assert trained > frozen


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("losses.py:kl",), "--tokens is missing"),
        (("losses.py:kl", "--tokens", "8"), "--vocab is missing"),
        (("losses.py:kl", "--tokens", "0", "--vocab", "8"), "--tokens: must be at least 1"),
        (("losses.py:lk", *SIZES), "has no function lk; it has kl, broken, head"),
        (("losses.py:broken", *SIZES), "losses.py:12: broken in forward: local_scalar_dense reads a value"),
        (("losses.py:head", *SIZES), "give its width with --hidden"),
        (("losses.py:kl", *SIZES, "--arg", "chank=4"), 'no such argument (did you mean "chunk"?)'),
        (("losses.py:kl", *SIZES, "--arg", "4"), "does not begin with a name"),
        (("losses.py:kl", *SIZES, "--arg", "chunk=1", "--arg", "chunk=2"), "given twice"),
        (("losses.py:kl", *SIZES, "--logits-dtype", "bf61"), 'did you mean "bf16"'),
        (("none.py:kl", *SIZES), "none.py does not exist"),
        (("losses.py:", *SIZES), "names no function"),
        ((":kl", *SIZES), "names no module"),
        (("small.yaml", "--tokens", "8"), "--tokens: for functions only"),
        (("bad.yaml",), "bad.yaml:2:3"),
        (("nothing",), 'no configuration "nothing"'),
        (("small.yaml", "--format", "jsn"), 'did you mean "json"'),
    ],
)
def test_bad_input_ends_in_2(
    folder: Path, losses: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], message: str
) -> None:
    code, out, err = run(capsys, *words)
    assert (code, out) == (2, "")
    assert message in err
    assert "Traceback" not in err


def test_without_torch_it_ends_in_3(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    for words in (("small.yaml",), ("losses.py:kl", *SIZES)):
        code, out, err = run(capsys, *words)
        assert (code, out) == (3, "")
        assert "pip install 'membudget[torch]'" in err
