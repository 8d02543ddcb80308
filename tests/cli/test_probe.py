"""`probe`: the measured table, what is refused before anything runs, and files of measurements."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from membudget.cli import probe_progress, probe_run
from membudget.cli.app import main
from membudget.cli.loss_terms import METHODS
from membudget.config.loss import CHUNKING_METHODS
from membudget.probe.device import DeviceOutOfMemoryError
from tests.probe.examples import FakeDevice

Capture = pytest.CaptureFixture[str]
CPU = ["--device", "cpu"]
NO_CPU_METHODS = {"compiled", "fused_kernel", "torch_linear_cross_entropy", "liger", "cut_cross_entropy"}


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> FakeDevice:
    """A made-up GPU in place of the real one."""
    fake = FakeDevice()
    monkeypatch.setattr(probe_run, "_open", lambda kind: fake)
    return fake


def rows(capsys: Capture, *words: str, code: int = 0) -> dict[tuple[str, int | None], dict[str, Any]]:
    assert main(["probe", *words, "--format", "json"]) == code
    found = json.loads(capsys.readouterr().out)["rows"]
    return {(row["method"], row["chunk"]): row for row in found}


def test_the_incident_on_the_cpu(capsys: Capture) -> None:
    """As the command is documented: every method of the ddtree loss, not a byte apart."""
    found = rows(capsys, *CPU, "--chunk", "4096")
    by_method = {method: row for (method, chunk), row in found.items()}
    assert set(by_method) == {"configured", *METHODS}
    for method in set(METHODS) - NO_CPU_METHODS:
        row = by_method[method]
        assert (row["status"], row["difference_bytes"], row["same_events"]) == ("measured", 0, True), method
        assert row["predicted_bytes"] == row["measured_bytes"] > 10**10
        assert row["chunk"] == (4096 if method in CHUNKING_METHODS else None)
    assert {method for method, row in by_method.items() if row["status"] == "skipped"} == NO_CPU_METHODS | {
        "configured"
    }
    assert all(row["reason"] for row in by_method.values() if row["status"] == "skipped")


def test_a_small_run(folder: Path, capsys: Capture) -> None:
    assert main(["probe", "small.yaml", *CPU, "--method", "chunked", "--chunk", "5"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("small: kl: 24 tokens x 1,000 vocab, hidden 64\n")
    assert "real code on the CPU at a reduced size, scaled" in out.replace("\n", " ")
    assert "predicted = measured, 0 bytes apart, in 1 of 1 measured row; every allocation" in out.replace("\n", " ")
    assert err == "membudget: probing 1 of 1: chunked, chunk 5\n"


def test_rows_are_methods_and_chunks(folder: Path, device: FakeDevice, capsys: Capture) -> None:
    words = ["small.yaml", "--method", "fused_head", "--method", "whole", "--chunk", "8", "--chunk", "5"]
    assert list(rows(capsys, *words)) == [("whole", None), ("fused_head", 5), ("fused_head", 8)]
    assert len(device.ran) == 3 * 3
    assert list(rows(capsys, "small.yaml", "--method", "fused_head")) == [("fused_head", 24)]


def test_the_configuration_that_is_probed_is_said(folder: Path, device: FakeDevice, capsys: Capture) -> None:
    main(["probe", "--method", "whole", "--repeat", "1"])
    out, err = capsys.readouterr()
    assert err.startswith("membudget: no CONFIG given and no ./membudget.yaml here: probing the profile ddtree\n")
    assert out.startswith("ddtree: ")
    (folder / "membudget.yaml").write_text("name: mine\n" + (folder / "small.yaml").read_text())
    main(["probe", "--method", "whole", "--repeat", "1"])
    out, err = capsys.readouterr()
    assert err.startswith("membudget: no CONFIG given: probing ./membudget.yaml\n")
    assert out.startswith("mine: ")
    main(["probe", "small.yaml", "--method", "whole", "--repeat", "1"])
    assert "no CONFIG" not in capsys.readouterr().err


def test_out_of_memory_ends_in_3_with_the_other_rows(folder: Path, device: FakeDevice, capsys: Capture) -> None:
    def run(request: Any, count: int) -> None:
        if request.terms[0][1].method == "whole":
            raise DeviceOutOfMemoryError("Tried to allocate 11.37 GiB.")

    device.on_run = run
    found = rows(capsys, "small.yaml", "--method", "whole", "--method", "cpu", "--save", "m.json", code=3)
    assert [row["status"] for row in found.values()] == ["out_of_memory", "measured"]
    assert json.loads(Path("m.json").read_text())["rows"] == list(found.values())
    assert main(["probe", "small.yaml", "--method", "whole", "--method", "cpu"]) == 3
    assert "not measured: whole: out of memory: Tried to allocate 11.37 GiB." in capsys.readouterr().out


def test_nothing_that_fits_ends_in_3(folder: Path, device: FakeDevice, capsys: Capture) -> None:
    device.free_bytes = 1
    words = ["small.yaml", "--method", "whole"]
    assert [row["status"] for row in rows(capsys, *words, code=3).values()] == ["skipped"]
    assert device.ran == []
    assert [row["status"] for row in rows(capsys, *words, "--force").values()] == ["measured"]


def test_a_part_of_the_tokens_is_said(folder: Path, device: FakeDevice, capsys: Capture) -> None:
    device.free_bytes = 400_000
    assert main(["probe", "small.yaml", "--method", "whole", "--scale", "4"]) == 0
    out = capsys.readouterr().out
    assert "whole (1/4)" in out
    assert "extrapolated: 1/4 of the tokens was run" in out
    assert "extrapolated to all tokens" in out


def test_no_cuda_device(folder: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    for words in ([], ["--device", "cuda"]):
        assert main(["probe", *words, "--save", "m.json"]) == 3
        out, err = capsys.readouterr()
        assert out == ""
        assert err.startswith("membudget: no CUDA device here")
        assert "`--device cpu`" in err
        assert err.count("\n") == 1
    assert not Path("m.json").exists()


def test_no_torch(folder: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    assert main(["probe", "small.yaml", *CPU]) == 3
    out, err = capsys.readouterr()
    assert (out, "pip install 'membudget[torch]'" in err) == ("", True)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nowhere.yaml"], 'no configuration "nowhere.yaml"'),
        (["small.yaml", "--device", "gpu"], '--device: no "gpu"'),
        (["small.yaml", "--method", "chunkd"], '--method: no "chunkd" (did you mean "chunked"?); choose one of all,'),
        (
            ["small.yaml", "--method", "whole", "--chunk", "8"],
            "--chunk: whole takes no chunk; leave it out, or add one",
        ),
        (["small.yaml", "--chunk", "0"], "--chunk: must be at least 1"),
        (["small.yaml", "--repeat", "0"], "--repeat: must be at least 1"),
        (["small.yaml", "--repeat", "1001"], '--repeat: "1001" is more than 1,000'),
        (["small.yaml", "--scale", "half"], '--scale: "half" is not a whole number'),
        (["small.yaml", "--save", "missing/m.json"], "cannot write missing/m.json: the folder missing does not exist"),
        (["small.yaml", "--save", "."], "cannot write .: name a file, not a folder"),
        (["small.yaml", "--tolerance", "1%"], "--tolerance belongs to --check FILE"),
        (["small.yaml", "--check", "m.json"], "--check runs nothing: CONFIG does not go with it"),
        (
            ["--check", "m.json", "--device", "cpu", "--force"],
            "--check runs nothing: --device, --force does not go with",
        ),
        (["--check", "m.json", "--tolerance", "1"], '--tolerance: "1" is neither a percentage nor a size'),
    ],
)
def test_refusals_before_anything_runs(
    words: list[str], message: str, folder: Path, device: FakeDevice, capsys: Capture
) -> None:
    assert main(["probe", *words]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"membudget: {message}")
    assert err.count("\n") == 1
    assert device.ran == []


def test_a_configuration_that_cannot_be_read(folder: Path, capsys: Capture) -> None:
    assert main(["probe", "bad.yaml", *CPU]) == 2
    assert capsys.readouterr().err.startswith("bad.yaml:")


@pytest.mark.skipif(os.name != "posix" or os.getuid() == 0, reason="root may write anywhere")
def test_a_folder_without_permission(folder: Path, capsys: Capture) -> None:
    (folder / "locked").mkdir(mode=0o500)
    assert main(["probe", "small.yaml", *CPU, "--save", "locked/m.json"]) == 2
    assert "permission denied" in capsys.readouterr().err


def test_interrupted(folder: Path, device: FakeDevice, capsys: Capture) -> None:
    def interrupt(request: Any, count: int) -> None:
        raise KeyboardInterrupt

    device.on_run = interrupt
    assert main(["probe", "small.yaml", "--save", "m.json"]) == 130
    assert capsys.readouterr().err.endswith("membudget: interrupted\n")
    assert sorted(os.listdir()) == ["bad.yaml", "over.yaml", "small.yaml"]


def test_check_passes_and_fails(folder: Path, device: FakeDevice, capsys: Capture) -> None:
    device.excess = 512
    main(["probe", "small.yaml", "--method", "whole", "--save", "m.json"])
    assert "measurement written to m.json" in capsys.readouterr().err
    assert main(["probe", "--check", "m.json", "--tolerance", "1%"]) == 0
    assert "1 measured row, within a tolerance of 1 %" in capsys.readouterr().out
    assert main(["probe", "--check", "m.json"]) == 1
    out = capsys.readouterr().out.replace("\n", " ")
    assert "whole: +512 B apart, more than 0 B" in out
    assert "1 measured row, NOT within a tolerance of 0 B" in out
    assert main(["probe", "--check", "m.json", "--format", "json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["check"] == {"passed": False, "tolerance": "0 B", "parted": [{"method": "whole", "chunk": None}]}


def test_check_of_a_file_that_was_changed(folder: Path, device: FakeDevice, capsys: Capture) -> None:
    main(["probe", "small.yaml", "--method", "whole", "--save", "m.json"])
    capsys.readouterr()
    text = Path("m.json").read_text()
    Path("m.json").write_text(text.replace('"method": "whole"', '"method": "hole"'))
    assert main(["probe", "--check", "m.json"]) == 2
    err = capsys.readouterr().err
    assert err.startswith("m.json:")
    assert 'no "hole" (did you mean "whole"?)' in err


def test_plan_shows_the_measurement(folder: Path, device: FakeDevice, capsys: Capture) -> None:
    words = ["plan", "small.yaml", "--with-measurement", "m.json"]
    main(["probe", "small.yaml", "--method", "chunked", "--chunk", "5", "--save", "m.json"])
    capsys.readouterr()
    assert main(words) == 0
    out = capsys.readouterr().out.replace("\n", " ")
    assert "measurement m.json: loss section alone, chunked, chunk 5: predicted" in out
    assert "0 bytes apart" in out
    assert main([*words, "--format", "markdown"]) == 0
    assert "measurement m.json: loss section alone, chunked, chunk 5" in capsys.readouterr().out
    assert main([*words, "--format", "json"]) == 0
    measurement = json.loads(capsys.readouterr().out)["measurement"]
    assert measurement["difference_bytes"] == 0
    assert (measurement["method"], measurement["chunk"], measurement["reason"]) == ("chunked", 5, None)


def test_plan_says_when_nothing_matches(folder: Path, device: FakeDevice, capsys: Capture) -> None:
    main(["probe", "small.yaml", "--method", "whole", "--save", "m.json"])
    capsys.readouterr()
    assert main(["plan", "small.yaml", "--with-measurement", "m.json"]) == 0
    out = capsys.readouterr().out.replace("\n", " ")
    assert "measurement m.json: nothing in it is of this loss section: no row has these methods" in out
    assert main(["plan", "small.yaml", "--with-measurement", "missing.json"]) == 2
    assert capsys.readouterr().err.startswith("missing.json: no such file")


def test_progress_moves_on_a_terminal_only(
    folder: Path, device: FakeDevice, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert probe_progress._is_watched()
    assert main(["probe", "small.yaml", "--method", "whole"]) == 0
    assert "membudget: probing" not in capsys.readouterr().err
    monkeypatch.setenv("TERM", "dumb")
    assert not probe_progress._is_watched()
