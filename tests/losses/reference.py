"""The definitions of the terms in float64, token by token, and the problem they are applied to."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from membudget.losses import Head, Term, combine

IGNORED = -100


@dataclass(frozen=True)
class Problem:
    """Everything a loss is made of; masked, ignored and weightless tokens are among the tokens."""

    hidden: Tensor
    weight: Tensor
    teacher_hidden: Tensor
    teacher_weight: Tensor
    labels: Tensor
    mask: Tensor | None = None
    token_weights: Tensor | None = None
    divisor: float | None = None

    @classmethod
    def random(cls, tokens: int, vocab: int, hidden: int, seed: int = 0) -> Problem:
        generator = torch.Generator().manual_seed(seed)

        def matrix(rows: int) -> Tensor:
            return torch.randn(rows, hidden, generator=generator, dtype=torch.float64)

        labels = torch.randint(0, vocab, (tokens,), generator=generator)
        return cls(matrix(tokens), matrix(vocab), matrix(tokens), matrix(vocab), labels)

    def to(self, dtype: torch.dtype) -> Problem:
        """Rounded to another dtype: what a function of that dtype really sees."""
        rounded = {
            name: getattr(self, name).to(dtype) for name in ("hidden", "weight", "teacher_hidden", "teacher_weight")
        }
        return replace(self, **rounded)

    @property
    def valid(self) -> Tensor:
        kept = self.labels != IGNORED
        return kept if self.mask is None else kept & self.mask


@dataclass(frozen=True)
class Result:
    """A loss, and the gradients of hidden states and head."""

    loss: Tensor
    of_hidden: Tensor
    of_weight: Tensor


def token_loss(z: Tensor, t: Tensor, y: int, term: Term) -> Tensor:
    """One token's term, z and t its student's and teacher's logits in float64."""
    q, p = torch.softmax(z / term.temperature, 0), torch.softmax(t / term.temperature, 0)
    m = term.beta * p + (1 - term.beta) * q
    square = term.temperature**2
    match term.name:
        case "cross_entropy":
            return -q[y].log()
        case "kl":
            return square * (p * (p / q).log()).sum()
        case "reverse_kl":
            return square * (q * (q / p).log()).sum()
        case "jsd":
            return square * (term.beta * (p * (p / m).log()).sum() + (1 - term.beta) * (q * (q / m).log()).sum())
        case "tv":
            return (p - q).abs().sum() / 2
        case "kl_topk":
            top = p.argsort(descending=True)[: term.k]
            return square * (p[top] * (p[top] / q[top]).log()).sum()
    entropy = -(q * q.log()).sum()
    return entropy if int(z.argmax()) == y else 0 * entropy


def expected(problem: Problem, terms: list[Term], upstream: float = 1.0) -> Result:
    """The definition: over tokens that count, each times its weight, divided once."""
    hidden, weight = (x.double().detach().requires_grad_() for x in (problem.hidden, problem.weight))
    logits = hidden @ weight.t()
    targets = problem.teacher_hidden.double() @ problem.teacher_weight.double().t()
    total = 0 * logits.sum()
    for i in range(len(problem.labels)):
        if problem.valid[i]:
            factor = 1.0 if problem.token_weights is None else float(problem.token_weights[i])
            for term in terms:
                total = total + factor * term.weight * token_loss(logits[i], targets[i], int(problem.labels[i]), term)
    divisor = max(int(problem.valid.sum()), 1) if problem.divisor is None else problem.divisor
    loss = total / divisor
    torch.autograd.backward(upstream * loss)
    assert hidden.grad is not None
    assert weight.grad is not None
    return Result(loss.detach(), hidden.grad, weight.grad)


def computed(problem: Problem, terms: list[Term], method: str, chunk: int | None, upstream: float = 1.0) -> Result:
    """The same by the public function."""
    hidden, weight = (x.detach().clone().requires_grad_() for x in (problem.hidden, problem.weight))
    loss = combine(
        Head(hidden, weight),
        terms,
        targets=Head(problem.teacher_hidden, problem.teacher_weight),
        labels=problem.labels,
        method=method,
        chunk=chunk,
        mask=problem.mask,
        token_weights=problem.token_weights,
        divisor=problem.divisor,
    )
    torch.autograd.backward(upstream * loss)
    assert hidden.grad is not None
    assert weight.grad is not None
    return Result(loss.detach(), hidden.grad, weight.grad)
