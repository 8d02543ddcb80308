"""The price of a loss for people: one row per method, and what the comparison shows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from membudget.calculator.result import LossPrice
from membudget.errors import printable
from membudget.report.loss_result import LossReport, held_like_whole
from membudget.report.screen import Screen, header_line, to_text
from membudget.report.words import MARKS, in_gb, provenance_line
from membudget.units import format_both

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

_MIN_WIDTH = 79
_WIDE = 100


def render(report: LossReport, screen: Screen) -> str:
    """The whole comparison as text; see Screen for what can be chosen."""
    wide_enough = replace(screen, width=max(screen.width, _MIN_WIDTH))
    return to_text(_parts(report, wide_enough), wide_enough)


def _parts(report: LossReport, screen: Screen) -> Iterator[RenderableType]:
    from rich.text import Text

    sizes = f"{report.tokens:,} tokens x {report.vocab:,} vocab, hidden {report.hidden:,}"
    yield Text(f"{' + '.join(report.terms)}: {sizes}", "bold")
    yield Text(_settings(report))
    yield Text()
    yield _table(report, screen)
    yield Text()
    for sentence in _sentences(report):
        yield Text(sentence)


def _settings(report: LossReport) -> str:
    whole = report.whole
    chunks = sorted({price.chunk for price in report.prices if price.chunk is not None})
    parts = [
        f"logits {whole.logits_dtype}",
        f"softmax {whole.softmax_dtype}{_softmax_of(report)}",
        *(f"chunk {chunk:,} tokens" for chunk in chunks),
        f"head {report.head}",
        f"kept until backward: {report.keep}",
        f"labels from {report.labels}",
        *(["autocast"] if report.autocast else []),
        *(["token weights"] if report.token_weights else []),
        *(name if value is True else f"{name} {value}" for name, value in report.settings),
    ]
    return "; ".join(parts)


def _softmax_of(report: LossReport) -> str:
    """cross_entropy beside other terms stays in the dtype of its logits."""
    others = [term for term in report.terms if term != "cross_entropy"]
    alone = len(others) in (0, len(report.terms)) or report.whole.softmax_dtype == "native"
    return "" if alone else f" ({', '.join(others)})"


def _table(report: LossReport, screen: Screen) -> Table:
    from rich.table import Table
    from rich.text import Text

    gap = 1 if screen.width >= _WIDE else 0
    table = Table(box=header_line(), pad_edge=False, show_edge=False, padding=(0, gap, 0, 0))
    table.add_column("method", overflow="fold", min_width=12)
    for header in ("held", "fwd", "bwd", "peak", "peak bytes"):
        table.add_column(header, justify="right", no_wrap=True)
    table.add_column("gradient", no_wrap=True)
    for price in report.prices:
        table.add_row(*(Text(cell) for cell in _cells(price)))
    return table


def _cells(price: LossPrice) -> list[str]:
    mark = MARKS[price.provenance]
    sizes = (price.held_bytes, price.forward_peak_bytes, price.backward_peak_bytes, price.peak_bytes)
    gradient = {"exact": "exact", "approximate": "approx."}[price.gradient]
    return [
        price.method,
        *(mark + in_gb(size) for size in sizes),
        f"{price.peak_bytes:,}",
        gradient,
    ]


def _sentences(report: LossReport) -> Iterator[str]:
    yield (
        "GB (10^9 B) beyond hidden states and head weights. held: alive between forward and backward; "
        "fwd, bwd: the most in each pass; peak: the larger of the two."
    )
    yield provenance_line(price.provenance for price in report.prices)
    for reason in dict.fromkeys(reason for _, reason in report.skipped):
        methods = ", ".join(method for method, its_reason in report.skipped if its_reason == reason)
        yield f"not priced: {methods}: {printable(reason)}"
    least = min(report.prices, key=lambda price: price.peak_bytes)
    if len(report.prices) > 1:
        yield f"least peak: {least.method}, {format_both(least.peak_bytes)}"
    yield from _held_like_whole(report)


def _held_like_whole(report: LossReport) -> Iterator[str]:
    """That chunks alone do not lower what is held, said of the methods of which the numbers say so."""
    prices = held_like_whole(report)
    if not prices:
        return
    whole = report.whole
    names = ", ".join(price.method for price in prices)
    held = format_both(prices[0].held_bytes)
    sentence = f"{names}: held memory is that of whole, {held}: every chunk's share stays until backward."
    if all(price.peak_bytes < whole.peak_bytes for price in prices):
        sentence += f" Only temporaries shrink (peak of whole: {format_both(whole.peak_bytes)})."
    yield sentence
