"""The terms of a loss as a caller names them, checked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from membudget.config.suggest import did_you_mean
from membudget.programs.terms import TERM_PROGRAMS, TermSettings

Term = TermSettings
"""Name, weight and settings of one term; settings a term does not have are not read."""


def checked(terms: Sequence[Term]) -> tuple[Term, ...]:
    """The terms as programs take them. ValueError for none, one unknown, or settings out of range."""
    if not terms:
        raise ValueError(f"no term: name at least one of {', '.join(TERM_PROGRAMS)}")
    return tuple(_checked(term) for term in terms)


def _checked(term: Term) -> Term:
    if term.name not in TERM_PROGRAMS:
        near = did_you_mean(term.name, TERM_PROGRAMS)
        raise ValueError(f'no term "{term.name}"{near}: choose one of {", ".join(TERM_PROGRAMS)}')
    if term.softmax_dtype not in (None, "native", "fp32"):
        raise ValueError(f'{term.name}: softmax_dtype is {term.softmax_dtype!r}: it must be "native" or "fp32"')
    if not 0 < term.temperature < float("inf"):
        raise ValueError(f"{term.name}: temperature is {term.temperature}: it must be a positive number")
    if not 0 < term.beta < 1:
        raise ValueError(f"{term.name}: beta is {term.beta}: it must be between 0 and 1, both excluded")
    if term.k < 1:
        raise ValueError(f"{term.name}: k is {term.k}: at least one token must take part")
    return replace(term, softmax_dtype="fp32" if term.softmax_dtype == "fp32" else None)
