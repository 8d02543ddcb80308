"""Traces of plain PyTorch against the CPU allocator's own events: a trace distorts nothing."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.allocator_events import explain_difference
from tests.trace.comparing import allocator_sequence, traced_sequence
from tests.trace.plain_losses import LOSSES

TOKENS, VOCAB = 12, 40

# The state of the CPU's generator, which checkpoint keeps on the host.
GENERATOR_BYTES = torch.get_rng_state().numel()
# log_sigmoid fills a buffer on the CPU; on CUDA it has no bytes (Activation.cpp).
ONLY_ON_CPU = {"binary": TOKENS * VOCAB * 4}
"""One birth of the CPU allocator that has no counterpart on a GPU."""


@pytest.mark.parametrize("name", LOSSES)
def test_events_of_a_plain_loss(name: str) -> None:
    events = allocator_sequence(LOSSES[name], TOKENS, VOCAB, "fp32")
    allocator = [nbytes for nbytes in events if abs(nbytes) != GENERATOR_BYTES]
    if name in ONLY_ON_CPU:
        # Which of several births of one size it is does not matter: a sequence has sizes only.
        allocator.remove(ONLY_ON_CPU[name])
        allocator.remove(-ONLY_ON_CPU[name])
    traced = traced_sequence(LOSSES[name], TOKENS, VOCAB, "fp32")
    assert traced == allocator, explain_difference(allocator, traced)


@settings(max_examples=25, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(st.sampled_from(sorted(set(LOSSES) - {"binary", "checkpointed_rows"})), st.integers(1, 4), st.integers(5, 60))
def test_events_at_any_size(name: str, dozens: int, vocab: int) -> None:
    tokens = 12 * dozens
    allocator = allocator_sequence(LOSSES[name], tokens, vocab, "fp32")
    assert traced_sequence(LOSSES[name], tokens, vocab, "fp32") == allocator


def test_a_mean_squared_error_keeps_a_storage_of_full_size() -> None:
    """The scalar it returns lies in a storage as large as its input, on every device."""
    for loss in (F.mse_loss, F.smooth_l1_loss):
        assert loss(torch.zeros(12, 40), torch.zeros(12, 40)).untyped_storage().nbytes() == 12 * 40 * 4


def test_the_comparison_can_fail() -> None:
    def other(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return (logits.exp() * targets).sum()

    allocator = allocator_sequence(other, TOKENS, VOCAB, "fp32")
    assert traced_sequence(LOSSES["focal"], TOKENS, VOCAB, "fp32") != allocator
