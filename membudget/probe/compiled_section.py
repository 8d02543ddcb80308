"""A section whose loss is compiled for real: the programs price `compiled` by a rule and cannot stand for it."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from membudget.calculator.loss_request import LossRequest
from membudget.errors import CannotMeasureError
from membudget.losses.compiled import compiled_loss
from membudget.losses.section import torch_heads
from membudget.losses.torch_ops import TorchOps
from membudget.programs.heads import Heads, logits_of
from membudget.programs.section import Group, section_loss
from membudget.programs.section_run import SectionRun
from membudget.programs.terms import plus


def compiled_section(request: LossRequest, device: str) -> SectionRun[Tensor]:
    """Like torch_section, with torch.compile itself where a term's method is `compiled`."""
    return _CompiledSection(TorchOps(), request.section_plan, torch_heads(request, device), Tensor.backward)


class _CompiledSection(SectionRun[Tensor]):
    """Logits and targets in full outside of the graphs, the compiled terms in them."""

    def forward(self) -> None:
        """Raises CannotMeasureError with the compiler's reason where it does not compile."""
        heads, plan = self.heads, self._plan
        if any(group.needs_logits for group in plan.groups):
            self._logits = logits_of(self._ops, heads.hidden, heads.weight)
        # As in section_loss: a divisor that is a tensor divides the sum of all groups.
        divisor = plan.divisor if heads.divisor is None else 1.0
        undivided = replace(heads, divisor=None)
        total: Tensor | None = None
        for group in plan.groups:
            total = plus(self._ops, total, self._group_loss(group, undivided, divisor))
        assert total is not None
        self.loss = total if heads.divisor is None else self._ops.divide_by(total, heads.divisor)
        if plan.keep in ("none", "targets"):
            self._logits = None
        if plan.keep in ("none", "logits"):
            self._targets = None

    def _group_loss(self, group: Group, heads: Heads[Tensor], divisor: float) -> Tensor:
        if group.method != "compiled":
            return section_loss(self._ops, (group,), heads, self._logits, self._targets, divisor)
        assert self._logits is not None
        try:
            return compiled_loss(group.terms, self._logits, self._targets, heads.labels, heads.token_weights, divisor)
        except torch.cuda.OutOfMemoryError:
            raise
        except RuntimeError as error:
            # The compiler's own exceptions are RuntimeErrors, some with pages of text.
            first = str(error).strip().split("\n", 1)[0]
            raise CannotMeasureError(f"torch.compile cannot compile it here: {first[:300]}") from error
