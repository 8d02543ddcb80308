"""The operator namespace that programs run on when they run on sizes."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from membudget.sized import backward, casts, elementwise, indexing, reductions
from membudget.sized import checkpoint as checkpoints
from membudget.sized import function as functions
from membudget.sized.session import Session
from membudget.sized.tensor import Tensor


class SizedOps(Session):
    """A session whose methods are the rules; membudget.programs.operators.Operators describes them."""

    matmul = indexing.matmul
    t = indexing.t
    split = indexing.split
    slice_rows = indexing.slice_rows
    gather = indexing.gather
    copy_rows = indexing.copy_rows
    add_product_ = indexing.add_product_
    to_host = indexing.to_host

    to = casts.to
    mul = elementwise.mul
    scale = elementwise.scale
    divide = elementwise.divide
    divide_by = elementwise.divide_by
    add = elementwise.add
    add_number = elementwise.add_number
    sub = elementwise.sub
    neg = elementwise.neg
    exp = elementwise.exp
    tanh = elementwise.tanh
    equal = elementwise.equal
    is_zero = elementwise.is_zero
    fill_with_zero = elementwise.fill_with_zero
    fill_rows_with_zero_ = elementwise.fill_rows_with_zero_
    minimum = elementwise.minimum
    logaddexp = elementwise.logaddexp
    scale_ = elementwise.scale_
    add_ = elementwise.add_

    sum_all = reductions.sum_all
    sum_rows = reductions.sum_rows
    log_softmax = reductions.log_softmax
    softmax = reductions.softmax
    cross_entropy = reductions.cross_entropy
    nll_loss = reductions.nll_loss
    kl_div = reductions.kl_div
    cross_entropy_rows = reductions.cross_entropy_rows
    nll_loss_rows = reductions.nll_loss_rows
    kl_div_rows = reductions.kl_div_rows
    logsumexp = reductions.logsumexp
    argmax = reductions.argmax
    topk = reductions.topk

    checkpoint = checkpoints.checkpoint
    function = functions.function
    leaf = functions.leaf
    gradients_of = backward.gradients_of
    run_backward = backward.run_backward

    def detach(self, x: Tensor) -> Tensor:
        """The same bytes without a graph."""
        return self.alias(x)

    def no_grad(self) -> AbstractContextManager[None]:
        return self.grad_mode(False)

    def enable_grad(self) -> AbstractContextManager[None]:
        return self.grad_mode(True)

    def num_rows(self, x: Tensor) -> int:
        return x.shape[0]

    def num_columns(self, x: Tensor) -> int:
        return x.shape[-1]

    def dtype_of(self, x: Tensor) -> str:
        return x.dtype

    def on_cuda(self, x: Tensor) -> bool:
        return self.device == "cuda" and not x.on_host

    def library(
        self, name: str, priced: Callable[..., Tensor], hidden: Tensor, weight: Tensor, labels: Tensor
    ) -> Tensor:
        """A loss of a library has no values here: what it allocates is a program of its own."""
        return priced(self, hidden, weight, labels)

    def to_device(self, x: Tensor, like: Tensor) -> Tensor:
        """x where `like` lives."""
        return indexing.to_device(self, x)

    def empty(self, name: str, like: Tensor, shape: tuple[int, ...], dtype: str) -> Tensor:
        """Uninitialised memory where `like` lives."""
        return self.new(name, shape, dtype, like=like)

    def empty_like(self, x: Tensor, name: str) -> Tensor:
        return self.new(name, x.shape, x.dtype, like=x)

    def zeros_like(self, x: Tensor, name: str) -> Tensor:
        return self.new(name, x.shape, x.dtype, like=x)
