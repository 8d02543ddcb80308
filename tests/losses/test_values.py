"""The programs on torch compute what they are called: against formulas in float64, and method against method."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from membudget.losses.torch_ops import TorchOps
from membudget.programs.heads import Heads, logits_of, targets_of
from membudget.programs.section import HEAD_METHODS, LOGITS_METHODS, Group, section_loss
from membudget.programs.terms import TermSettings

TOKENS, VOCAB, HIDDEN = 13, 29, 7
CPU_METHODS = [m for m in (*LOGITS_METHODS, *HEAD_METHODS) if m not in ("compiled", "fused_kernel")]


def inputs() -> Heads[torch.Tensor]:
    generator = torch.Generator().manual_seed(7)

    def matrix(rows: int) -> torch.Tensor:
        return torch.randn(rows, HIDDEN, generator=generator, dtype=torch.float64)

    labels = torch.randint(0, VOCAB, (TOKENS,), generator=generator)
    hidden, weight = matrix(TOKENS).requires_grad_(), matrix(VOCAB).requires_grad_()
    return Heads(hidden, weight, matrix(TOKENS), matrix(VOCAB), labels, True)


def reference(name: str, z: torch.Tensor, t: torch.Tensor, y: torch.Tensor, term: TermSettings) -> torch.Tensor:
    """The definitions, token by token, without any of the programs' operators."""
    q, p = (z / term.temperature).softmax(-1), (t / term.temperature).softmax(-1)
    m = term.beta * p + (1 - term.beta) * q
    square = term.temperature**2
    if name == "cross_entropy":
        return -q[torch.arange(TOKENS), y].log().sum()
    if name == "kl":
        return square * (p * (p / q).log()).sum()
    if name == "reverse_kl":
        return square * (q * (q / p).log()).sum()
    if name == "jsd":
        of_teacher, of_student = (p * (p / m).log()).sum(), (q * (q / m).log()).sum()
        return square * (term.beta * of_teacher + (1 - term.beta) * of_student)
    if name == "tv":
        return (p - q).abs().sum() / 2
    if name == "kl_topk":
        top = p.topk(min(term.k, VOCAB), -1)[1]
        p_top, q_top = p.gather(-1, top), q.gather(-1, top)
        return square * (p_top * (p_top / q_top).log()).sum()
    entropy = -(q * q.log()).sum(-1)
    return entropy[z.argmax(-1) == y].sum()


def run(name: str, method: str, chunk: int, **settings: Any) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    heads = inputs()
    ops = TorchOps()
    group = Group((TermSettings(name, weight=0.7, **settings),), method, chunk)
    logits = logits_of(ops, heads.hidden, heads.weight) if group.needs_logits else None
    targets = targets_of(ops, heads.teacher_hidden, heads.teacher_weight)
    loss = section_loss(ops, (group,), heads, logits, targets, float(TOKENS))
    torch.autograd.backward(2.5 * loss)
    assert heads.hidden.grad is not None
    assert heads.weight.grad is not None
    return loss.detach(), heads.hidden.grad, heads.weight.grad


@pytest.mark.parametrize("method", CPU_METHODS)
@pytest.mark.parametrize("name", ["cross_entropy", "kl", "reverse_kl", "jsd", "tv", "kl_topk", "cap"])
def test_loss_and_gradients_equal_the_definition(name: str, method: str) -> None:
    choices: tuple[dict[str, Any], ...] = ({}, {"temperature": 2.0, "beta": 0.3, "k": 4})
    for settings in choices:
        heads = inputs()
        assert heads.teacher_hidden is not None
        assert heads.teacher_weight is not None
        assert heads.labels is not None
        z = heads.hidden @ heads.weight.t()
        t = heads.teacher_hidden @ heads.teacher_weight.t()
        expected = 0.7 / TOKENS * reference(name, z, t, heads.labels, TermSettings(name, **settings))
        torch.autograd.backward(2.5 * expected)
        for chunk in (5, TOKENS):
            loss, of_hidden, of_weight = run(name, method, chunk, **settings)
            torch.testing.assert_close(loss, expected.detach(), rtol=1e-10, atol=1e-12)
            torch.testing.assert_close(of_hidden, heads.hidden.grad, rtol=1e-9, atol=1e-11)
            torch.testing.assert_close(of_weight, heads.weight.grad, rtol=1e-9, atol=1e-11)
