"""Measurements as files: what is written is read, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from membudget.calculator.loss_request import LossRequest
from membudget.errors import ConfigError
from membudget.probe.device import Sample
from membudget.probe.measurement import Settings, to_text
from membudget.probe.measurement_file import read_measurement
from membudget.probe.probing import Options
from tests.calculator import configs
from tests.probe.examples import FakeDevice, config, measured

LOSS: dict[str, Any] = {
    "cross_entropy": {"upcast": True, "method": "chunked", "chunk": 7},
    "jsd": {"beta": 0.25, "temperature": 1.5},
    "kl_topk": {"k": 9, "softmax_dtype": "fp32"},
}


@hypothesis_settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    peaks=st.lists(st.integers(0, 10**15), min_size=1, max_size=4),
    milliseconds=st.floats(0, 10**7),
    free_bytes=st.integers(0, 10**7),
    scale=st.integers(1, 9),
    loss=st.sampled_from([None, LOSS]),
    driver=st.one_of(st.none(), st.text("abc .0", min_size=1, max_size=9)),
    name=st.text(st.characters(categories=["L", "N", "P", "S"]), min_size=1, max_size=20),
)
def test_round_trip(
    tmp_path: Path,
    peaks: list[int],
    milliseconds: float,
    free_bytes: int,
    scale: int,
    loss: Any,
    driver: str | None,
    name: str,
) -> None:
    def sample(request: LossRequest, count: int) -> Sample:
        return Sample(peaks[count % len(peaks)], 7, milliseconds)

    device = FakeDevice(on_run=sample, free_bytes=free_bytes, driver=driver, name=name, others=("a", name))
    measurement = measured(device, options=Options(len(peaks), scale), loss=loss)
    file = tmp_path / "measured.json"
    file.write_text(to_text(measurement), encoding="utf-8")
    assert read_measurement(file) == measurement


@pytest.mark.parametrize("loss", [None, LOSS, {"kl": {}, "labels": "targets", "autocast": True, "token_weights": True}])
def test_settings_are_the_section_of_the_run(loss: Any) -> None:
    run = config(loss, step={"keep": "logits"}, model={"train_lm_head": True, "frozen_tables": ["embed_tokens"]})
    assert Settings.of(run, "x").request == LossRequest.of(run)
    assert Settings.of(configs.incident(), "x").request == LossRequest.of(configs.incident())


Change = Callable[[dict[str, Any]], object]


def tampered(tmp_path: Path, change: Change) -> str:
    """The problems with a measurement in which something was changed."""
    document = json.loads(to_text(measured()))
    change(document)
    (tmp_path / "measured.json").write_text(json.dumps(document, indent=2))
    with pytest.raises(ConfigError) as caught:
        read_measurement(tmp_path / "measured.json")
    text = str(caught.value)
    assert text.startswith(f"{tmp_path}/measured.json")
    return text


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda d: d["rows"][0].update(measured_bytes=1),
            "rows[0]: difference_bytes is not measured_bytes - predicted",
        ),
        (lambda d: d["rows"][1].update(difference_bytes=5), "rows[1]: difference_bytes is not measured_bytes - pre"),
        (lambda d: d["rows"][1].update(measured_bytes=None), 'rows[1]: status is "measured", which does not go with'),
        (lambda d: d["rows"][1].update(predicted_bytes=None), "rows[1]: difference_bytes needs both"),
        (lambda d: d["rows"][1].update(chunk=None), 'rows[1]: method "fused_head" needs "chunk"'),
        (lambda d: d["rows"][0].update(chunk=3), 'rows[0]: method "whole" does not chunk and has no "chunk"'),
        (lambda d: d["rows"][0].update(method="hole"), 'rows[0].method: no "hole" (did you mean "whole"?); one of'),
        (lambda d: d["rows"][0].update(methd="whole"), 'unknown key "methd" in rows[0] (did you mean "method"?)'),
        (lambda d: d["rows"][0].pop("method"), 'missing key "method" in rows[0]'),
        (lambda d: d["rows"][0].update(terms=["cap"]), "rows[0].terms are not those of settings.loss: kl"),
        (lambda d: d["rows"][0].update(measured_bytes=-1), "rows[0].measured_bytes: input should be greater than or"),
        (lambda d: d.pop("settings"), 'missing key "settings"'),
        (lambda d: d["settings"].update(tokens="24"), "settings.tokens: input should be a valid integer"),
        (lambda d: d["settings"].update(tokens=10**10), "settings.tokens: input should be less than or equal to"),
        (lambda d: d["settings"]["loss"].update(k={}), 'unknown key "k" in settings.loss'),
        (
            lambda d: d["settings"]["loss"].update(kl={"wight": 1}),
            'unknown key "wight" in settings.loss.kl (did you mea',
        ),
        (lambda d: d.update(rows=[]), "rows: "),
        (lambda d: d.update(schema_version=2), "schema_version 2 is unknown; this membudget reads 1: probe again"),
        (lambda d: d.update(schema_version=True), "schema_version True is unknown"),
        (lambda d: d.pop("schema_version"), "is no measurement: write one with `membudget probe --save FILE`"),
    ],
)
def test_tampered(change: Change, message: str, tmp_path: Path) -> None:
    assert message in tampered(tmp_path, change)


def test_problems_have_their_line(tmp_path: Path) -> None:
    text = tampered(tmp_path, lambda d: d["settings"].update(vocab=0))
    lines = (tmp_path / "measured.json").read_text().splitlines()
    number = next(index for index, line in enumerate(lines, 1) if '"vocab": 0' in line)
    assert text.startswith(f"{tmp_path}/measured.json:{number}:")
    assert '"vocab": 0,' in text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is no measurement"),
        ("[]", "is no measurement"),
        ("{", "never closed"),
        ('{"schema_version": 1, "schema_version": 1}', "schema_version"),
        ("<<<<<<< HEAD\n{}", "a merge conflict is left in this file"),
        ("\0", "is a binary file"),
    ],
)
def test_not_a_measurement(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(ConfigError, match=message):
        read_measurement(tmp_path / "x.json")
