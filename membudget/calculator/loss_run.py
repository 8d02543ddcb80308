"""A loss section run on the sized engine: its timeline alone, and as a part of a step."""

from __future__ import annotations

from membudget.calculator.loss_request import LossRequest
from membudget.programs.heads import Heads
from membudget.programs.section_run import STEP_PHASES, SectionRun
from membudget.sized.namespace import SizedOps
from membudget.sized.session import Device
from membudget.sized.tensor import Tensor
from membudget.timeline import Dim, Recorder, Timeline


def run_section(request: LossRequest, *, head_gradient_exists: bool = False, device: Device = "cuda") -> Timeline:
    """Every phase of STEP_PHASES, in the allocator's blocks of the device (the CPU's are not rounded).

    `head_gradient_exists`: the head's gradient was zeroed, not freed, and is accounted for elsewhere.
    """
    recorder = Recorder(STEP_PHASES[0])
    ops = SizedOps(recorder, device)
    heads = _Heads(ops, request).build()
    if head_gradient_exists:
        heads.weight.grad = _Heads(ops, request).external("gradient of head weight", request.vocab)
    section = SectionRun(ops, request.section_plan, heads, ops.run_backward)
    for phase, step in section.phases():
        recorder.phase(phase)
        step()
    return recorder.build()


class _Heads:
    """The tensors a section starts from; somebody else accounts for them."""

    def __init__(self, ops: SizedOps, request: LossRequest) -> None:
        self._ops = ops
        self._request = request

    def external(self, name: str, rows: int, *, requires_grad: bool = False) -> Tensor:
        named = rows if isinstance(rows, Dim) else Dim(rows, "vocab" if name.endswith("weight") else "tokens")
        shape = (named, Dim(self._request.hidden, "hidden_size"))
        return self._ops.external(name, shape, self._request.logits_dtype, requires_grad=requires_grad)

    def build(self) -> Heads[Tensor]:
        request = self._request
        hidden = self.external("hidden states", request.tokens, requires_grad=True)
        weight = self.external("head weight", request.vocab, requires_grad=request.train_head)
        teacher_hidden = teacher_weight = None
        if request.needs_teacher:
            teacher_hidden = self.external("teacher hidden states", request.tokens)
            teacher_weight = self.external("teacher head weight", request.vocab)
        labels = None
        if request.labels == "data":
            labels = self._ops.external("labels", (Dim(request.tokens, "tokens"),), "int64")
        token_weights = divisor = None
        if request.token_weights:
            token_weights = self._ops.external("token weights", (Dim(request.tokens, "tokens"),), "fp32")
            divisor = self._ops.external("divisor", (), "fp32")
        return Heads(hidden, weight, teacher_hidden, teacher_weight, labels, request.train_head, token_weights, divisor)
