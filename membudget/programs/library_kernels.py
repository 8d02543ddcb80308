"""What Liger and Cut Cross-Entropy allocate: hidden states and head in, a sum in fp32 out. No run confirms it here.

liger: liger-kernel 0.8.5, liger_kernel/ops/fused_linear_cross_entropy.py, its Triton kernels on a GPU of compute
capability 8.0 or newer, no bias, reduction "sum", gradients added up in the dtype of the head (accum_dtype None).
Gradients are computed in forward; the logits of each chunk live in one buffer, which the kernel overwrites with
their gradient. Versions before 0.8 made new logits for each chunk and products of the size of the head.
cut_cross_entropy: cut-cross-entropy 25.1.1, cce.py, cce_lse_forward.py, indexed_dot.py, cce_backward.py, without
autotuning. Row statistics are kept, and the logits are computed again in backward, block by block, in registers.
"""

from __future__ import annotations

from membudget.programs.linear_cross_entropy_layout import rows_of_chunks
from membudget.programs.operators import Operators, T
from membudget.timeline import Dim

CHUNK_BUDGET = 1
"""Liger's chunk_mem_const: logits of a chunk, in multiples of the elements of all hidden states."""

LOCK_ROWS = 128
"""Rows of tokens that share a lock in Cut Cross-Entropy's forward pass."""

LOCK_COLUMNS = 64
"""Columns of hidden states that share one in its backward pass."""


def liger_chunk(tokens: int, vocab: int, hidden: int, budget: int = CHUNK_BUDGET) -> int:
    """Tokens per chunk."""
    target = -(-tokens // -(-vocab // (budget * hidden)))
    return min(1 << (target - 1).bit_length(), tokens)


def liger(ops: Operators[T], hidden: T, weight: T, labels: T, *, train_weight: bool, budget: int = CHUNK_BUDGET) -> T:
    """Hidden [tokens, hidden], weight [vocab, hidden], labels [tokens]."""
    tokens, vocab, dtype = ops.num_rows(hidden), ops.num_rows(weight), ops.dtype_of(hidden)
    chunk = liger_chunk(tokens, vocab, ops.num_columns(hidden), budget)

    def forward(hidden: T, weight: T) -> tuple[T, tuple[T, ...]]:
        gradient = ops.zeros_like(hidden, "gradient of hidden states")
        of_weight = (ops.zeros_like(weight, "gradient of head weight"),) if train_weight else ()
        losses = ops.empty("losses of tokens", hidden, (tokens,), "fp32")
        counted = ops.empty("counted tokens", hidden, (tokens,), "bool")
        ops.empty("number of counted tokens", hidden, (), "int64")
        rows = tokens if chunk == tokens else Dim(chunk, "chunk")
        logits = ops.empty("chunk logits", hidden, (rows, vocab), dtype)
        if train_weight and dtype == "fp32":
            # Half precision accumulates inside the product; fp32 makes it and adds it.
            for _ in rows_of_chunks(tokens, chunk):
                ops.zeros_like(weight, "chunk gradient of head weight")
        del logits
        loss = ops.empty("loss", hidden, (), "fp32")
        del losses, counted
        return loss, (gradient, *of_weight)

    def backward(upstream: T, gradient: T, *of_weight: T) -> tuple[T | None, ...]:
        """Scaled in place, unless the upstream gradient is one."""
        one = ops.empty("one", upstream, (), "fp32")
        del one
        return gradient, of_weight[0] if of_weight else None

    with ops.modelled():
        return ops.function(forward, backward, hidden, weight)


def cut_cross_entropy(ops: Operators[T], hidden: T, weight: T, labels: T, *, train_weight: bool) -> T:
    """Hidden [tokens, hidden] in bf16 or fp16, weight [vocab, hidden], labels [tokens].

    The list of tokens that are not ignored is counted; the library keeps it only if some are.
    """
    tokens, vocab, width = ops.num_rows(hidden), ops.num_rows(weight), ops.num_columns(hidden)

    def forward(hidden: T, weight: T) -> tuple[T, tuple[T, ...]]:
        valid = _valid_tokens(ops, hidden)
        row_sums = ops.empty("row statistics", hidden, (tokens,), "fp32")
        locks = ops.empty("locks", hidden, (-(-tokens // LOCK_ROWS),), "int32")
        averages = ops.empty("average logits", hidden, (vocab,), "fp32")
        del locks
        losses = ops.empty("losses of tokens", hidden, (tokens,), "fp32")
        loss = ops.empty("loss", hidden, (), "fp32")
        del losses
        return loss, (hidden, weight, row_sums, valid, averages)

    def backward(upstream: T, hidden: T, weight: T, row_sums: T, valid: T, averages: T) -> tuple[T | None, ...]:
        ordering = _order_of_vocab(ops, hidden, vocab)
        gradient = ops.zeros_like(hidden, "gradient of hidden states")
        of_weight = ops.zeros_like(weight, "gradient of head weight") if train_weight else None
        columns = -(-width // LOCK_COLUMNS)
        locks = [ops.empty("locks", hidden, (-(-rows // columns), columns), "int32") for rows in (tokens, vocab)]
        del ordering
        locks.clear()
        return gradient, of_weight

    with ops.modelled():
        return ops.function(forward, backward, hidden, weight)


def _valid_tokens(ops: Operators[T], hidden: T) -> T:
    """The tokens whose labels are not ignored: a mask, their int64 numbers, and those in 32 bits."""
    tokens = ops.num_rows(hidden)
    mask = ops.empty("counted tokens", hidden, (tokens,), "bool")
    numbers = ops.empty("numbers of counted tokens", hidden, (tokens,), "int64")
    del mask
    valid = ops.empty("list of counted tokens", hidden, (tokens,), "int32")
    del numbers
    return valid


def _order_of_vocab(ops: Operators[T], hidden: T, vocab: int) -> T:
    """Vocabulary entries sorted by average logit: values and int64 numbers, then 32 bits of those."""
    values = ops.empty("sorted averages", hidden, (vocab,), "fp32")
    numbers = ops.empty("order of the vocabulary", hidden, (vocab,), "int64")
    del values
    ordering = ops.empty("order of the vocabulary", hidden, (vocab,), "int32")
    del numbers
    return ordering
