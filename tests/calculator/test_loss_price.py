"""The price of a loss section: what must hold for every term and method, at any size."""

from __future__ import annotations

from itertools import accumulate
from math import prod
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from membudget.calculator.loss import price_loss
from membudget.calculator.loss_request import LossRequest, with_method
from membudget.config.loss import (
    CHUNKING_METHODS,
    Cap,
    CrossEntropy,
    Jsd,
    Kl,
    KlTopK,
    ReverseKl,
    Term,
    Tv,
)
from membudget.errors import UsageError
from membudget.programs.section import HEAD_METHODS, LOGITS_METHODS
from tests.allocator_events import canonical, timeline_events
from tests.loss_cases import case, run_torch

TERMS: dict[str, Term] = {
    "cross_entropy": CrossEntropy(),
    "kl": Kl(softmax_dtype="fp32"),
    "reverse_kl": ReverseKl(),
    "jsd": Jsd(),
    "tv": Tv(),
    "kl_topk": KlTopK(k=8),
    "cap": Cap(),
}
METHODS = sorted({*LOGITS_METHODS, *HEAD_METHODS})


def request(terms: tuple[str, ...], method: str, *, chunk: int = 64, **kwargs: Any) -> LossRequest:
    sizes = {"tokens": 256, "vocab": 512, "hidden": 64, **kwargs}
    whole = LossRequest(terms=tuple((name, TERMS[name]) for name in terms), **sizes)
    return with_method(whole, method, chunk)


def peaks(of: LossRequest) -> tuple[int, int, int]:
    price = price_loss(of)
    return price.held_bytes, price.forward_peak_bytes, price.backward_peak_bytes


every_section = given(
    terms=st.lists(st.sampled_from(sorted(TERMS)), min_size=1, max_size=3, unique=True).map(tuple),
    method=st.sampled_from(METHODS),
    keep=st.sampled_from(["none", "logits", "targets", "both"]),
    train_head=st.booleans(),
    step=st.integers(1, 300),
)


def test_a_few_tokens_more_can_cost_less() -> None:
    """fused_head with a trained head larger than a chunk's logits: a short last chunk runs backward first and changes
    what meets the head's first gradient. The CPU allocator says so too; the rule below is for chunks >= hidden."""

    def of_allocator(tokens: int) -> int:
        return max(accumulate(canonical(run_torch(case("cross_entropy", "fused_head", 32, **sizes, tokens=tokens)))))

    sizes: dict[str, Any] = {"vocab": 250, "hidden": 64, "train_head": True}
    engine = {t: price_loss(_fused(t)).peak_bytes for t in (64, 67)}
    assert of_allocator(67) < of_allocator(64)
    assert engine[67] < engine[64]


def _fused(tokens: int) -> LossRequest:
    terms = (("cross_entropy", CrossEntropy(method="fused_head", chunk=32)),)
    return LossRequest(terms, tokens, vocab=250, hidden=64, train_head=True)


@settings(max_examples=150, deadline=None)
@every_section
def test_more_tokens_never_cost_less(
    terms: tuple[str, ...], method: str, keep: str, train_head: bool, step: int
) -> None:
    fewer = peaks(request(terms, method, tokens=256, keep=keep, train_head=train_head))
    more = peaks(request(terms, method, tokens=256 + step, keep=keep, train_head=train_head))
    assert all(a <= b for a, b in zip(fewer, more, strict=True))


@settings(max_examples=150, deadline=None)
@every_section
def test_a_larger_vocabulary_never_costs_less(
    terms: tuple[str, ...], method: str, keep: str, train_head: bool, step: int
) -> None:
    fewer = peaks(request(terms, method, vocab=512, keep=keep, train_head=train_head))
    more = peaks(request(terms, method, vocab=512 + step, keep=keep, train_head=train_head))
    assert all(a <= b for a, b in zip(fewer, more, strict=True))


@pytest.mark.parametrize("method", sorted(CHUNKING_METHODS - {"chunked_slices"}))
@pytest.mark.parametrize("name", TERMS)
def test_larger_chunks_that_divide_never_cost_less(name: str, method: str) -> None:
    of_chunk = [price_loss(request((name,), method, chunk=chunk)).peak_bytes for chunk in (16, 32, 64, 128, 256)]
    assert of_chunk == sorted(of_chunk)


def of_allocator(method: str, chunk: int) -> int:
    """The CPU allocator's own peak of KL over 32 tokens."""
    return max(accumulate(canonical(run_torch(case("kl", method, chunk, softmax_dtype="fp32")))))


