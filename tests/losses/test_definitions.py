"""Every method's loss and gradients against the definitions, on problems that hypothesis makes up."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from membudget.losses import Term
from tests.losses.methods import EAGER, TERMS, chunk_of
from tests.losses.reference import IGNORED, Problem, Result, computed, expected

torch.set_num_threads(1)


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    tokens = draw(st.integers(0, 9))
    vocab, hidden, seed = draw(st.integers(2, 12)), draw(st.integers(1, 5)), draw(st.integers(0, 10**6))
    problem = Problem.random(tokens, vocab, hidden, seed)
    for i in draw(st.sets(st.integers(0, max(tokens - 1, 0)), max_size=tokens)):
        problem.labels[i] = IGNORED
    mask = draw(st.none() | st.lists(st.booleans(), min_size=tokens, max_size=tokens))
    weights = st.lists(st.sampled_from([0.0, 0.5, 1.0, 3.0]), min_size=tokens, max_size=tokens)
    token_weights = draw(st.none() | weights)
    return replace(
        problem,
        mask=None if mask is None else torch.tensor(mask, dtype=torch.bool),
        token_weights=None if token_weights is None else torch.tensor(token_weights, dtype=torch.float64),
        divisor=draw(st.sampled_from([None, 1.0, 37.5])),
    )


chosen_terms = st.lists(
    st.builds(
        Term,
        name=st.sampled_from(TERMS),
        weight=st.sampled_from([1.0, 0.15]),
        temperature=st.sampled_from([1.0, 0.7, 2.0]),
        beta=st.sampled_from([0.5, 0.3]),
        k=st.integers(1, 14),
    ),
    min_size=1,
    max_size=3,
)


def assert_close(found: Result, wanted: Result, tolerance: float) -> None:
    for name in ("loss", "of_hidden", "of_weight"):
        torch.testing.assert_close(
            getattr(found, name), getattr(wanted, name), rtol=tolerance, atol=tolerance, msg=name
        )


@settings(max_examples=60)
@given(problems(), chosen_terms, st.integers(1, 10), st.sampled_from([1.0, -3.0, 65536.0]))
def test_loss_and_gradients(problem: Problem, terms: list[Term], chunk: int, upstream: float) -> None:
    """In float64 nothing is left but the order of sums."""
    wanted = expected(problem, terms, upstream)
    for method in EAGER:
        found = computed(problem, terms, method, chunk_of(method, chunk), upstream)
        assert_close(found, wanted, 1e-11 * abs(upstream))


@pytest.mark.parametrize("method", EAGER)
@pytest.mark.parametrize("term", TERMS)
def test_every_term_with_every_method(term: str, method: str) -> None:
    """Not left to chance; the labels of two tokens are the most likely ones, so that cap counts."""
    problem = Problem.random(7, 11, 3)
    best = (problem.hidden @ problem.weight.t()).argmax(-1)
    problem.labels[:3] = best[:3]
    problem.labels[5] = IGNORED
    for settings_of in (Term(term), Term(term, softmax_dtype="native", temperature=2.0, beta=0.3, k=4)):
        terms = [settings_of]
        assert_close(computed(problem, terms, method, chunk_of(method, 3)), expected(problem, terms), 1e-12)


@pytest.mark.skipif(not hasattr(torch.nn.functional, "linear_cross_entropy"), reason="PyTorch 2.13 has the function")
def test_the_function_of_pytorch() -> None:
    """Its tokens are left out by their labels."""
    problem = Problem.random(23, 11, 3)
    problem.labels[4] = IGNORED
    problem = replace(problem, mask=torch.arange(23) % 4 > 0).to(torch.float32)
    terms = [Term("cross_entropy", weight=0.7)]
    found = computed(problem, terms, "torch_linear_cross_entropy", None, 3.0)
    wanted = expected(problem, terms, 3.0)
    for name in ("loss", "of_hidden", "of_weight"):
        torch.testing.assert_close(getattr(found, name).double(), getattr(wanted, name), rtol=1e-5, atol=1e-6)
