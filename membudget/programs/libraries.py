"""Methods that hand cross entropy, from hidden states on, to a library: there the real call, on sizes its allocations.

A library takes one term, cross_entropy, labels from the data, and chooses its chunks itself.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from membudget.programs import library_kernels
from membudget.programs.heads import Heads
from membudget.programs.linear_cross_entropy import linear_cross_entropy
from membudget.programs.methods import Terms
from membudget.programs.operators import Operators, T


def torch_linear_cross_entropy(ops: Operators[T], terms: Terms, heads: Heads[T], chunk: int, divisor: float) -> T:
    """PyTorch's own F.linear_cross_entropy, chunked, the gradients computed in forward."""
    return _by_library(ops, "torch_linear_cross_entropy", linear_cross_entropy, terms, heads, divisor)


def liger(ops: Operators[T], terms: Terms, heads: Heads[T], chunk: int, divisor: float) -> T:
    """Liger's fused linear cross entropy, chunked, the gradients computed in forward."""
    return _by_library(ops, "liger", library_kernels.liger, terms, heads, divisor)


def cut_cross_entropy(ops: Operators[T], terms: Terms, heads: Heads[T], chunk: int, divisor: float) -> T:
    """Cut Cross-Entropy: row statistics are kept, logits exist in registers alone."""
    return _by_library(ops, "cut_cross_entropy", library_kernels.cut_cross_entropy, terms, heads, divisor)


def _by_library(
    ops: Operators[T], name: str, priced: Callable[..., Any], terms: Terms, heads: Heads[T], divisor: float
) -> T:
    (term,) = terms
    assert term.name == "cross_entropy", f"{name} computes no {term.name}"
    assert heads.labels is not None, f"{name} takes labels from the data"
    assert heads.token_weights is None, f"{name} takes no token weights"
    program = partial(priced, train_weight=heads.train_weight)
    loss = ops.library(name, program, heads.hidden, heads.weight, heads.labels)
    with ops.scope(term.name):
        return ops.scale(loss, term.weight / divisor)
