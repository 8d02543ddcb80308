"""A user's loss that believes that summing over chunks saves memory."""

import torch
import torch.nn.functional as F  # noqa: N812


def loss(logits: torch.Tensor, targets: torch.Tensor, chunk: int = 64) -> torch.Tensor:
    total = logits.new_zeros((), dtype=torch.float32)
    for start in range(0, logits.shape[0], chunk):
        rows = slice(start, start + chunk)
        log_q = F.log_softmax(logits[rows].float(), -1)
        p = F.softmax(targets[rows].float(), -1)
        total = total + F.kl_div(log_q, p, reduction="sum")
    return total / logits.shape[0]
