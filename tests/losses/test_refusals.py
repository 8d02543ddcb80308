"""What is refused, and in which words."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from membudget.losses import METHODS, Head, Term, combine, cross_entropy, kl
from membudget.losses.torch_ops import TorchOps
from membudget.programs.heads import Heads
from membudget.programs.section import Group, section_loss
from tests.losses.methods import EAGER, ONCE, chunk_of

LOGITS, TARGETS = torch.randn(4, 9), torch.randn(4, 9)
HIDDEN, WEIGHT = torch.randn(4, 3), torch.randn(9, 3)
LABELS = torch.tensor([0, 1, 2, 3])
CE = [Term("cross_entropy")]

WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "no term": ({"terms": []}, "no term: name at least one of cross_entropy, kl"),
    "unknown term": ({"terms": [Term("klx")]}, r'no term "klx" \(did you mean "kl"\?\)'),
    "temperature": ({"terms": [Term("kl", temperature=0)]}, "kl: temperature is 0: it must be a positive number"),
    "beta": ({"terms": [Term("jsd", beta=1)]}, "jsd: beta is 1: it must be between 0 and 1"),
    "k": ({"terms": [Term("kl_topk", k=0)]}, "kl_topk: k is 0: at least one token"),
    "softmax dtype": ({"terms": [Term("kl", softmax_dtype="bf16")]}, 'must be "native" or "fp32"'),
    "unknown method": ({"method": "chunkd"}, r'no method "chunkd" \(did you mean "chunked"\?\): choose one of whole'),
    "fused_kernel": ({"method": "fused_kernel"}, "ships no GPU kernel.*liger-kernel and cut-cross-entropy"),
    "no chunk": ({"method": "chunked"}, 'method "chunked" needs chunk, the tokens per chunk .* not None'),
    "chunk of zero": ({"method": "chunked", "chunk": 0}, "needs chunk.* not 0"),
    "chunk too much": ({"chunk": 2}, 'method "whole" does not chunk: leave chunk out'),
    "no head": ({"method": "fused_head", "chunk": 2}, r"computes the logits itself: pass Head\(hidden, weight\)"),
    "no targets": ({"terms": [Term("tv")], "targets": None}, "tv needs targets: the teacher's logits, or its Head"),
    "no labels": ({"labels": None}, r'cross_entropy needs labels \[tokens\]; labels="targets" takes those'),
    "labels in words": ({"labels": "data"}, "labels are 'data': they must be a tensor of token ids"),
    "teacher's labels": ({"labels": "targets", "targets": None}, "cross_entropy needs targets"),
    "other vocabulary": ({"targets": torch.randn(4, 8)}, "targets have 8 entries per token and logits 9"),
    "other tokens": ({"targets": torch.randn(5, 9)}, r"targets have tokens \[5\] and logits \[4\]"),
    "label shape": ({"labels": LABELS[:3]}, r"labels has shape \[3\], but the logits have tokens \[4\]"),
    "label dtype": ({"labels": LABELS.int()}, r"labels are torch.int32: they must be int64 .*labels.long\(\)"),
    "label range": ({"labels": LABELS + 7}, "labels contain 9, which is no token id of a vocabulary of 9"),
    "label below": ({"labels": LABELS - 1}, "labels contain -1"),
    "mask shape": ({"mask": torch.ones(4, 1, dtype=torch.bool)}, r"mask has shape \[4, 1\]"),
    "mask dtype": ({"mask": torch.ones(4)}, r"mask is torch.float32: it must be bool, .*mask.bool\(\)"),
    "weights dtype": ({"token_weights": LABELS}, "token_weights must be floating point without a graph, and it is"),
    "weights graph": ({"token_weights": torch.ones(4, requires_grad=True)}, "wants a gradient.*: detach it"),
    "divisor": ({"divisor": 0.0}, "divisor is 0.0: it must be a positive number"),
    "divisor NaN": ({"divisor": float("nan")}, "divisor is nan: it must be a positive number"),
    "divisor shape": ({"divisor": torch.ones(2)}, r"divisor has shape \[2\]: it must be one number"),
    "no tensor": ({"logits": [1.0]}, r"logits must be a tensor \[..., vocab\] or a Head\(hidden, weight\), not list"),
    "logits dtype": ({"logits": LABELS.unsqueeze(1)}, "logits is torch.int64: it must be bf16, fp16, fp32 or fp64"),
    "logits shape": ({"logits": LOGITS[0]}, r"logits has shape \[9\]: it must have a dimension of tokens"),
    "head shape": ({"logits": Head(HIDDEN, WEIGHT.t())}, r"hidden \[4, 3\] and weight \[3, 9\] do not fit"),
    "head dtype": ({"logits": Head(HIDDEN.half(), WEIGHT)}, "hidden is torch.float16 and weight torch.float32: cast"),
    "device": ({"labels": LABELS.to("meta")}, "labels is on meta and logits on cpu: move one of them"),
    "head device": ({"logits": Head(HIDDEN, WEIGHT.to("meta"))}, "weight is on meta and logits: hidden on cpu"),
    "library's terms": (
        {"logits": Head(HIDDEN, WEIGHT), "terms": [Term("kl")], "method": "torch_linear_cross_entropy"},
        "computes cross_entropy with labels alone",
    ),
    "library's softmax": (
        {
            "logits": Head(HIDDEN, WEIGHT),
            "terms": [Term("cross_entropy", temperature=2)],
            "method": "torch_linear_cross_entropy",
        },
        "has neither temperature nor softmax_dtype",
    ),
    "library's weights": (
        {"logits": Head(HIDDEN, WEIGHT), "method": "torch_linear_cross_entropy", "token_weights": torch.ones(4)},
        "takes no token_weights: leave tokens out with mask or ignore_index",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_arguments(name: str) -> None:
    changes, message = WRONG[name]
    arguments: dict[str, Any] = {"logits": LOGITS, "terms": CE, "targets": TARGETS, "labels": LABELS}
    combine(**arguments)
    with pytest.raises(ValueError, match=message):
        combine(**arguments | changes)


def by(method: str) -> tuple[Tensor, Tensor]:
    """A loss, and the hidden states its gradient goes to."""
    hidden = HIDDEN.clone().requires_grad_()
    teacher = Head(torch.randn(4, 3), WEIGHT)
    return kl(Head(hidden, WEIGHT), teacher, method=method, chunk=chunk_of(method, 3)), hidden


@pytest.mark.parametrize("retain", [False, True])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("method", ONCE)
def test_a_second_backward_is_refused(method: str, masked: bool, retain: bool) -> None:
    hidden = HIDDEN.clone().requires_grad_()
    mask = torch.tensor([True, False, True, True]) if masked else None
    loss = kl(Head(hidden, WEIGHT), TARGETS, method=method, chunk=3, mask=mask)
    torch.autograd.backward(loss, retain_graph=retain)
    assert hidden.grad is not None
    once = hidden.grad.clone()
    with pytest.raises(RuntimeError, match=f"{method}: .*scaled it in place.*compute the loss again"):
        torch.autograd.backward(2 * loss)
    assert torch.equal(hidden.grad, once)


@pytest.mark.parametrize("method", ONCE)
def test_the_program_refuses_by_itself(method: str) -> None:
    """Also where nothing stands behind its node, and whatever part of the graph is asked."""
    hidden = HIDDEN.clone().requires_grad_()
    logits = (hidden @ WEIGHT.t()) if method == "grad_in_forward" else None
    heads = Heads(hidden, WEIGHT, None, None, LABELS, False)
    loss = section_loss(TorchOps(), (Group((Term("cross_entropy"),), method, 3),), heads, logits, None, 1.0)
    torch.autograd.backward(loss, retain_graph=True)
    assert hidden.grad is not None
    once = hidden.grad.clone()
    with pytest.raises(RuntimeError, match=f"{method}: .*scaled it in place"):
        torch.autograd.backward(loss)
    assert torch.equal(hidden.grad, once)


@pytest.mark.parametrize("method", EAGER)
def test_the_teacher_gets_no_gradient(method: str) -> None:
    """Though it could: a graph of the teacher's, built by mistake, is not kept alive either."""
    hidden, other = (torch.randn(4, 3, requires_grad=True) for _ in range(2))
    for targets in (Head(other, WEIGHT), other @ WEIGHT.t()):
        torch.autograd.backward(kl(Head(hidden, WEIGHT), targets, method=method, chunk=chunk_of(method, 3)))
        assert hidden.grad is not None
        assert other.grad is None


