"""Losses as people write them in plain PyTorch, each a function of logits and targets [tokens, vocab]."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor
from torch.utils.checkpoint import checkpoint

Loss = Callable[[Tensor, Tensor], Tensor]
LOSSES: dict[str, Loss] = {}


def plain(function: Loss) -> Loss:
    LOSSES[function.__name__] = function
    return function


def labels_of(targets: Tensor) -> Tensor:
    return targets.argmax(-1)


@plain
def cross_entropy_with_smoothing(logits: Tensor, targets: Tensor) -> Tensor:
    return F.cross_entropy(logits, labels_of(targets), label_smoothing=0.1)


@plain
def cross_entropy_on_probabilities(logits: Tensor, targets: Tensor) -> Tensor:
    return F.cross_entropy(logits, targets.softmax(-1))


@plain
def cross_entropy_by_hand(logits: Tensor, targets: Tensor) -> Tensor:
    picked = logits.gather(-1, labels_of(targets).unsqueeze(-1)).squeeze(-1)
    return (logits.logsumexp(-1) - picked).mean()


@plain
def cross_entropy_upcast_with_z_loss(logits: Tensor, targets: Tensor) -> Tensor:
    wide = logits.float()
    z = torch.logsumexp(wide, -1)
    return F.cross_entropy(wide, labels_of(targets)) + 1e-4 * (z * z).mean()


@plain
def capped_cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    capped = 30.0 * torch.tanh(logits / 30.0)
    return F.cross_entropy(capped.float(), labels_of(targets))


@plain
def masked_cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    rows = F.cross_entropy(logits, labels_of(targets), reduction="none")
    mask = (targets[:, 0] > 0).to(rows.dtype)
    return (rows * mask).sum() / mask.sum().clamp(min=1)


@plain
def kl_with_log_targets(logits: Tensor, targets: Tensor) -> Tensor:
    log_p, log_q = F.log_softmax(targets, -1), F.log_softmax(logits, -1)
    return F.kl_div(log_q, log_p, reduction="batchmean", log_target=True)


@plain
def kl_by_hand_with_temperature(logits: Tensor, targets: Tensor) -> Tensor:
    p = (targets / 2.0).softmax(-1)
    return -(p * (logits / 2.0).log_softmax(-1)).sum(-1).mean() * 4.0


@plain
def kl_of_masked_targets(logits: Tensor, targets: Tensor) -> Tensor:
    infinite = torch.isinf(logits)
    product = torch.masked_fill(targets.softmax(-1) * logits.log_softmax(-1), infinite, 0)
    return -product.sum(-1).mean()


@plain
def generalised_jsd(logits: Tensor, targets: Tensor) -> Tensor:
    log_q, log_p = F.log_softmax(logits, -1), F.log_softmax(targets, -1)
    mixed = torch.logsumexp(torch.stack([log_q - 0.7, log_p - 0.7]), dim=0)
    left = F.kl_div(mixed, log_p, reduction="none", log_target=True)
    right = F.kl_div(mixed, log_q, reduction="none", log_target=True)
    return (0.5 * left + 0.5 * right).sum(-1).mean()


@plain
def total_variation(logits: Tensor, targets: Tensor) -> Tensor:
    return 0.5 * (logits.softmax(-1) - targets.softmax(-1)).abs().sum(-1).mean()


@plain
def overlap(logits: Tensor, targets: Tensor) -> Tensor:
    return 1 - torch.minimum(logits.softmax(-1), targets.softmax(-1)).sum(-1).mean()


@plain
def entropy_bonus(logits: Tensor, targets: Tensor) -> Tensor:
    p = logits.softmax(-1)
    entropy = logits.logsumexp(-1) - (p * logits).sum(-1)
    return F.cross_entropy(logits, labels_of(targets)) - 0.01 * entropy.mean()


@plain
def focal(logits: Tensor, targets: Tensor) -> Tensor:
    log_q = F.log_softmax(logits, -1)
    picked = log_q.gather(-1, labels_of(targets).unsqueeze(-1))
    return -((1 - picked.exp()) ** 2 * picked).mean()


@plain
def mean_squared(logits: Tensor, targets: Tensor) -> Tensor:
    return F.mse_loss(logits, targets)


@plain
def smooth_l1(logits: Tensor, targets: Tensor) -> Tensor:
    return F.smooth_l1_loss(logits, targets, reduction="sum")


@plain
def huber_rows(logits: Tensor, targets: Tensor) -> Tensor:
    return F.huber_loss(logits, targets, reduction="none").mean(-1).sum()


@plain
def binary(logits: Tensor, targets: Tensor) -> Tensor:
    return F.binary_cross_entropy_with_logits(logits, targets.sigmoid())


@plain
def ranking(logits: Tensor, targets: Tensor) -> Tensor:
    best = logits.topk(4, -1).values
    return F.relu(1 - (best[:, :1] - best[:, 1:])).mean()


@plain
def cosine(logits: Tensor, targets: Tensor) -> Tensor:
    return 1 - F.cosine_similarity(logits, targets, dim=-1).mean()


@plain
def standardised(logits: Tensor, targets: Tensor) -> Tensor:
    x = (logits - logits.mean(-1, keepdim=True)) / (logits.std(-1, keepdim=True) + 1e-5)
    return F.kl_div(x.log_softmax(-1), targets.softmax(-1), reduction="sum")


@plain
def in_place(logits: Tensor, targets: Tensor) -> Tensor:
    shifted = logits - logits.amax(-1, keepdim=True).detach()
    shifted.div_(2.0)
    return F.cross_entropy(shifted, labels_of(targets))


@plain
def selected_rows(logits: Tensor, targets: Tensor) -> Tensor:
    index = torch.arange(0, logits.shape[0], 2, device=logits.device)
    x, t = logits.index_select(0, index), targets[index]
    return F.kl_div(x.log_softmax(-1), t.softmax(-1), reduction="sum")


@plain
def where_mask(logits: Tensor, targets: Tensor) -> Tensor:
    kept = torch.where(targets > 0, logits, torch.zeros_like(logits))
    return kept.log_softmax(-1).square().mean()


@plain
def filled_mask(logits: Tensor, targets: Tensor) -> Tensor:
    return F.cross_entropy(logits.masked_fill(targets < -3, -100.0), labels_of(targets))


@plain
def shifted_tokens(logits: Tensor, targets: Tensor) -> Tensor:
    return F.cross_entropy(logits[:-1].contiguous(), labels_of(targets)[1:])


@plain
def top_half(logits: Tensor, targets: Tensor) -> Tensor:
    half = logits.shape[-1] // 2
    return F.kl_div(logits[:, :half].log_softmax(-1), targets[:, :half].softmax(-1), reduction="sum")


@plain
def logits_used_twice(logits: Tensor, targets: Tensor) -> Tensor:
    first = F.cross_entropy(logits, labels_of(targets))
    second = F.kl_div(logits.log_softmax(-1), targets.softmax(-1), reduction="batchmean")
    return 0.9 * first + 0.1 * second


@plain
def chunks_by_split(logits: Tensor, targets: Tensor) -> Tensor:
    pieces = zip(torch.split(logits, 5), torch.split(targets, 5), strict=True)
    return torch.stack([F.cross_entropy(x, labels_of(t), reduction="sum") for x, t in pieces]).sum()


@plain
def chunks_by_chunk(logits: Tensor, targets: Tensor) -> Tensor:
    total = torch.zeros((), device=logits.device)
    for x, t in zip(logits.chunk(3), targets.chunk(3), strict=True):
        total = total + F.kl_div(x.log_softmax(-1), t.softmax(-1), reduction="sum")
    return total


@plain
def checkpointed_rows(logits: Tensor, targets: Tensor) -> Tensor:
    def rows(x: Tensor, t: Tensor) -> Tensor:
        return (x.softmax(-1) - t.softmax(-1)).square().sum(-1)

    return torch.cat(
        [checkpoint(rows, logits[i : i + 6], targets[i : i + 6], use_reentrant=False) for i in (0, 6)]
    ).mean()


@plain
def viewed(logits: Tensor, targets: Tensor) -> Tensor:
    x = logits.view(2, -1, logits.shape[-1]).transpose(0, 1)
    return x.log_softmax(-1).mean(0).pow(2).sum()


@plain
def unbound(logits: Tensor, targets: Tensor) -> Tensor:
    rows = [F.log_softmax(row, -1).sum() for row in logits.unbind()[:3]]
    return torch.stack(rows).sum()


@plain
def accumulated_in_place(logits: Tensor, targets: Tensor) -> Tensor:
    total = torch.zeros((), device=logits.device)
    for start in range(0, 12, 4):
        total += F.cross_entropy(logits[start : start + 4], labels_of(targets[start : start + 4]))
    return total


@plain
def cumulative(logits: Tensor, targets: Tensor) -> Tensor:
    return (logits.softmax(-1).cumsum(-1) - targets.softmax(-1).cumsum(-1)).square().mean()


@plain
def clamped(logits: Tensor, targets: Tensor) -> Tensor:
    return (logits.softmax(-1).clamp(1e-6, 1).log() * targets.softmax(-1)).sum().neg()


@plain
def activations(logits: Tensor, targets: Tensor) -> Tensor:
    return (F.silu(logits) * F.gelu(targets) + F.softplus(logits) - F.logsigmoid(logits)).mean()


@plain
def outer_product(logits: Tensor, targets: Tensor) -> Tensor:
    return (logits @ targets.t()).log_softmax(-1).diagonal().mean().neg()


@plain
def einsum(logits: Tensor, targets: Tensor) -> Tensor:
    return torch.einsum("tv,tv->t", logits.softmax(-1), targets).mean()


@plain
def written_rows(logits: Tensor, targets: Tensor) -> Tensor:
    out = torch.zeros_like(logits)
    out[2:6] = logits[2:6].softmax(-1)
    return (out * targets).sum()


@plain
def scattered(logits: Tensor, targets: Tensor) -> Tensor:
    one_hot = torch.zeros_like(targets).scatter_(-1, labels_of(targets).unsqueeze(-1), 1.0)
    return -(one_hot * logits.log_softmax(-1)).sum(-1).mean()
