"""The tables of formats, and the small reports."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import pytest

import membudget.report
from membudget.catalog.gpus import list_gpus
from membudget.errors import ConfigError, Problem
from membudget.report import errors_json, gpus_table
from membudget.report.probe_formats import PROBE_REPORTERS
from membudget.report.reporters import CHECK_REPORTERS, GPUS_REPORTERS, LOSS_REPORTERS, PLAN_REPORTERS, TRACE_REPORTERS
from membudget.report.screen import Screen

TABLES: dict[str, Iterable[str]] = {
    "plan": PLAN_REPORTERS,
    "check": CHECK_REPORTERS,
    "loss": LOSS_REPORTERS,
    "gpus": GPUS_REPORTERS,
    "probe": PROBE_REPORTERS,
    "trace": TRACE_REPORTERS,
}


def test_every_format_module_is_in_its_table() -> None:
    formats = {f"{command}_{name}" for command, table in TABLES.items() for name in table}
    stems = {path.stem for path in Path(membudget.report.__file__).parent.glob("*_*.py")}
    others = {"__init__", "check_result", "check_words", "errors_json", "loss_result", "plan_rows"}
    others |= {"probe_formats", "probe_result", "measured_words", "trace_rows"}
    assert stems == formats | others


@pytest.mark.parametrize("width", [40, 80, 120])
def test_gpus_table(width: int) -> None:
    text = gpus_table.render(list_gpus(), Screen(width))
    assert "94.97 GiB" in text
    assert "101.97 GB" in text
    assert ("nvidia-smi shows 97,887 MiB" in text) == (width >= 110)
    assert max(map(len, text.splitlines())) <= max(width, 79)
    assert all(gpu.key in text for gpu in list_gpus())


def test_gpus_json() -> None:
    document = json.loads(GPUS_REPORTERS["json"](list_gpus(), Screen()))
    by_key = {gpu["key"]: gpu for gpu in document["gpus"]}
    assert by_key["h200"]["torch_bytes"] == 143_156 * 2**20
    assert by_key["h200"]["cublas_workspace_bytes"] == 33_554_432
    assert len(by_key) == len(list_gpus())


def test_errors_of_a_configuration_keep_their_positions() -> None:
    error = ConfigError([Problem("a.yaml", 12, 3, "unknown key"), Problem("b.yaml", 0, 0, "is empty")])
    assert json.loads(errors_json.render(error, "ignored")) == {
        "schema_version": 1,
        "status": "error",
        "errors": [
            {"file": "a.yaml", "line": 12, "column": 3, "message": "unknown key"},
            {"file": "b.yaml", "line": None, "column": None, "message": "is empty"},
        ],
    }


def test_any_other_error_is_its_message() -> None:
    document = json.loads(errors_json.render(ValueError("x"), "membudget: no such thing"))
    assert [error["message"] for error in document["errors"]] == ["membudget: no such thing"]
    assert document["errors"][0]["file"] is None
