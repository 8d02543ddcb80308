"""A loss section run on the sized engine: its timeline alone, and as a part of a step."""

from __future__ import annotations

from membudget.calculator.loss_request import LossRequest
from membudget.config.loss import TEACHER_TERMS
from membudget.programs.heads import Heads, logits_of, targets_of
from membudget.programs.section import section_loss
from membudget.programs.terms import LABEL_TERMS
from membudget.sized.namespace import SizedOps
from membudget.sized.tensor import Tensor
from membudget.timeline import Dim, Recorder, Timeline

STEP_PHASES = ("targets", "forward", "backward", "pass gradient on", "release", "clear gradients")
"""Phases of the section inside a step; alone, it ends with its backward."""


def run_section(request: LossRequest, *, head_gradient_exists: bool = False) -> Timeline:
    """Every phase of STEP_PHASES.

    `head_gradient_exists`: the head's gradient was zeroed, not freed, and is accounted for elsewhere.
    """
    recorder = Recorder(STEP_PHASES[0])
    run = _Run(recorder, request, head_gradient_exists)
    steps = (run.targets, run.forward, run.backward, run.pass_gradient_on, run.release, run.clear_gradients)
    for phase, step in zip(STEP_PHASES, steps, strict=True):
        recorder.phase(phase)
        step()
    return recorder.build()


class _Run:
    """The section while it runs: targets, then forward, then backward; all events go to one recorder."""

    def __init__(self, recorder: Recorder, request: LossRequest, head_gradient_exists: bool) -> None:
        self.request = request
        self.groups = request.groups
        self.ops = SizedOps(recorder)
        self.hidden = self._external("hidden states", request.tokens, request.hidden, requires_grad=True)
        self._heads = self._make_heads()
        if head_gradient_exists:
            self._heads.weight.grad = self._external("gradient of head weight", request.vocab, request.hidden)
        self._targets: Tensor | None = None
        self._logits: Tensor | None = None
        self._loss: Tensor | None = None

    def _external(self, name: str, rows: int, columns: int, *, requires_grad: bool = False) -> Tensor:
        named = rows if isinstance(rows, Dim) else Dim(rows, "vocab" if name.endswith("weight") else "tokens")
        shape = (named, Dim(columns, "hidden_size"))
        return self.ops.external(name, shape, self.request.logits_dtype, requires_grad=requires_grad)

    def _make_heads(self) -> Heads[Tensor]:
        request = self.request
        weight = self._external("head weight", request.vocab, request.hidden, requires_grad=request.train_head)
        teacher_hidden = teacher_weight = None
        if request.needs_teacher:
            teacher_hidden = self._external("teacher hidden states", request.tokens, request.hidden)
            teacher_weight = self._external("teacher head weight", request.vocab, request.hidden)
        labels = None
        if request.labels == "data":
            labels = self.ops.external("labels", (Dim(request.tokens, "tokens"),), "int64")
        return Heads(self.hidden, weight, teacher_hidden, teacher_weight, labels, request.train_head)

    def targets(self) -> None:
        """The teacher's logits in full, when a term that works on logits in full reads them."""
        reads = TEACHER_TERMS if self.request.labels == "data" else TEACHER_TERMS | LABEL_TERMS
        if any(group.needs_logits and any(t.name in reads for t in group.terms) for group in self.groups):
            heads = self._heads
            self._targets = targets_of(self.ops, heads.teacher_hidden, heads.teacher_weight)

    def forward(self) -> None:
        """Logits and loss; at the end the caller lets go of what it does not keep."""
        heads = self._heads
        if any(group.needs_logits for group in self.groups):
            self._logits = logits_of(self.ops, heads.hidden, heads.weight)
        self._loss = section_loss(self.ops, self.groups, heads, self._logits, self._targets, float(self.request.tokens))
        if self.request.keep in ("none", "targets"):
            self._logits = None
        if self.request.keep in ("none", "logits"):
            self._targets = None

    def backward(self) -> None:
        """Through loss and head to the gradient of the hidden states, which stays alive."""
        assert self._loss is not None
        self.ops.run_backward(self._loss)

    def pass_gradient_on(self) -> None:
        """The layers below have taken the gradient of the hidden states."""
        self.hidden.grad = None

    def release(self) -> None:
        """The end of the backward pass: what the caller kept goes; the head's gradient stays."""
        self._loss = self._logits = self._targets = None

    def clear_gradients(self) -> None:
        """`zero_grad(set_to_none=True)` for the head."""
        self._heads.weight.grad = None
