"""`loss`: the same terms priced by every method."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from membudget.calculator.loss import price_loss
from membudget.calculator.loss_request import DEFAULT_CHUNK, LossRequest, with_method
from membudget.cli.loss_terms import TermFlags, build_terms, check_flags, chosen_methods, chosen_terms
from membudget.config.models import MAX_ELEMENTS
from membudget.errors import UsageError
from membudget.report.loss_result import LossReport

if TYPE_CHECKING:
    from membudget.calculator.result import LossPrice


@dataclass(frozen=True)
class LossSettings:
    """What all rows share, as given; chunk None means the default."""

    tokens: int
    vocab: int
    hidden: int
    chunk: int | None
    logits_dtype: str
    keep: Any
    """One of none, logits, targets, both."""
    head: str
    """frozen or trainable."""
    labels: Any
    """data or targets."""
    autocast: bool
    token_weights: bool = False


def compare(names: Iterable[str], method: str, settings: LossSettings, flags: TermFlags) -> LossReport:
    """Price the terms by one method or all. UsageError for whatever cannot be priced."""
    terms = chosen_terms(names)
    methods = chosen_methods(method, chunk_given=settings.chunk is not None)
    check_flags(terms, flags)
    _check_sizes(settings, flags)
    chunk = settings.chunk or min(DEFAULT_CHUNK, settings.tokens)
    whole = _request(terms, settings, flags)
    prices, skipped = _price_all(whole, methods, chunk)
    return LossReport(
        tokens=settings.tokens,
        vocab=settings.vocab,
        hidden=settings.hidden,
        terms=terms,
        keep=settings.keep,
        head=settings.head,
        labels=settings.labels,
        autocast=settings.autocast,
        token_weights=settings.token_weights,
        settings=tuple(flags.given()),
        prices=tuple(prices),
        whole=next((price for price in prices if price.method == "whole"), None) or price_loss(whole),
        skipped=tuple(skipped),
    )


def _request(terms: tuple[str, ...], settings: LossSettings, flags: TermFlags) -> LossRequest:
    return LossRequest(
        terms=build_terms(terms, flags),
        tokens=settings.tokens,
        vocab=settings.vocab,
        hidden=settings.hidden,
        logits_dtype=settings.logits_dtype,
        keep=settings.keep,
        train_head=settings.head == "trainable",
        labels=settings.labels,
        autocast=settings.autocast,
        token_weights=settings.token_weights,
    )


def _price_all(whole: LossRequest, methods: Iterable[str], chunk: int) -> tuple[list[LossPrice], list[tuple[str, str]]]:
    """Prices, and the methods that cannot compute these terms; UsageError when none can."""
    prices: list[LossPrice] = []
    skipped: list[tuple[str, str]] = []
    for method in methods:
        try:
            prices.append(price_loss(with_method(whole, method, chunk)))
        except UsageError as error:
            skipped.append((method, str(error)))
    if not prices:
        raise UsageError("; ".join(f"{method}: {reason}" for method, reason in skipped))
    return prices, skipped


def _check_sizes(settings: LossSettings, flags: TermFlags) -> None:
    products = {"--vocab": settings.vocab, "--hidden": settings.hidden}
    for option, width in products.items():
        elements = settings.tokens * width
        if elements > MAX_ELEMENTS:
            raise UsageError(
                f"--tokens {settings.tokens:,} x {option} {width:,} are {elements:,} elements, "
                f"more than the {MAX_ELEMENTS:,} that are priced"
            )
    if flags.k is not None and flags.k > settings.vocab:
        raise UsageError(f"--top-k {flags.k:,} is more than --vocab {settings.vocab:,}")
