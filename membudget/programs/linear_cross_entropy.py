"""What torch.nn.functional.linear_cross_entropy allocates when it chunks: hidden states and head in, a sum out.

Source: PyTorch 2.13.0, torch/nn/modules/linear_cross_entropy.py and linear_cross_entropy_options.py, called with
LinearCrossEntropyOptions() as it is, reduction "sum". The gradients are computed in forward, chunk by chunk;
backward scales them in place, but first makes zeros of both, for gradients of outputs that nobody reads. Later
versions choose larger chunks and make no zeros. What a CPU runs is compared with the allocator event for event;
in bf16 and fp16 a GPU takes other branches of the same file, which are read and traced, not run: modelled.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import Generic

from membudget.dtypes import ITEMSIZE
from membudget.programs.linear_cross_entropy_layout import Layout, chunk_size, layout_of, rows_of_chunks
from membudget.programs.operators import Operators, T
from membudget.timeline import Dim


def linear_cross_entropy(ops: Operators[T], hidden: T, weight: T, labels: T, *, train_weight: bool) -> T:
    """The loss, without a value: hidden [tokens, hidden], weight [vocab, hidden], labels [tokens]."""
    cuda = ops.on_cuda(hidden)
    layout = layout_of(ops.dtype_of(hidden), cuda=cuda)

    def forward(hidden: T, weight: T) -> tuple[T, tuple[T, ...]]:
        return _Forward(ops, layout, hidden, weight, train_weight).run(labels)

    def backward(upstream: T, gradient: T, *of_weight: T) -> tuple[T | None, ...]:
        zeros = [ops.zeros_like(each, "zeros for a gradient nobody reads") for each in (gradient, *of_weight)]
        scaled = ops.scale_(gradient, upstream)
        scaled_weight = ops.scale_(of_weight[0], upstream) if of_weight else None
        zeros.clear()
        return scaled, scaled_weight

    with ops.modelled() if cuda and layout.mixed else nullcontext():
        return ops.function(forward, backward, hidden, weight)


class _Forward(Generic[T]):
    """One call; what its frames refer to are attributes, so that an old tensor dies when the new one is there."""

    def __init__(self, ops: Operators[T], layout: Layout, hidden: T, weight: T, train_weight: bool) -> None:
        self.ops = ops
        self.layout = layout
        self.hidden = hidden
        self.train_weight = train_weight
        self.tokens, self.width = ops.num_rows(hidden), ops.num_columns(hidden)
        self.vocab = ops.num_rows(weight)
        self.chunk = chunk_size(self.tokens, self.vocab, self.width, halved=layout.halved)
        self.buffers: list[T] = []
        self.row_sums: T | None = None
        self.logits_copy: T | None = None
        self.scaled: T | None = None

    def run(self, labels: T) -> tuple[T, tuple[T, ...]]:
        """(loss, (gradient of hidden states, gradient of head weight if it is trained))"""
        layout = self.layout
        self._keep("chunk logits", layout.logits, self._rows(self.chunk), self.vocab)
        self._keep("row maxima", layout.logits, self._rows(self.chunk))
        loss = self._new("loss", layout.loss)
        gradient = self._new("gradient of hidden states", layout.gradient, self.tokens, self.width)
        of_weight = self._head_gradient()
        if layout.casts_head:
            self._keep("copy of head weight", layout.logits, self.vocab, self.width)
        self._weigh_tokens(labels)
        if layout.mixed and (self.train_weight or layout.casts_head):
            self._keep("copy of chunk", layout.accumulated, self._rows(self.chunk), self.width)
        for rows in rows_of_chunks(self.tokens, self.chunk):
            self._run_chunk(self._rows(rows))
        return self._in_dtype(loss), (self._in_dtype(gradient), *of_weight)

    def _head_gradient(self) -> tuple[T, ...]:
        if not self.train_weight:
            return ()
        gradient = self._new("gradient of head weight", self.layout.dtype, self.vocab, self.width)
        if self.layout.stages_head_gradient:
            self._keep("chunk gradient of head weight", self.layout.accumulated, self.vocab, self.width)
        return (gradient,)

    def _in_dtype(self, x: T) -> T:
        """x in the dtype of the hidden states; what it was before lives on to the end."""
        self.buffers.append(x)
        return self.ops.to(x, self.layout.dtype)

    def _new(self, name: str, dtype: str, *shape: int) -> T:
        return self.ops.empty(name, self.hidden, shape, dtype)

    def _keep(self, name: str, dtype: str, *shape: int) -> None:
        """A buffer that lives as long as the call."""
        self.buffers.append(self._new(name, dtype, *shape))

    def _rows(self, size: int) -> int:
        return self.tokens if size == self.tokens else Dim(size, "chunk")

    def _weigh_tokens(self, labels: T) -> None:
        """Ignored labels are replaced by 0, and every token gets a weight: -1, or 0 for an ignored one."""
        number = None if self.ops.on_cuda(labels) else self._new("number", "int64")
        self._keep("ignored tokens", "bool", self.tokens)
        del number
        zero = self._new("zero", "int64")
        self._keep("labels", "int64", self.tokens)
        del zero
        counted = self._new("counted tokens", "bool", self.tokens)
        self._keep("weights of tokens", self.layout.accumulated, self.tokens)
        del counted

    def _run_chunk(self, rows: int) -> None:
        layout = self.layout
        picked = self._new("logits of labels", layout.logits, rows)
        if layout.logits != layout.accumulated:
            picked = self._new("logits of labels", layout.accumulated, rows)
        part = self._new("part of the loss", layout.accumulated)
        del picked
        self._cast_in_place(layout.loss)
        del part
        self.row_sums = self._new("row sums", layout.accumulated, rows)
        part = self._new("part of the loss", layout.accumulated)
        self._cast_in_place(layout.loss)
        del part
        if layout.copies_logits:
            self.logits_copy = self._new("chunk gradient of logits", layout.dtype, rows, self.vocab)
        self._multiply_rows_of_head(rows)
        if self.train_weight and layout.stages_head_gradient:
            self._cast_in_place(layout.dtype, self.vocab, self.width)
        elif self.train_weight:
            self._scale_hidden(rows)

    def _cast_in_place(self, dtype: str, *shape: int) -> None:
        """Adding to a tensor of another dtype in place: a CPU casts it there and back, a GPU as it computes."""
        accumulated = self.layout.accumulated
        if dtype != accumulated and not self.ops.on_cuda(self.hidden):
            casts = [self._new(f"{accumulated} copy", accumulated, *shape) for _ in range(2)]
            casts.clear()

    def _multiply_rows_of_head(self, rows: int) -> None:
        """The label's part of the gradient of the hidden states."""
        layout = self.layout
        selected = self._new(
            "rows of head weight", layout.logits if layout.casts_head else layout.dtype, rows, self.width
        )
        casts = layout.gradient != layout.accumulated
        factors = self._new("weights of tokens", layout.gradient, rows) if casts else None
        del selected, factors

    def _scale_hidden(self, rows: int) -> None:
        """The label's part of the gradient of the head; computed inside the logits where a row of them is as long."""
        layout = self.layout
        if layout.mixed:
            fits = self.vocab * ITEMSIZE[layout.logits] >= self.width * ITEMSIZE[layout.dtype]
        else:
            fits = self.vocab >= self.width
        if not fits:
            self.scaled = self._new("scaled hidden states", layout.dtype, rows, self.width)
