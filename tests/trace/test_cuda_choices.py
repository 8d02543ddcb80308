"""What CUDA runs differently is run as CUDA would: which tensors there are, by names and bytes."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from membudget.errors import UsageError
from membudget.trace.arguments import Sizes
from membudget.trace.function import trace_function
from membudget.trace.tracing import DEVICE, faking, observed, observing

HEADS, LENGTH, WIDTH = 2, 64, 16


def births(program: object, *shapes: tuple[int, ...], dtype: torch.dtype = torch.bfloat16) -> list[tuple[str, int]]:
    """(name, bytes as requested) of what a program allocates from leaves of the shapes."""
    assert callable(program)
    with faking():
        leaves = [torch.empty(shape, dtype=dtype, device=DEVICE).requires_grad_() for shape in shapes]
        with observing({}) as observer:
            program(*leaves)
            timeline, _ = observed(observer, lambda nbytes: nbytes, [])
    return [(each.name, each.nbytes) for each in timeline.allocations]


QKV = [(1, HEADS, LENGTH, WIDTH)] * 3
ONE = HEADS * LENGTH * WIDTH
SCORES = HEADS * LENGTH * LENGTH


def test_attention_in_half_precision_is_flash() -> None:
    """The output and one fp32 number per row and head; nothing of length x length."""
    sizes = [nbytes for _, nbytes in births(lambda q, k, v: F.scaled_dot_product_attention(q, k, v), *QKV)]
    assert sizes[:2] == [ONE * 2, HEADS * LENGTH * 4]
    assert SCORES * 2 not in sizes


def test_attention_with_a_mask_is_memory_efficient() -> None:
    def program(q: Tensor, k: Tensor, v: Tensor) -> None:
        mask = torch.ones(LENGTH, LENGTH, dtype=torch.bool, device=q.device)
        F.scaled_dot_product_attention(q, k, v, attn_mask=mask)

    found = births(program, *QKV)
    assert (found[1][1], found[2]) == (LENGTH * LENGTH * 2, ("scaled_dot_product_efficient_attention", ONE * 2))


def test_attention_in_fp64_is_math() -> None:
    sizes = [n for _, n in births(F.scaled_dot_product_attention, *QKV, dtype=torch.float64)]
    assert SCORES * 8 in sizes


def test_dropout_keeps_a_mask_of_one_byte() -> None:
    found = births(lambda x: nn.Dropout(0.1)(x), (30, 40))
    assert found == [("native_dropout", 30 * 40 * 2), ("native_dropout", 30 * 40)]
    assert births(lambda x: F.dropout(x, 0.1, training=False).exp(), (30, 40)) == [("exp", 30 * 40 * 2)]


def test_rms_norm_keeps_one_number_per_row() -> None:
    def program(x: Tensor, weight: Tensor) -> None:
        torch.autograd.backward(F.rms_norm(x, (40,), weight).sum())

    sizes = [nbytes for _, nbytes in births(program, (30, 40), (40,))]
    assert sizes[:2] == [30 * 40 * 2, 30 * 4]
    assert sizes.count(40 * 2) == 1


@pytest.mark.parametrize(("dtype", "copies"), [(torch.float16, 0), (torch.bfloat16, 1)])
def test_only_fp16_is_cast_inside_softmax(dtype: torch.dtype, copies: int) -> None:
    for function in (F.softmax, F.log_softmax, torch.softmax, torch.log_softmax):
        names = [name for name, _ in births(lambda x, f=function: f(x, -1, dtype=torch.float32), (4, 9), dtype=dtype)]
        assert names.count("copy to fp32") == copies


def test_optimizers_work_on_lists() -> None:
    """AdamW's square roots of all parameters are alive at once."""

    def program(*weights: Tensor) -> None:
        for weight in weights:
            weight.grad = torch.zeros_like(weight)
        torch.optim.AdamW(weights).step()

    roots = [nbytes for name, nbytes in births(program, *[(10, 10)] * 4) if name == "foreach_sqrt"]
    assert roots == [200] * 4


def test_names_of_cuda_devices_are_understood() -> None:
    def loss(logits: Tensor, targets: Tensor) -> Tensor:
        assert logits.is_cuda
        weights = torch.ones(logits.shape[-1], device="cuda", dtype=logits.dtype)
        offset = torch.zeros(1).to(torch.device("cuda", 0)).cuda()
        return F.cross_entropy(logits + offset, targets.argmax(-1), weight=weights)

    names = [each.name for each in trace_function(loss, Sizes(4, 300)).timeline.allocations]
    assert {"ones", "log_softmax"} <= set(names)


def test_a_compiled_loss_is_traced_as_written() -> None:
    def loss(logits: Tensor, targets: Tensor) -> Tensor:
        result: Tensor = torch.compile(lambda x, t: F.kl_div(x.log_softmax(-1), t.softmax(-1), reduction="sum"))(
            logits, targets
        )
        return result

    assert trace_function(loss, Sizes(4, 300)).totals.held_bytes >= 2 * 4 * 300 * 2


def test_autocast_is_refused_rather_than_wrong() -> None:
    def loss(logits: Tensor, targets: Tensor) -> Tensor:
        with torch.autocast("cuda", torch.bfloat16):
            return F.cross_entropy(logits, targets.argmax(-1))

    def switched_off(logits: Tensor, targets: Tensor) -> Tensor:
        with torch.autocast("cuda", enabled=False):
            return F.cross_entropy(logits, targets.argmax(-1))

    with pytest.raises(UsageError, match="autocast regions are not traced"):
        trace_function(loss, Sizes(4, 300))
    assert trace_function(switched_off, Sizes(4, 300)).totals.held_bytes > 0


def test_chunked_linear_cross_entropy_shows_its_buffers() -> None:
    """It is one operator; its chunk of logits and its gradients are what the priced program says."""
    if not hasattr(F, "linear_cross_entropy"):
        pytest.skip("F.linear_cross_entropy is new in PyTorch 2.13")

    def loss(hidden: Tensor, weight: Tensor, labels: Tensor, smoothing: float = 0.0) -> Tensor:
        options = torch.nn.LinearCrossEntropyOptions()
        result: Tensor = F.linear_cross_entropy(hidden, weight, labels, label_smoothing=smoothing, options=options)
        return result

    sizes = Sizes(64, 3000, hidden=16)
    held_bytes = trace_function(loss, sizes).totals.held_bytes
    assert 64 * 16 * 2 <= held_bytes < 64 * 3000 * 2
    with pytest.raises(UsageError, match="label_smoothing"):
        trace_function(loss, sizes, {"smoothing": 0.1})
