"""A priced loss section as the real thing: torch tensors of its sizes, ready to run."""

from __future__ import annotations

import torch
from torch import Tensor

from membudget.calculator.loss_request import LossRequest
from membudget.losses.torch_ops import DTYPES, TorchOps
from membudget.programs.heads import Heads
from membudget.programs.section_run import SectionRun


def torch_section(request: LossRequest, device: str = "cpu") -> SectionRun[Tensor]:
    """The section over random hidden states and heads on `device`; backward is plain `loss.backward()`."""
    return SectionRun(TorchOps(), request.section_plan, torch_heads(request, device), Tensor.backward)


def torch_heads(request: LossRequest, device: str = "cpu") -> Heads[Tensor]:
    """hidden [tokens, hidden], weight [vocab, hidden], the teacher's where one is needed, labels from the data.

    Token weights, where they are asked for: the first token counts nothing, the others once.
    """
    dtype = DTYPES[request.logits_dtype]

    def matrix(rows: int) -> Tensor:
        return torch.randn(rows, request.hidden, dtype=dtype, device=device)

    hidden = matrix(request.tokens).requires_grad_()
    weight = matrix(request.vocab).requires_grad_(request.train_head)
    teacher_hidden = matrix(request.tokens) if request.needs_teacher else None
    teacher_weight = matrix(request.vocab) if request.needs_teacher else None
    labels = None
    if request.labels == "data":
        labels = torch.randint(0, request.vocab, (request.tokens,), device=device)
    token_weights = divisor = None
    if request.token_weights:
        token_weights = torch.ones(request.tokens, device=device)
        token_weights[0] = 0
        divisor = torch.full((), float(max(request.tokens - 1, 1)), device=device)
    return Heads(hidden, weight, teacher_hidden, teacher_weight, labels, request.train_head, token_weights, divisor)
