"""A loss section as a training step runs it, phase by phase, whatever the tensors are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, Literal

from membudget.programs.heads import Heads, logits_of, targets_of
from membudget.programs.operators import Operators, T
from membudget.programs.section import Group, section_loss

Keep = Literal["none", "logits", "targets", "both"]

STEP_PHASES = ("targets", "forward", "backward", "pass gradient on", "release", "clear gradients")
"""Phases of the section inside a step; alone, it ends with its backward."""


@dataclass(frozen=True)
class SectionPlan:
    """What is computed, and what the caller keeps of it."""

    groups: tuple[Group, ...]
    targets_in_full: bool
    """Whether a method that works on logits in full reads the teacher's logits, or their argmax."""
    keep: Keep
    """What the caller still refers to at backward."""
    divisor: float


class SectionRun(Generic[T]):
    """One loss section while it runs; the phases are methods, to be called in the order of STEP_PHASES."""

    def __init__(
        self, ops: Operators[T], plan: SectionPlan, heads: Heads[T], run_backward: Callable[[T], object]
    ) -> None:
        """`run_backward` takes the loss; gradients are found in `.grad` of hidden states and head afterwards."""
        self._ops = ops
        self._plan = plan
        self.heads: Any = heads
        self._run_backward = run_backward
        self._targets: T | None = None
        self._logits: T | None = None
        self.loss: T | None = None

    def phases(self) -> tuple[tuple[str, Callable[[], None]], ...]:
        """Every phase by name, in order."""
        steps = (
            self.targets,
            self.forward,
            self.backward,
            self.pass_gradient_on,
            self.release,
            self.clear_gradients,
        )
        return tuple(zip(STEP_PHASES, steps, strict=True))

    @property
    def kept(self) -> list[T]:
        """The logits and targets that the caller still refers to."""
        return [tensor for tensor in (self._logits, self._targets) if tensor is not None]

    def targets(self) -> None:
        """The teacher's logits in full, when a term that works on logits in full reads them."""
        if self._plan.targets_in_full:
            self._targets = targets_of(self._ops, self.heads.teacher_hidden, self.heads.teacher_weight)

    def forward(self) -> None:
        """Logits and loss; at the end the caller lets go of what it does not keep."""
        plan = self._plan
        if any(group.needs_logits for group in plan.groups):
            self._logits = logits_of(self._ops, self.heads.hidden, self.heads.weight)
        self.loss = section_loss(self._ops, plan.groups, self.heads, self._logits, self._targets, plan.divisor)
        if plan.keep in ("none", "targets"):
            self._logits = None
        if plan.keep in ("none", "logits"):
            self._targets = None

    def backward(self) -> None:
        """Through loss and head to the gradient of the hidden states, which stays alive."""
        assert self.loss is not None
        self._run_backward(self.loss)

    def pass_gradient_on(self) -> None:
        """The layers below have taken the gradient of the hidden states."""
        self.heads.hidden.grad = None

    def release(self) -> None:
        """The end of the backward pass: what the caller kept goes; the head's gradient stays."""
        self.loss = self._logits = self._targets = None

    def clear_gradients(self) -> None:
        """`zero_grad(set_to_none=True)` for the head."""
        self.heads.weight.grad = None
