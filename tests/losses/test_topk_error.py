"""How far kl_topk is off, against the definitions."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from membudget.losses import Head, kl_topk_error

TOKENS, VOCAB, HIDDEN = 11, 19, 5


@settings(max_examples=25)
@given(st.integers(1, 25), st.integers(1, 13), st.sampled_from([1.0, 2.0]), st.booleans(), st.booleans())
def test_the_three_figures(k: int, chunk: int, temperature: float, from_head: bool, masked: bool) -> None:
    generator = torch.Generator().manual_seed(k)
    hidden, other = (torch.randn(TOKENS, HIDDEN, generator=generator) for _ in range(2))
    weight = torch.randn(VOCAB, HIDDEN, generator=generator)
    mask = torch.arange(TOKENS) % 2 > 0 if masked else None
    logits, targets = hidden @ weight.t(), other @ weight.t()
    given_logits, given_targets = (Head(hidden, weight), Head(other, weight)) if from_head else (logits, targets)
    error = kl_topk_error(given_logits, given_targets, k, chunk=chunk, temperature=temperature, mask=mask)
    kept = torch.arange(TOKENS) if mask is None else mask.nonzero()[:, 0]
    log_q, log_p = ((x.double() / temperature).log_softmax(-1)[kept] for x in (logits, targets))
    parts = log_p.exp() * (log_p - log_q) * temperature**2
    top = log_p.argsort(-1, descending=True)[:, :k]
    wanted = parts.sum(-1).mean(), parts.gather(-1, top).sum(-1).mean(), log_p.exp().gather(-1, top).sum(-1).mean()
    tolerance = 100 * torch.finfo(torch.float32).eps
    for found, value in zip((error.kl, error.kl_topk, error.covered), wanted, strict=True):
        assert not found.requires_grad
        assert float(found) == pytest.approx(float(value), rel=tolerance, abs=tolerance)
    assert float(error.absolute) == pytest.approx(float(wanted[1] - wanted[0]), abs=tolerance)
    assert float(error.relative) == pytest.approx(abs(float(wanted[1] / wanted[0]) - 1), abs=1e-4)


def test_all_of_the_vocabulary_is_exact() -> None:
    logits, targets = torch.randn(TOKENS, VOCAB, requires_grad=True), torch.randn(TOKENS, VOCAB)
    error = kl_topk_error(logits, targets, VOCAB)
    assert float(error.relative) < 1e-5
    assert float(error.covered) == pytest.approx(1)
    assert str(error).endswith("with 100.00% of the teacher's probability covered")


def test_half_precision_and_no_token() -> None:
    logits, targets = torch.randn(TOKENS, VOCAB).bfloat16(), torch.randn(TOKENS, VOCAB).bfloat16()
    assert kl_topk_error(logits, targets, 3).kl.dtype == torch.float32
    assert float(kl_topk_error(logits, targets, 3, mask=torch.zeros(TOKENS, dtype=torch.bool)).covered) == 0
