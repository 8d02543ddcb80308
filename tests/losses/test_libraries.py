"""Cross entropy by PyTorch's own function: values and gradients. By libraries: what is said when they are not there."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from hypothesis import given, settings
from hypothesis import strategies as st

from membudget.calculator.loss_request import LossRequest
from membudget.config.loss import CrossEntropy
from membudget.errors import CannotMeasureError, ExitCode
from membudget.losses.libraries import LIBRARIES, cut_cross_entropy, liger, torch_linear_cross_entropy
from membudget.losses.section import torch_section
from membudget.losses.torch_ops import DTYPES

needs_function = pytest.mark.skipif(not hasattr(F, "linear_cross_entropy"), reason="PyTorch 2.13 has the function")
ROUNDING = {"fp32": 1e-5, "fp16": 4e-3, "bf16": 3e-2}
"""A few units in the last place of sums and gradients, relative to the largest of each."""


def inputs(tokens: int, vocab: int, hidden: int, dtype: str, seed: int = 0) -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(tokens, hidden, generator=generator).to(DTYPES[dtype])
    w = torch.randn(vocab, hidden, generator=generator).to(DTYPES[dtype]) / hidden**0.5
    return x.requires_grad_(), w, torch.randint(0, vocab, (tokens,), generator=generator)


def assert_near(found: torch.Tensor | None, expected: torch.Tensor | None, dtype: str) -> None:
    assert found is not None
    assert expected is not None
    scale = max(float(expected.detach().abs().max()), 1.0)
    assert float((found.detach().double() - expected.detach()).abs().max()) <= ROUNDING[dtype] * scale


@needs_function
@settings(max_examples=60, deadline=None)
@given(
    tokens=st.integers(1, 70),
    vocab=st.integers(2, 90),
    hidden=st.integers(1, 40),
    dtype=st.sampled_from(sorted(ROUNDING)),
    train_head=st.booleans(),
    ignored=st.sampled_from([0.0, 0.3, 1.0]),
)
def test_the_value_and_the_gradients(
    tokens: int, vocab: int, hidden: int, dtype: str, train_head: bool, ignored: float
) -> None:
    """Against F.cross_entropy in fp64, with an upstream gradient of 0.5 and chunks that need not divide."""
    x, w, y = inputs(tokens, vocab, hidden, dtype)
    w.requires_grad_(train_head)
    y[: int(ignored * tokens)] = -100
    wide = [t.detach().double().requires_grad_(t.requires_grad) for t in (x, w)]
    expected = F.cross_entropy(wide[0] @ wide[1].t(), y, reduction="sum")
    torch.autograd.backward(0.5 * expected)
    loss = torch_linear_cross_entropy(x, w, y)
    torch.autograd.backward(0.5 * loss)
    assert_near(loss, expected, dtype)
    assert_near(x.grad, wide[0].grad, dtype)
    if train_head:
        assert_near(w.grad, wide[1].grad, dtype)
    else:
        assert w.grad is None


@needs_function
def test_no_token_counts_and_another_label_is_ignored() -> None:
    x, w, y = inputs(12, 20, 8, "fp32")
    y[:] = 3
    loss = torch_linear_cross_entropy(x, w, y, ignore_index=3)
    torch.autograd.backward(loss)
    assert loss.item() == 0
    assert x.grad is not None
    assert not x.grad.any()


@needs_function
@pytest.mark.parametrize("train_head", [False, True])
def test_a_section_runs_it(train_head: bool) -> None:
    term = CrossEntropy(method="torch_linear_cross_entropy", weight=0.5)
    request = LossRequest((("cross_entropy", term),), 40, 64, 16, logits_dtype="fp32", train_head=train_head)
    section = torch_section(request)
    heads = section.heads
    section.targets()
    section.forward()
    section.backward()
    expected = 0.5 * F.cross_entropy(heads.hidden.double() @ heads.weight.double().t(), heads.labels)
    assert_near(section.loss, expected, "fp32")
    assert (heads.weight.grad is not None) == train_head


def test_an_old_torch_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(F, "linear_cross_entropy", raising=False)
    with pytest.raises(ImportError, match=r"needs PyTorch 2\.13 or newer, this is .*pip install 'torch>=2\.13'"):
        torch_linear_cross_entropy(*inputs(4, 8, 2, "fp32"))


MODULES = {"liger": "liger_kernel.transformers.fused_linear_cross_entropy", "cut_cross_entropy": "cut_cross_entropy"}
EXTRAS = {"liger": "liger", "cut_cross_entropy": "cut-cross-entropy"}


@pytest.mark.parametrize("method", MODULES)
def test_a_missing_library_is_named_with_its_extra(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, MODULES[method].partition(".")[0], None)
    monkeypatch.setitem(sys.modules, MODULES[method], None)
    with pytest.raises(ImportError) as error:
        LIBRARIES[method](*inputs(4, 8, 2, "bf16"))
    assert f"method {method} needs a library" in str(error.value)
    assert f"pip install 'membudget[{EXTRAS[method]}]'" in str(error.value)
    assert isinstance(error.value, CannotMeasureError)
    assert error.value.exit_code == ExitCode.CANNOT_MEASURE


class StandIn:
    """The interface of both libraries; it remembers what it was called with."""

    def __init__(self) -> None:
        self.calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = []

    def LigerFusedLinearCrossEntropyLoss(self, **settings: Any) -> Any:  # noqa: N802  (the library's name)
        def function(*args: torch.Tensor) -> torch.Tensor:
            self.calls.append((args, settings))
            return torch.zeros(())

        return function

    def linear_cross_entropy(self, *args: torch.Tensor, **settings: Any) -> torch.Tensor:
        self.calls.append((args, settings))
        return torch.zeros(())


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> StandIn:
    library = StandIn()
    for name in ("liger_kernel", "liger_kernel.transformers"):
        monkeypatch.setitem(sys.modules, name, SimpleNamespace(__path__=[]))
    for name in MODULES.values():
        monkeypatch.setitem(sys.modules, name, library)
    return library


def test_what_the_libraries_are_called_with(stand_in: StandIn) -> None:
    hidden, weight, labels = (t.to("meta") for t in inputs(4, 8, 2, "bf16"))
    liger(hidden, weight, labels, ignore_index=7)
    cut_cross_entropy(hidden, weight, labels)
    (of_liger, settings_of_liger), (of_cut, settings_of_cut) = stand_in.calls
    assert [id(t) for t in of_liger] == [id(weight), id(hidden), id(labels)]
    assert settings_of_liger == {"reduction": "sum", "ignore_index": 7}
    assert [id(t) for t in of_cut] == [id(hidden), id(weight), id(labels)]
    assert settings_of_cut == {"reduction": "sum", "ignore_index": -100}


@pytest.mark.parametrize("method", MODULES)
def test_no_triton_on_a_cpu(method: str, stand_in: StandIn) -> None:
    with pytest.raises(CannotMeasureError, match=f"method {method} runs Triton kernels on a GPU, and the hidden"):
        LIBRARIES[method](*inputs(4, 8, 2, "bf16"))
    assert not stand_in.calls


def test_cut_cross_entropy_has_no_backward_in_fp32(stand_in: StandIn) -> None:
    hidden, weight, labels = (t.to("meta") for t in inputs(4, 8, 2, "fp32"))
    with pytest.raises(CannotMeasureError, match=r"bf16 and fp16 hidden states only, these are torch\.float32"):
        cut_cross_entropy(hidden, weight, labels)
