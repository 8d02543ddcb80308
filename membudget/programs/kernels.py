"""Methods that cannot run on a CPU, as rules: what a compiled loss or a row-wise kernel keeps and makes.

These programs allocate like the real thing but compute nothing; their prices are modelled, not exact.
Sources: speculators' fused Triton losses (logits and targets by reference, 5 fp32 scalars per row, backward
makes one gradient); the saved sets of torch.compile's min-cut partitioner (inputs and row statistics; jsd keeps
boolean masks besides).
"""

from __future__ import annotations

from membudget.programs.methods import Terms
from membudget.programs.operators import Operators, T
from membudget.programs.terms import TermSettings

STATISTICS_PER_ROW = 5
"""fp32 scalars a row-wise kernel keeps per token (vllm-project/speculators, losses/fused.py)."""


def fused_kernel(
    ops: Operators[T], terms: Terms, logits: T, targets: T | None, labels: T | None, chunk: int, divisor: float
) -> T:
    """One kernel per term."""
    total: T | None = None
    for term in terms:
        with ops.scope(term.name), ops.modelled():
            loss = ops.scale(_kernel(ops, (term,), logits, targets), term.weight / divisor)
        total = loss if total is None else ops.add(total, loss)
    assert total is not None
    return total


def compiled(
    ops: Operators[T], terms: Terms, logits: T, targets: T | None, labels: T | None, chunk: int, divisor: float
) -> T:
    """One graph for all terms."""
    with ops.scope("compiled loss"), ops.modelled():
        return _kernel(ops, terms, logits, targets)


def _kernel(ops: Operators[T], terms: Terms, logits: T, targets: T | None) -> T:
    read = () if targets is None or not any(_reads_targets(term) for term in terms) else (targets,)
    num_read = len(read)
    num_masks = 1 if any(term.name == "jsd" for term in terms) else 0

    def forward(logits: T, *read: T) -> tuple[T, tuple[T, ...]]:
        statistics = ops.empty("row statistics", logits, (ops.num_rows(logits), STATISTICS_PER_ROW), "fp32")
        shape = (ops.num_rows(logits), ops.num_columns(logits))
        masks = tuple(ops.empty("mask", logits, shape, "bool") for _ in range(num_masks))
        return ops.empty("loss", logits, (), "fp32"), (logits, *read, statistics, *masks)

    def backward(upstream: T, logits: T, *saved: T) -> tuple[T | None, ...]:
        return (ops.empty_like(logits, "gradient of logits"), *[None] * num_read)

    return ops.function(forward, backward, logits, *read)


def _reads_targets(term: TermSettings) -> bool:
    return term.name not in ("cross_entropy", "cap")
