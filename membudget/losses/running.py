"""One group of terms on torch: its program, or the same sums under torch.compile."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from membudget.losses.compiled import compiled_loss
from membudget.losses.inputs import Rows
from membudget.losses.tokens import Tokens
from membudget.losses.torch_ops import TorchOps
from membudget.programs.heads import Heads, logits_of, targets_of
from membudget.programs.operators import Operators
from membudget.programs.section import Group, section_loss


def run(group: Group, student: Rows, teacher: Rows | None, tokens: Tokens) -> Tensor:
    """The loss. What is made here in full dies on return, but for what the graph holds."""
    ops: Operators[Tensor] = TorchOps()
    targets = _full_targets(ops, teacher) if group.needs_logits else None
    logits = _full_logits(ops, student) if group.needs_logits else None
    inside, outside = (1.0, tokens.divisor) if isinstance(tokens.divisor, Tensor) else (tokens.divisor, None)
    if group.method == "compiled":
        assert logits is not None
        loss = compiled_loss(group.terms, logits, targets, tokens.labels, tokens.weights, inside)
        return loss if outside is None else ops.divide_by(loss, outside)
    loss = section_loss(ops, (group,), _heads(student, teacher, tokens, outside), logits, targets, inside)
    assert isinstance(loss, Tensor)
    return loss


def _full_logits(ops: Operators[Tensor], student: Rows) -> Tensor:
    if student.full is not None:
        return student.full
    assert student.hidden is not None
    assert student.weight is not None
    return logits_of(ops, student.hidden, student.weight)


def _full_targets(ops: Operators[Tensor], teacher: Rows | None) -> Tensor | None:
    if teacher is None or teacher.full is not None:
        return None if teacher is None else teacher.full
    return targets_of(ops, teacher.hidden, teacher.weight)


def _heads(student: Rows, teacher: Rows | None, tokens: Tokens, divisor: Tensor | None) -> Heads[Any]:
    """Methods that work on logits in full read neither hidden states nor weights, which may not exist."""
    return Heads(
        hidden=student.hidden,
        weight=student.weight,
        teacher_hidden=None if teacher is None else teacher.hidden,
        teacher_weight=None if teacher is None else teacher.weight,
        labels=tokens.labels,
        train_weight=student.weight is not None and student.weight.requires_grad,
        token_weights=tokens.weights,
        divisor=divisor,
        targets=None if teacher is None else teacher.full,
    )
