from __future__ import annotations

from typing import Any

import pytest

from membudget.config.models import Config
from tests.calculator.configs import MIXED, incident, phases, training_gpu

P = 1_730_213_120
P_VECTORS = 5 * (2 * 5120 + 2 * 128) + 2 * 5120
VH = 248_320 * 5120
PADDING = 10 * 256
"""The ten q and k norms in bf16 are 256 B each, in blocks of 512 B."""


def static_bytes(config: Config) -> int:
    """Parameters, gradients, optimizer state and frozen tables, without temporaries of the step."""
    gpu = training_gpu(config)
    first = gpu.timeline.phases[0].end
    return sum(
        a.nbytes
        for a in gpu.timeline.allocations
        if (a.category in ("parameters", "frozen", "optimizer") and a.dies is None)
        or (a.category == "gradients" and a.born > first)
    )


RECIPES = [
    ("speculators, Muon", {"precision": MIXED, "optimizer": {"name": "muon"}}, 36.0),
    ("speculators, AdamW", {"precision": MIXED}, 42.9),
    ("speculators 0.6, bf16 AdamW", {}, 21.5),
    (
        "SpecForge, masters",
        {
            "precision": {"master_weights": True},
            "model": {"frozen_tables": ["embed_tokens", "lm_head"]},
        },
        32.8,
    ),
]
EXACT = [
    12 * P + 4 * P_VECTORS + 12 * VH + 4 * 5120,
    16 * P + 12 * VH + 4 * 5120,
    8 * P + 4 * PADDING + 6 * VH + 2 * 5120,
    16 * P + 2 * PADDING + 4 * VH,
]
"""The same from the number of parameters; AdamW keeps a second moment for the vectors beside Muon."""


@pytest.mark.parametrize(
    ("sections", "gigabytes", "exact"),
    [(sections, gb, exact) for (_, sections, gb), exact in zip(RECIPES, EXACT, strict=True)],
    ids=[name for name, _, _ in RECIPES],
)
def test_static_totals_of_published_recipes(sections: dict[str, Any], gigabytes: float, exact: int) -> None:
    found = static_bytes(incident(**sections))
    assert found == exact
    assert round(found / 1e9, 1) == gigabytes


def test_masters_get_their_gradients_inside_the_step() -> None:
    gpu = training_gpu(incident(precision={"master_weights": True}, optimizer={"implementation": "fused"}))
    (made,) = [a for a in gpu.timeline.allocations if a.name == "fp32 gradients for the masters"]
    assert made.nbytes == 4 * P
    assert made.dies is not None


def test_gradients_live_as_long_as_the_loop_says() -> None:
    def forward_bytes(**step: str) -> int:
        return phases(training_gpu(incident(step=step)))["loss forward"]

    gradients = 2 * P + PADDING
    base = forward_bytes()
    assert forward_bytes(clear_gradients="after_forward") == base + gradients
    assert forward_bytes(gradients_cleared_to="zero") == base + gradients


def test_autocast_copies_live_from_forward_to_backward() -> None:
    gpu = training_gpu(incident(precision=MIXED))
    copies = [a for a in gpu.timeline.allocations if a.name.startswith("bf16 copies")]
    assert sum(a.nbytes for a in copies) == 2 * (P - P_VECTORS)
    head = [a.nbytes for a in gpu.timeline.allocations if a.name == "bf16 copy of lm_head"]
    assert head == [2 * VH]


def test_a_trained_head_replaces_the_frozen_one() -> None:
    gpu = training_gpu(incident(model={"train_lm_head": True}))
    heads = [(a.category, a.nbytes) for a in gpu.timeline.allocations if a.name == "lm_head"]
    assert heads == [("parameters", 2 * VH)]
    kept = [a for a in gpu.timeline.allocations if a.name == "gradients of lm_head"]
    assert [a.nbytes for a in kept] == [2 * VH]
