"""The sentences under a plan: every number in them is that of a plan of the changed configuration."""

from __future__ import annotations

import re
from typing import Any

import pytest

from membudget.calculator.notes import APPROXIMATE, alternatives, plan_with_notes
from membudget.calculator.plan import drafter_plan, make_plan
from membudget.config.load import find_config, load_config
from membudget.config.models import Config
from membudget.units import format_gb
from tests.calculator.configs import small


def profile(name: str) -> Config:
    return load_config(find_config(name))


def notes_of(config: Config, **kwargs: Any) -> list[str]:
    return list(plan_with_notes(config, name="x", **kwargs).notes)


@pytest.mark.parametrize("name", ["ddtree", "ddtree-chunked", "v4-kl"])
def test_every_way_out_is_a_plan(name: str) -> None:
    config = profile(name)
    notes = notes_of(config)
    for names, changed in alternatives(config):
        gpu = drafter_plan(changed)
        (note,) = [n for n in notes if n.endswith(_ending(changed, names, gpu.compared_bytes, gpu.fits, n))]
        assert note.startswith("FITS" if gpu.fits else "not enough")


def _ending(changed: Config, names: list[str], nbytes: int, fits: bool, note: str) -> str:
    term = getattr(changed.loss, names[0])
    change = f"{{method: {term.method}, chunk: {term.chunk}}} for {', '.join(names)} -> {format_gb(nbytes)} device"
    return change if fits else f"{change}, over by {note.rpartition('over by ')[2]}"


def test_the_believed_fix_is_called_by_its_name() -> None:
    (note,) = [n for n in notes_of(profile("ddtree-chunked")) if n.startswith("kl in chunks")]
    assert re.search(r"holds 48.82 GB from forward to backward, as one pass \(48.82 GB\)", note)
    assert "peak 85.44 GB -> 54.92 GB" in note


def test_a_run_that_fits_needs_no_way_out() -> None:
    assert notes_of(profile("ddtree-fixed")) == []


def test_with_few_tokens_the_chunk_is_smaller() -> None:
    config = small(model={"vocab_size": 200_000}, loss={"kl": {}})
    limit = make_plan(config, name="x").tightest.device_bytes - 1
    assert all(
        changed.batch.loss_tokens // 6 == changed.loss.kl.chunk
        for _, changed in alternatives(config)
        if changed.loss.kl
    )
    assert any(note.startswith("FITS") for note in notes_of(config, limit_bytes=limit))


def test_what_needs_more_is_not_offered() -> None:
    config = profile("ddtree-fixed")
    assert notes_of(config, limit_bytes=30 * 10**9) == [
        "no method of the loss alone is enough: something else has to become smaller"
    ]


def test_one_chunk_of_everything_is_no_loop() -> None:
    config = small(loss={"kl": {"method": "chunked", "chunk": 10**6}})
    assert notes_of(config) == []


def test_an_approximate_gradient_is_said_to_be() -> None:
    assert notes_of(small(loss={"kl_topk": {}})) == [APPROXIMATE]