def of_engine(method: str, chunk: int) -> int:
    return price_loss(request(("kl",), method, chunk=chunk, tokens=32)).peak_bytes


@pytest.mark.parametrize(
    ("method", "smaller", "larger"),
    [
        # 11+11+10 and 12+12+8: the last chunk meets all that is held, and a short one spares its temporaries.
        ("chunked", 11, 12),
        # Every slice's gradient is of the full size; with more chunks, more is still held when the second arrives.
        ("chunked_slices", 2, 4),
    ],
)
def test_where_a_smaller_chunk_costs_more(method: str, smaller: int, larger: int) -> None:
    """The peak is not monotone in the chunk; the CPU allocator says so too."""
    assert of_allocator(method, smaller) > of_allocator(method, larger)
    assert of_engine(method, smaller) > of_engine(method, larger)


@pytest.mark.parametrize("name", TERMS)
@pytest.mark.parametrize("method", ["chunked", "chunked_slices"])
def test_one_chunk_of_all_tokens_holds_what_one_pass_holds(name: str, method: str) -> None:
    held, forward_peak, _ = peaks(request((name,), method, chunk=256))
    assert (held, forward_peak) == peaks(request((name,), "whole"))[:2]


@pytest.mark.parametrize("name", ["kl", "reverse_kl", "jsd", "tv", "cross_entropy", "cap"])
@pytest.mark.parametrize("chunk", [16, 50, 255])
def test_summed_chunks_hold_what_one_pass_holds(name: str, chunk: int) -> None:
    """The believed fix: summing chunks leaves held memory where it was (scalars of the loop aside)."""
    whole = price_loss(request((name,), "whole")).held_bytes
    chunked = price_loss(request((name,), "chunked", chunk=chunk)).held_bytes
    num_chunks = -(-256 // chunk)
    assert 0 <= chunked - whole <= 512 * 8 * num_chunks


def test_a_chunk_that_does_not_divide_is_not_rounded() -> None:
    timeline = price_loss(request(("kl",), "chunked", chunk=100, tokens=256)).timeline
    rows = {a.shape[0] for a in timeline.allocations if a.name == "kl softmax"}
    assert rows == {100, 56}


def test_the_incident() -> None:
    """One bf16 logits tensor of the DDTree run; KL holds both softmaxes beside logits and targets."""
    price = price_loss(request(("cross_entropy",), "whole", tokens=24_576, vocab=248_320, hidden=5120))
    logits = next(a for a in price.timeline.allocations if a.name == "logits")
    assert logits.nbytes == 12_205_424_640
    assert (logits.formula, logits.values) == ("tokens x vocab x 2 B", "24,576 x 248,320 x 2 B")


def test_thousands_of_chunks_of_two_sizes_are_refused() -> None:
    two_sizes = (("kl", Kl(method="chunked", chunk=1)), ("tv", Tv(method="chunked", chunk=3)))
    with pytest.raises(UsageError, match="133,334 chunks of different sizes"):
        price_loss(LossRequest(two_sizes, tokens=100_000, vocab=512, hidden=64))


def test_everything_is_freed_but_gradients() -> None:
    """After backward only gradients and what the caller keeps are alive."""
    for method in METHODS:
        price = price_loss(request(("cross_entropy", "kl"), method, keep="none", train_head=True))
        alive = price.timeline.alive_at(price.timeline.num_instants - 1)
        names = {a.name for a in alive if a.nbytes > 512}
        assert names <= {
            "gradient of hidden states",
            "gradient of head weight",
        }, (method, names)
        assert sum(timeline_events(price.timeline)) == sum(a.nbytes for a in alive)


@pytest.mark.parametrize(("tokens", "vocab", "chunk"), [(1140, 1000, 64), (1280, 512, 32), (77, 33, 7)])
def test_the_numbers_in_a_formula_give_the_bytes_beside_it(tokens: int, vocab: int, chunk: int) -> None:
    """Padding to blocks is named; twins of folded loops speak of one block."""
    of = request(("cross_entropy", "kl"), "chunked", tokens=tokens, vocab=vocab, chunk=chunk)
    for allocation in price_loss(of).timeline.allocations:
        block = sum(
            prod(
                int(factor) for factor in term.removesuffix(" padding").removesuffix(" B").replace(",", "").split(" x ")
            )
            for term in allocation.values.split(" + ")
        )
        assert block * allocation.count == allocation.nbytes