@pytest.mark.parametrize("method", ONCE)
def test_gradients_of_gradients_are_refused(method: str) -> None:
    loss, hidden = by(method)
    with pytest.raises(RuntimeError, match=f"{method}: .*create_graph=True.*use method whole or chunked"):
        torch.autograd.grad(loss, hidden, create_graph=True)
    torch.autograd.backward(loss)
    assert hidden.grad is not None


@pytest.mark.parametrize("method", [method for method in EAGER if method not in ONCE])
def test_other_methods_run_backward_twice(method: str) -> None:
    loss, hidden = by(method)
    torch.autograd.backward(loss, retain_graph=True)
    assert hidden.grad is not None
    once = hidden.grad.clone()
    torch.autograd.backward(loss)
    torch.testing.assert_close(hidden.grad, 2 * once)


@pytest.mark.parametrize("method", ["whole", "chunked", "chunked_slices"])
def test_gradients_of_gradients_without_a_function(method: str) -> None:
    """Through masks too."""
    mask = torch.tensor([True, False, True, True])

    def loss(x: Tensor) -> Tensor:
        return kl(x, TARGETS.double(), method=method, chunk=chunk_of(method, 3), mask=mask)

    assert torch.autograd.gradgradcheck(loss, (LOGITS.double().requires_grad_(),))


@pytest.mark.parametrize("method", ONCE)
def test_where_no_gradient_is_wanted_none_is_computed(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.autograd, "grad", None)
    hidden = HIDDEN.clone().requires_grad_()
    whole = cross_entropy(Head(HIDDEN, WEIGHT), LABELS)
    with torch.no_grad():
        assert torch.allclose(cross_entropy(Head(hidden, WEIGHT), LABELS, method=method, chunk=3), whole)
    assert torch.allclose(cross_entropy(Head(HIDDEN, WEIGHT), LABELS, method=method, chunk=3), whole)


def test_every_method_is_named() -> None:
    assert set(EAGER) | {"compiled", "torch_linear_cross_entropy", "liger", "cut_cross_entropy"} == set(METHODS)
