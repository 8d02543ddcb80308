"""What `loss` found: the price of the same terms by every method that was asked for."""

from __future__ import annotations

from dataclasses import dataclass

from membudget.calculator.result import LossPrice
from membudget.config.loss import SUMMED_METHODS


@dataclass(frozen=True)
class LossReport:
    """Prices side by side, and the settings they share."""

    tokens: int
    vocab: int
    hidden: int
    terms: tuple[str, ...]
    keep: str
    """What the caller still holds at backward: none, logits, targets or both."""
    head: str
    """frozen or trainable."""
    labels: str
    """Where labels come from: data or targets."""
    autocast: bool
    settings: tuple[tuple[str, str | float | bool], ...]
    """Settings of terms that were given, by name: upcast, temperature, beta, k."""
    prices: tuple[LossPrice, ...]
    whole: LossPrice
    """The price in one pass, to compare with, whether it was asked for or not."""
    token_weights: bool = False
    """Whether each token counts with a weight of its own."""
    skipped: tuple[tuple[str, str], ...] = ()
    """Methods that cannot compute these terms, and why."""


def held_like_whole(report: LossReport) -> list[LossPrice]:
    """The prices by summed chunks that hold as much between forward and backward as one pass.

    As much means to one per cent: the blocks of every chunk are rounded up to 512 B.
    """
    whole_bytes = report.whole.held_bytes
    return [
        price
        for price in report.prices
        if price.method in SUMMED_METHODS
        and price.chunk is not None
        and price.chunk < report.tokens
        and abs(price.held_bytes - whole_bytes) * 100 <= whole_bytes
    ]
