"""How far kl_topk is from the KL divergence it stands for."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from membudget.losses.inputs import Head, Logits, rows_of
from membudget.losses.single import How, kl, kl_topk


@dataclass(frozen=True)
class KlTopKError:
    """Means over the tokens that count, on the device, without a graph."""

    kl: Tensor
    kl_topk: Tensor
    covered: Tensor
    """The share of the teacher's probability that its k most likely tokens have, 0 to 1."""

    @property
    def absolute(self) -> Tensor:
        """kl_topk - kl; negative when the tokens left out would have added to the loss."""
        return self.kl_topk - self.kl

    @property
    def relative(self) -> Tensor:
        """|kl_topk - kl| / kl; NaN or infinite where teacher and student agree."""
        return self.absolute.abs() / self.kl

    def __str__(self) -> str:
        """One line, for a log; waits for the device."""
        return (
            f"kl_topk {float(self.kl_topk):.6g}, kl {float(self.kl):.6g}: off by {float(self.absolute):+.3g} "
            f"({float(self.relative):.2%}), with {float(self.covered):.2%} of the teacher's probability covered"
        )


@torch.no_grad()
def kl_topk_error(
    logits: Logits,
    targets: Logits,
    k: int,
    *,
    chunk: int = 1024,
    temperature: float = 1.0,
    mask: Tensor | None = None,
) -> KlTopKError:
    """kl_topk beside full KL, softmaxes in fp32, over chunks of tokens.

    logits and targets as for `kl_topk`. Beyond them no more is alive than a few fp32 tensors [chunk, vocab]; from
    Heads, logits are made chunk by chunk. ValueErrors are those of `kl_topk`.
    """
    method = "fused_head" if isinstance(logits, Head) else "chunked"
    how: How = {"method": method, "chunk": chunk, "mask": mask}
    full = kl(logits, targets, temperature=temperature, softmax_dtype="fp32", **how)
    top = kl_topk(logits, targets, k=k, temperature=temperature, softmax_dtype="fp32", **how)
    return KlTopKError(full, top, _covered(targets, k, chunk, temperature, mask))


def _covered(targets: Logits, k: int, chunk: int, temperature: float, mask: Tensor | None) -> Tensor:
    teacher = rows_of("targets", targets)
    kept = None if mask is None else mask.reshape(-1)
    total = torch.zeros((), device=teacher.source.device)
    for start in range(0, teacher.num_tokens, chunk):
        rows = teacher.source[start : start + chunk]
        mass = _mass(rows if teacher.weight is None else rows @ teacher.weight.t(), k, temperature)
        total += (mass if kept is None else mass.masked_fill(~kept[start : start + chunk], 0)).sum()
    count = float(teacher.num_tokens) if kept is None else kept.sum()
    return total / torch.as_tensor(count, dtype=total.dtype, device=total.device).clamp(min=1)


def _mass(targets: Tensor, k: int, temperature: float) -> Tensor:
    """[tokens] fp32: the probability of the k most likely tokens."""
    scaled = targets.float() / temperature
    values = scaled.topk(min(k, scaled.shape[-1]), -1).values
    return (values - scaled.logsumexp(-1, keepdim=True)).exp().sum(-1)
