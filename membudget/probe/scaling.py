"""From runs at small sizes to the run at full size, exactly, or not at all.

Tokens and chunks stay what they are; only vocabulary and hidden size are small. Every tensor of a loss section is a
product of such sizes, so the bytes of each allocation are a + b vocab + c hidden + d vocab hidden. Four small runs
give the four whole numbers, a fifth one confirms them. Nothing is fitted: where the runs do not have the same
sequence of events, the numbers are not whole, or the fifth run says otherwise, nothing is scaled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from membudget.calculator.loss_request import LossRequest
from membudget.config.loss import KlTopK, Term
from membudget.errors import CannotMeasureError
from membudget.timeline import Timeline

VOCABS = (9, 16)
HIDDENS = (7, 18)
CONFIRMING = (33, 29)
"""Small sizes, vocabulary (beyond the k of kl_topk) and hidden; no multiples, so that no rounding goes unnoticed."""


@dataclass(frozen=True)
class Sizes:
    """What differs between the runs."""

    vocab: int
    hidden: int


def small_sizes(request: LossRequest) -> tuple[Sizes, ...]:
    """The four that determine, then the one that confirms."""
    # A k below the vocabulary stays below it: a topk of k entries is another thing than a sort of all of them.
    ks = [term.k for _, term in request.terms if isinstance(term, KlTopK) and term.k < request.vocab]
    least = max(ks, default=0)
    pairs = [(vocab, hidden) for vocab in VOCABS for hidden in HIDDENS]
    return tuple(Sizes(least + vocab, hidden) for vocab, hidden in (*pairs, CONFIRMING))


def at_sizes(request: LossRequest, sizes: Sizes) -> LossRequest:
    """The request over another vocabulary and hidden size; a k that takes all of it still does."""
    terms = tuple((name, _all_of(term, request.vocab, sizes.vocab)) for name, term in request.terms)
    return replace(request, terms=terms, vocab=sizes.vocab, hidden=sizes.hidden)


def scaled(runs: Sequence[Timeline], at: Sequence[Sizes], full: Sizes) -> Timeline:
    """The timeline at the full size, from those at `small_sizes`. Raises CannotMeasureError."""
    first = runs[0]
    if any(run.events() != first.events() or run.phases != first.phases for run in runs[1:]):
        raise CannotMeasureError("the order of events depends on vocabulary or hidden size, so no scaling is exact")
    columns = zip(*(run.allocations for run in runs), strict=True)
    allocations = tuple(
        replace(column[0], nbytes=_Form.of([a.nbytes for a in column], at).at(full)) for column in columns
    )
    return Timeline(allocations, first.phases, first.num_instants)


@dataclass(frozen=True)
class _Form:
    """Bytes of one allocation as a function of the sizes."""

    constant: int
    per_vocab: int
    per_hidden: int
    per_product: int

    @classmethod
    def of(cls, nbytes: Sequence[int], at: Sequence[Sizes]) -> _Form:
        """From the bytes at `small_sizes`."""
        b11, b12, b21, b22 = nbytes[:4]
        low, high = at[0], at[3]
        vocabs, hiddens = high.vocab - low.vocab, high.hidden - low.hidden
        product = _whole(b22 - b21 - b12 + b11, vocabs * hiddens)
        of_vocab = _whole(b21 - b11, vocabs) - product * low.hidden
        of_hidden = _whole(b12 - b11, hiddens) - product * low.vocab
        constant = b11 - of_vocab * low.vocab - of_hidden * low.hidden - product * low.vocab * low.hidden
        form = cls(constant, of_vocab, of_hidden, product)
        if form.at(at[4]) != nbytes[4]:
            raise CannotMeasureError(f"a run at another small size takes {nbytes[4]:,} B, not {form.at(at[4]):,} B")
        return form

    def at(self, sizes: Sizes) -> int:
        of_one = self.per_vocab * sizes.vocab + self.per_hidden * sizes.hidden
        return self.constant + of_one + self.per_product * sizes.vocab * sizes.hidden


def _whole(dividend: int, divisor: int) -> int:
    quotient, rest = divmod(dividend, divisor)
    if rest:
        raise CannotMeasureError("bytes do not grow by whole numbers with vocabulary and hidden size")
    return quotient


def _all_of(term: Term, full_vocab: int, vocab: int) -> Term:
    if isinstance(term, KlTopK) and term.k >= full_vocab:
        return term.model_copy(update={"k": vocab})
    return term
