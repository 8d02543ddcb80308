"""One loss section, run by torch and by the engine in the same way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from membudget.config.loss import TEACHER_TERMS
from membudget.losses.torch_ops import DTYPES, TorchOps
from membudget.programs.heads import Heads, logits_of, targets_of
from membudget.programs.section import Group, section_loss
from membudget.programs.terms import TermSettings
from membudget.sized.namespace import SizedOps
from membudget.timeline import Recorder, Timeline
from tests.allocator_events import torch_events


@dataclass(frozen=True)
class Case:
    """A loss section at a small size."""

    groups: tuple[Group, ...]
    tokens: int = 32
    vocab: int = 128
    hidden: int = 48
    dtype: str = "bf16"
    keep: str = "both"
    train_head: bool = False
    labels_from_targets: bool = False

    @property
    def needs_targets(self) -> bool:
        if self.labels_from_targets:
            return True
        return any(term.name in TEACHER_TERMS for group in self.groups for term in group.terms)

    @property
    def needs_logits(self) -> bool:
        return any(group.needs_logits for group in self.groups)


def case(names: str, method: str, chunk: int = 0, **kwargs: Any) -> Case:
    """A case with terms by name, all in one group; settings of the terms and of the case by keyword."""
    of_case = {key: kwargs.pop(key) for key in list(kwargs) if key in Case.__dataclass_fields__}
    terms = tuple(TermSettings(name, **kwargs) for name in names.split("+"))
    return Case((Group(terms, method, chunk),), **of_case)


def run_step(ops: Any, case: Case, heads: Heads[Any], backward: Any) -> None:
    """Forward, drop what the caller does not keep, backward: the same lines for both interpreters."""
    section_needs_targets = case.needs_targets and case.needs_logits
    targets = targets_of(ops, heads.teacher_hidden, heads.teacher_weight) if section_needs_targets else None
    logits = logits_of(ops, heads.hidden, heads.weight) if case.needs_logits else None
    loss = section_loss(ops, case.groups, heads, logits, targets, float(case.tokens))
    if case.keep in ("none", "targets"):
        del logits
    if case.keep in ("none", "logits"):
        del targets
    backward(loss)


def run_torch(case: Case) -> list[int]:
    """The CPU allocator's events of the case."""
    dtype = DTYPES[case.dtype]
    generator = torch.Generator().manual_seed(0)

    def matrix(rows: int, columns: int) -> torch.Tensor:
        return torch.randn(rows, columns, generator=generator).to(dtype)

    hidden, weight = matrix(case.tokens, case.hidden), matrix(case.vocab, case.hidden)
    teacher_hidden = matrix(case.tokens, case.hidden) if case.needs_targets else None
    teacher_weight = matrix(case.vocab, case.hidden) if case.needs_targets else None
    labels = torch.randint(0, case.vocab, (case.tokens,), generator=generator)
    hidden.requires_grad_()
    weight.requires_grad_(case.train_head)
    given_labels = None if case.labels_from_targets else labels
    heads = Heads(hidden, weight, teacher_hidden, teacher_weight, given_labels, case.train_head)
    return torch_events(lambda: run_step(TorchOps(), case, heads, lambda loss: loss.backward()))


def run_sized(case: Case, device: Any = "cpu") -> Timeline:
    """The engine's timeline of the case."""
    recorder = Recorder()
    ops = SizedOps(recorder, device)
    hidden = ops.external("hidden", (case.tokens, case.hidden), case.dtype, requires_grad=True)
    weight = ops.external("weight", (case.vocab, case.hidden), case.dtype, requires_grad=case.train_head)
    teacher_hidden = teacher_weight = None
    if case.needs_targets:
        teacher_hidden = ops.external("teacher hidden", (case.tokens, case.hidden), case.dtype)
        teacher_weight = ops.external("teacher weight", (case.vocab, case.hidden), case.dtype)
    labels = None if case.labels_from_targets else ops.external("labels", (case.tokens,), "int64")
    heads = Heads(hidden, weight, teacher_hidden, teacher_weight, labels, case.train_head)
    run_step(ops, case, heads, ops.run_backward)
    return recorder.build()
