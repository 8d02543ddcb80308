"""Methods that cannot run on a CPU, as rules: what a compiled loss or a row-wise kernel keeps and makes.

These programs allocate like the real thing but compute nothing; their prices are modelled, not exact.
fused_kernel: vllm-project/speculators' Triton losses keep logits and targets by reference and five fp32 scalars per
row; backward makes one gradient (8,192 x 151,936: 2.3 GiB beyond the inputs, one gradient).
compiled: the saved sets of torch.compile's min-cut partitioner are the inputs and row statistics; jsd keeps two
boolean masks. Backward makes one gradient; that of cross_entropy scatters into zeros of the log-probabilities' dtype
first (8,192 x 256,000 with an fp32 copy: 4,000 MiB after forward and 16,000 MiB in backward, Cut Cross-Entropy,
table 1). PyTorch 2.5 and newer can avoid that buffer; it is counted, so that the price is not too low.
"""

from __future__ import annotations

from membudget.programs.methods import Terms
from membudget.programs.operators import Operators, T
from membudget.programs.terms import TermSettings, plus

STATISTICS_PER_ROW = 5
"""fp32 scalars kept per token."""

COMPILED_JSD_MASKS = 2
"""Boolean tensors [tokens, vocab] that a compiled jsd keeps."""


def fused_kernel(
    ops: Operators[T],
    terms: Terms,
    logits: T,
    targets: T | None,
    labels: T | None,
    chunk: int,
    divisor: float,
    token_weights: T | None = None,
) -> T:
    """One kernel per term."""
    total: T | None = None
    for term in terms:
        with ops.scope(term.name), ops.modelled():
            loss = ops.scale(_kernel(ops, (term,), logits, targets, num_masks=0, scatter=None), term.weight / divisor)
        total = plus(ops, total, loss)
    assert total is not None
    return total


def compiled(
    ops: Operators[T],
    terms: Terms,
    logits: T,
    targets: T | None,
    labels: T | None,
    chunk: int,
    divisor: float,
    token_weights: T | None = None,
) -> T:
    """One graph for all terms."""
    num_masks = COMPILED_JSD_MASKS if any(term.name == "jsd" for term in terms) else 0
    with ops.scope("compiled loss"), ops.modelled():
        return _kernel(ops, terms, logits, targets, num_masks=num_masks, scatter=_scatter_dtype(ops, terms, logits))


def _scatter_dtype(ops: Operators[T], terms: Terms, logits: T) -> str | None:
    """Dtype of the zeros that the gradient of cross entropy is scattered into; None without that term."""
    for term in terms:
        if term.name == "cross_entropy":
            in_fp32 = term.upcast or term.autocast or term.softmax_dtype == "fp32"
            return "fp32" if in_fp32 else ops.dtype_of(logits)
    return None


def _kernel(ops: Operators[T], terms: Terms, logits: T, targets: T | None, *, num_masks: int, scatter: str | None) -> T:
    read = () if targets is None or not any(_reads_targets(term) for term in terms) else (targets,)
    num_read = len(read)
    shape = (ops.num_rows(logits), ops.num_columns(logits))

    def forward(logits: T, *read: T) -> tuple[T, tuple[T, ...]]:
        statistics = ops.empty("row statistics", logits, (shape[0], STATISTICS_PER_ROW), "fp32")
        masks = tuple(ops.empty("mask", logits, shape, "bool") for _ in range(num_masks))
        return ops.empty("loss", logits, (), "fp32"), (logits, *read, statistics, *masks)

    def backward(upstream: T, logits: T, *saved: T) -> tuple[T | None, ...]:
        zeros = None if scatter is None else ops.empty("scattered gradient", logits, shape, scatter)
        gradient = ops.empty_like(logits, "gradient of logits")
        del zeros
        return (gradient, *[None] * num_read)

    return ops.function(forward, backward, logits, *read)


def _reads_targets(term: TermSettings) -> bool:
    return term.name not in ("cross_entropy", "cap")
