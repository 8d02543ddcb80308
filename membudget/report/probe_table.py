"""A measurement for people: prediction beside measurement, one row per method and chunk."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from membudget.errors import printable
from membudget.probe.measurement import Measurement, Row
from membudget.report.probe_result import ProbeReport, not_measured
from membudget.report.screen import Screen, header_line, to_text
from membudget.report.words import plural, sized

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

_HEADERS = ("method", "chunk", "predicted, B", "measured, B", "apart, B", "%", "ms")
_METHOD_WIDTH = 12
_MIN_WIDTH = 79
_WIDE = 100


def render(report: ProbeReport, screen: Screen) -> str:
    """The whole measurement as text; see Screen for what can be chosen."""
    wide_enough = replace(screen, width=max(screen.width, _MIN_WIDTH, _needed_width(report.measurement)))
    return to_text(_parts(report, wide_enough), wide_enough)


def _parts(report: ProbeReport, screen: Screen) -> Iterator[RenderableType]:
    from rich.text import Text

    measurement = report.measurement
    yield Text(_title(measurement), "bold")
    yield Text(_settings(measurement))
    yield Text(f"on {_where(measurement)}: {printable(measurement.method)}")
    yield Text()
    yield _table(measurement, screen)
    yield Text()
    for sentence in _sentences(report):
        yield Text(sentence)
    yield Text(_verdict(report), "bold green" if _is_good(report) else "bold red")


def _title(measurement: Measurement) -> str:
    settings = measurement.settings
    terms = " + ".join(name for name, _ in settings.loss.terms())
    sizes = f"{settings.tokens:,} tokens x {settings.vocab:,} vocab, hidden {settings.hidden:,}"
    return f"{printable(settings.name)}: {terms}: {sizes}"


def _settings(measurement: Measurement) -> str:
    settings = measurement.settings
    parts = [
        f"logits {settings.logits_dtype}",
        f"head {'trainable' if settings.train_head else 'frozen'}",
        f"kept until backward: {settings.keep}",
        f"labels from {settings.loss.labels}",
        *(["autocast"] if settings.loss.autocast else []),
        plural(settings.repeat, "run") + (" each" if settings.repeat > 1 else ""),
    ]
    return "; ".join(parts)


def _where(measurement: Measurement) -> str:
    driver = f", driver {printable(measurement.driver)}" if measurement.driver else ""
    return f"{printable(measurement.device)}{driver}, torch {printable(measurement.torch)}"


def _table(measurement: Measurement, screen: Screen) -> Table:
    from rich.table import Table
    from rich.text import Text

    gap = 1 if screen.width >= _WIDE else 0
    table = Table(box=header_line(), pad_edge=False, show_edge=False, padding=(0, gap, 0, 0))
    table.add_column(_HEADERS[0], overflow="fold", min_width=_METHOD_WIDTH)
    for header in _HEADERS[1:]:
        table.add_column(header, justify="right", no_wrap=True)
    for row in measurement.rows:
        table.add_row(*(Text(cell) for cell in _cells(row)))
    return table


def _needed_width(measurement: Measurement) -> int:
    """Columns in which no number is cut: wrapped sentences are better than that."""
    texts = [_HEADERS, *(_cells(row) for row in measurement.rows)]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    return min(widths[0], _METHOD_WIDTH) + sum(widths[1:]) + 2 * len(widths)


def _cells(row: Row) -> tuple[str, ...]:
    measured = f"{row.measured_bytes:,}" if row.measured_bytes is not None else row.status.replace("_", " ")
    return (
        row.method + (f" (1/{row.scale})" if row.scale > 1 else ""),
        _number(row.chunk),
        _number(row.predicted_bytes),
        measured,
        _number(row.difference_bytes),
        percent_apart(row),
        "" if row.milliseconds is None else f"{row.milliseconds:.0f}",
    )


def percent_apart(row: Row) -> str:
    """The difference as a share of what was measured: `0`, `+0.02`, `<0.01`."""
    if row.difference_bytes is None or row.measured_bytes is None:
        return ""
    if row.difference_bytes == 0:
        return "0"
    share = 100 * row.difference_bytes / max(row.measured_bytes, 1)
    return f"{share:+.2f}" if abs(share) >= 0.005 else ("<0.01" if share > 0 else ">-0.01")


def _number(value: int | None) -> str:
    return "" if value is None else f"{value:,}"


def _sentences(report: ProbeReport) -> Iterator[str]:
    measurement = report.measurement
    yield (
        "peak of targets, forward and backward beyond hidden states, heads and labels; "
        + ("ms: one run at the reduced size." if measurement.kind == "cpu" else "ms: forward and backward.")
    )
    for reason, methods in not_measured(measurement):
        yield f"not measured: {', '.join(methods)}: {printable(reason)}"
    for row in report.measured:
        if row.reason:
            yield f"{row.method}: {printable(row.reason)}"
        if row.extrapolated_bytes is not None:
            yield f"{row.method}: extrapolated to all tokens: {sized(row.extrapolated_bytes)}"
        if row.same_events is False and row.difference_bytes == 0:
            yield f"{row.method}: the peak is the predicted one, but not every allocation and free on the way to it"
    if measurement.kind == "cpu" and any(row.method == "cpu" for row in report.measured):
        yield "cpu: host and device are one here, so what it copies to the host counts too"
    for warning in measurement.warnings:
        yield f"warning: {printable(warning)}"
    yield from _of_check(report)


def _of_check(report: ProbeReport) -> Iterator[str]:
    checked = report.checked
    if checked is None:
        return
    for row, old in checked.moved:
        yield f"{row.method}: the prediction was {old:,} B when it was measured"
    for row in checked.parted:
        chunk = f", chunk {row.chunk:,}" if row.chunk is not None else ""
        yield f"{row.method}{chunk}: {row.difference_bytes:+,} B apart, more than {checked.tolerance}"


def _is_good(report: ProbeReport) -> bool:
    if report.checked is not None:
        return report.checked.passed
    return bool(report.measured) and all(row.difference_bytes == 0 for row in report.measured)


def _verdict(report: ProbeReport) -> str:
    measured, checked = report.measured, report.checked
    if checked is not None:
        verdict = "within" if checked.passed else "NOT within"
        return f"{plural(len(measured), 'measured row')}, {verdict} a tolerance of {checked.tolerance}"
    if not measured:
        return "nothing was measured"
    same = sum(row.difference_bytes == 0 for row in measured)
    text = f"predicted = measured, 0 bytes apart, in {same} of {plural(len(measured), 'measured row')}"
    if all(row.same_events for row in measured):
        text += "; every allocation and free is the predicted one, in order"
    return text
