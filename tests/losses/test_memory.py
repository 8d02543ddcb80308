"""What the public functions allocate and free is what the engine says of the same request, event for event.

Left out is what is made before the loss begins, a few bytes per token: the weights, the labels with ignored ones
replaced, the divisor. The engine takes them as given.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.profiler import record_function

from membudget.calculator.loss_request import LossRequest
from membudget.calculator.loss_run import run_section
from membudget.config.loss import TEACHER_TERMS, Cap, CrossEntropy, Jsd, Kl, KlTopK, ReverseKl, Tv
from membudget.losses import Head, Term, combine, combined, kl_topk_error, running
from membudget.losses.torch_ops import DTYPES
from membudget.probe.cpu_events import _profiling, _roots, events_below
from membudget.sequence import canonical, signed_bytes
from tests.allocator_events import explain_difference
from tests.losses.methods import EAGER, TERMS, chunk_of

TOKENS, VOCAB, HIDDEN = 32, 128, 48
MODELS = {
    "cross_entropy": CrossEntropy,
    "kl": Kl,
    "reverse_kl": ReverseKl,
    "jsd": Jsd,
    "tv": Tv,
    "kl_topk": KlTopK,
    "cap": Cap,
}
CASES = [(term, method) for term in (*TERMS, "cross_entropy+kl+cap") for method in EAGER]


@pytest.fixture(autouse=True)
def _marked(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loss runs inside a mark, without what is prepared for it."""
    run = running.run

    def marked(*args: Any) -> Tensor:
        with record_function("loss section"):
            return run(*args)

    monkeypatch.setattr(combined, "run", marked)


def head(dtype: str, *, hidden: bool, weight: bool) -> Head:
    return Head(
        torch.randn(TOKENS, HIDDEN).to(DTYPES[dtype]).requires_grad_(hidden),
        torch.randn(VOCAB, HIDDEN).to(DTYPES[dtype]).requires_grad_(weight),
    )


def allocator_events(terms: list[Term], dtype: str, train_head: bool, **how: Any) -> list[int]:
    student, teacher = head(dtype, hidden=True, weight=train_head), head(dtype, hidden=False, weight=False)
    needs_teacher = any(term.name in TEACHER_TERMS for term in terms)
    labels = torch.randint(0, VOCAB, (TOKENS,))
    targets = teacher if needs_teacher else None
    with _profiling() as profiler:
        loss = combine(student, terms, targets=targets, labels=labels, **how)
        with record_function("loss section"):
            torch.autograd.backward(loss)
    return canonical(_of_sections(profiler))


def _of_sections(profiler: Any) -> Iterator[int]:
    """The events inside the marks, without deaths of what was born outside of them."""
    alive: set[int] = set()
    for event in events_below(root for root in _roots(profiler) if root.name == "loss section"):
        if event.nbytes > 0:
            alive.add(event.address)
        elif event.address not in alive:
            continue
        else:
            alive.remove(event.address)
        yield event.nbytes


def engine_events(terms: list[Term], dtype: str, train_head: bool, method: str, weighted: bool) -> list[int]:
    models = tuple(
        (
            term.name,
            MODELS[term.name](
                weight=term.weight,
                method=method,
                chunk=chunk_of(method, 10),
                softmax_dtype=term.softmax_dtype,
                temperature=term.temperature,
            ),
        )
        for term in terms
    )
    request = LossRequest(
        models, TOKENS, VOCAB, HIDDEN, dtype, keep="none", train_head=train_head, token_weights=weighted
    )
    return canonical(signed_bytes(run_section(request, device="cpu").until("backward")))


@pytest.mark.parametrize(("names", "method"), CASES)
def test_events(names: str, method: str) -> None:
    """With a mask, and in narrow dtypes, rows are summed first; otherwise the plain program runs."""
    mask = torch.arange(TOKENS) % 3 > 0
    for dtype, softmax_dtype, masked, train_head in (
        ("bf16", "fp32", False, True),
        ("bf16", "fp32", True, False),
        ("bf16", "native", False, True),
        ("fp32", "native", True, True),
        ("fp16", "fp32", False, False),
    ):
        terms = [Term(name, weight=0.5, softmax_dtype=softmax_dtype, temperature=2.0) for name in names.split("+")]
        weighted = masked or dtype == "fp16" or (dtype == "bf16" and softmax_dtype == "native")
        how: dict[str, Any] = {"mask": mask if masked else None, "ignore_index": None}
        allocator = allocator_events(terms, dtype, train_head, method=method, chunk=chunk_of(method, 10), **how)
        engine = engine_events(terms, dtype, train_head, method, weighted)
        assert allocator
        assert allocator == engine, explain_difference(allocator, engine)


def test_ignored_labels_are_weights() -> None:
    """cross_entropy as it is called by default: labels may be ignored."""
    terms = [Term("cross_entropy", softmax_dtype="fp32")]
    allocator = allocator_events(terms, "bf16", True, method="fused_head", chunk=10)
    assert allocator == engine_events(terms, "bf16", True, "fused_head", True)


def most_alive(profiler: Any) -> int:
    alive = most = 0
    for event in events_below(_roots(profiler)):
        alive += event.nbytes
        most = max(most, alive)
    return most


def test_the_error_of_kl_topk_needs_a_few_chunks() -> None:
    tokens, vocab, chunk = 256, 512, 8
    logits, targets = torch.randn(tokens, vocab), torch.randn(tokens, vocab)
    with _profiling() as profiler:
        kl_topk_error(logits, targets, 16, chunk=chunk)
    assert most_alive(profiler) < 8 * chunk * vocab * 4
