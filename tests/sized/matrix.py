"""The agreement matrix: the factors that decide what a loss section allocates, and a set of cases that covers them.

The full product has over a hundred million cases. CASES is a random sample of it, the same in every run, to which a
case is added for every pair of values of two factors that the sample missed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations, product
from random import Random
from typing import Any, NamedTuple

from membudget.calculator.loss_request import LossRequest, by_method
from membudget.config.loss import (
    TERMS,
    Cap,
    CrossEntropy,
    Jsd,
    Kl,
    KlTopK,
    ReverseKl,
    Term,
    Tv,
)
from membudget.programs.section import HEAD_METHODS, LOGITS_METHODS

METHODS = (*LOGITS_METHODS, *HEAD_METHODS)
DDTREE = ("cross_entropy", "kl", "cap")
SAME = "same"


class Shape(NamedTuple):
    """Sizes, and chunks of the tokens by name."""

    tokens: int
    vocab: int
    hidden: int
    chunks: dict[str, int]


SHAPES = {
    "plain": Shape(32, 128, 48, {"one": 1, "dividing": 8, "not dividing": 10, "all": 32}),
    "vocab < hidden": Shape(12, 24, 100, {"one": 1, "dividing": 4, "not dividing": 5, "all": 12}),
    "odd sizes": Shape(15, 77, 33, {"one": 1, "dividing": 5, "not dividing": 4, "all": 15}),
    "one token": Shape(1, 96, 16, {"one": 1, "dividing": 1, "not dividing": 4, "all": 1}),
}

FACTORS: dict[str, tuple[Any, ...]] = {
    "terms": (*((name,) for name in TERMS), *combinations(TERMS, 2), DDTREE),
    "method": METHODS,
    "method of every second term": (SAME, *METHODS),
    "chunk": ("one", "dividing", "not dividing", "all"),
    "logits dtype": ("bf16", "fp16", "fp32"),
    "softmax dtype": ("native", "fp32", "mixed"),
    "keep": ("none", "logits", "targets", "both"),
    "head": ("frozen", "trainable"),
    "labels": ("data", "targets"),
    "autocast": (False, True),
    "temperature": (1.0, 2.0),
    "token weights": (False, True),
    "settings of the term": ("default", "special"),
    "shape": tuple(SHAPES),
}

SPECIAL: dict[str, dict[str, Any]] = {"cross_entropy": {"upcast": True}, "jsd": {"beta": 0.3}, "kl_topk": {"k": 500}}
"""Settings that only one term has; 500 is more than any vocabulary here."""

MODELS: dict[str, type[Term]] = {
    "cross_entropy": CrossEntropy,
    "kl": Kl,
    "reverse_kl": ReverseKl,
    "jsd": Jsd,
    "tv": Tv,
    "kl_topk": KlTopK,
    "cap": Cap,
}


Row = tuple[Any, ...]
"""One value of every factor, in the order of FACTORS."""

Pair = tuple[int, Any, int, Any]
"""The number of a factor and its value, the number of another and its value."""


def is_possible(terms: tuple[str, ...], other_method: str) -> bool:
    """A single term has no second one whose method could be another."""
    return len(terms) > 1 or other_method == SAME


def pairs_of(row: Row) -> set[Pair]:
    return {(i, row[i], j, row[j]) for i, j in combinations(range(len(row)), 2)}


def possible_pairs() -> Iterator[Pair]:
    """Every two values of two factors that some case can have."""
    columns = list(FACTORS.values())
    for i, j in combinations(range(len(columns)), 2):
        for a, b in product(columns[i], columns[j]):
            if (i, j) != (0, 2) or is_possible(a, b):
                yield i, a, j, b


def covering_rows(sample: int) -> list[Row]:
    """`sample` random rows, and one more for every pair of values that is not among them yet."""
    random = Random(3)

    def draw(fixed: dict[int, Any]) -> Row:
        terms, method, other, *rest = (fixed.get(i, random.choice(vs)) for i, vs in enumerate(FACTORS.values()))
        if not is_possible(terms, other) and 2 not in fixed:
            other = SAME
        return (terms, method, other, *rest) if is_possible(terms, other) else draw(fixed)

    rows = [draw({}) for _ in range(sample)]
    covered = set().union(*map(pairs_of, rows))
    for pair in possible_pairs():
        if pair not in covered:
            i, a, j, b = pair
            rows.append(draw({i: a, j: b}))
            covered |= pairs_of(rows[-1])
    return rows


def request_of(row: Row) -> LossRequest:
    """The section a row describes."""
    names, method, other, chunk, dtype, softmax, keep, head, labels, autocast, *settings_of_terms, shape_name = row
    temperature, token_weights, kind = settings_of_terms
    shape = SHAPES[shape_name]
    methods = (method, method if other == SAME else other)
    softmaxes = ("native", "fp32") if softmax == "mixed" else (softmax, softmax)

    def term(place: int, name: str) -> Term:
        special = SPECIAL.get(name, {}) if kind == "special" else {}
        settings = {"softmax_dtype": softmaxes[place % 2], "temperature": temperature, **special}
        return by_method(MODELS[name](**settings), methods[place % 2], shape.chunks[chunk])

    return LossRequest(
        tuple((name, term(place, name)) for place, name in enumerate(names)),
        tokens=shape.tokens,
        vocab=shape.vocab,
        hidden=shape.hidden,
        logits_dtype=dtype,
        keep=keep,
        train_head=head == "trainable",
        labels=labels,
        autocast=autocast,
        token_weights=token_weights,
    )


ROWS = tuple({request_of(row): row for row in covering_rows(2000)}.values())
CASES = tuple(map(request_of, ROWS))


def beside_a_library() -> list[LossRequest]:
    """PyTorch's own fused cross entropy beside every other term by every method; sizes and the rest as in CASES."""
    library = CrossEntropy(method="torch_linear_cross_entropy")
    requests = []
    for case, (name, method) in zip(CASES, product(TERMS[1:], METHODS), strict=False):
        other = by_method(MODELS[name](), method, 1 + case.tokens // 3)
        terms = (("cross_entropy", library), (name, other))
        requests.append(replace(case, terms=terms, labels="data", token_weights=False))
    return requests
