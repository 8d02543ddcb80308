"""Whether a measurement speaks of a run: the same terms, sizes and settings, and a row of its method and chunk."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Any

from membudget.calculator.loss_request import LossRequest
from membudget.calculator.result import MeasuredLoss
from membudget.calculator.section_totals import section_totals
from membudget.config.loss import Term
from membudget.config.models import Config
from membudget.probe.measurement import CONFIGURED, Measurement, Row
from membudget.probe.prediction import predicted

FREE_SETTINGS = frozenset({"method", "chunk", "weight"})
"""Settings of a term that may differ: the first two are the row's, and a weight takes no memory."""

NOTHING_OF = "nothing in it is of this loss section: "


def measured_loss(measurement: Measurement, config: Config, file: str) -> MeasuredLoss:
    """What the measurement in `file` says of the configuration's loss section."""
    request = LossRequest.of(config)
    methods = {(term.method, term.chunk) for _, term in request.terms}
    method, chunk = next(iter(methods)) if len(methods) == 1 else (CONFIGURED, None)
    device = f"{measurement.device}, torch {measurement.torch}: {measurement.method}"
    row, reason = _row_or_reason(measurement, request)
    if row is None:
        return MeasuredLoss(file, device, method, chunk, reason=reason)
    totals = section_totals(predicted(request, measurement.kind))
    return MeasuredLoss(file, device, method, chunk, totals.peak_bytes, row.measured_bytes)


def _row_or_reason(measurement: Measurement, request: LossRequest) -> tuple[Row | None, str]:
    differences = list(_differences(request, measurement.settings.request))
    if differences:
        return None, NOTHING_OF + "; ".join(differences)
    rows = [row for row in measurement.rows if _methods_of_row(measurement, row) == _methods(request)]
    if not rows:
        known = ", ".join(_named(row.method, row.chunk) for row in measurement.rows)
        each = ", ".join(f"{name}: {_named(term.method, term.chunk)}" for name, term in request.terms)
        return None, f"{NOTHING_OF}no row has these methods ({each}); its rows: {known}"
    row = next((row for row in rows if row.status == "measured"), rows[0])
    named = _named(row.method, row.chunk)
    if row.status != "measured":
        return None, f"its row of {named} is {row.status.replace('_', ' ')}: {row.reason}"
    if row.scale > 1:
        return None, f"its row of {named} is of 1/{row.scale} of the tokens, not of all"
    return row, ""


def _methods(request: LossRequest) -> list[tuple[str, int | None]]:
    return [(term.method, term.chunk) for _, term in request.terms]


def _methods_of_row(measurement: Measurement, row: Row) -> list[tuple[str, int | None]]:
    if row.method == CONFIGURED:
        return _methods(measurement.settings.request)
    return [(row.method, row.chunk)] * len(row.terms)


def _differences(here: LossRequest, there: LossRequest) -> Iterator[str]:
    """What the run and the file do not share, `tokens is 24,576 here and 12,288 there`."""
    for field in fields(LossRequest):
        if field.name != "terms":
            yield from _difference(field.name, getattr(here, field.name), getattr(there, field.name))
    names = [" + ".join(name for name, _ in request.terms) for request in (here, there)]
    yield from _difference("the loss", *names)
    if names[0] == names[1]:
        for (name, one), (_, other) in zip(here.terms, there.terms, strict=True):
            for key, value in _settings(one).items():
                yield from _difference(f"{name}.{key}", value, _settings(other)[key])


def _difference(name: str, here: object, there: object) -> Iterator[str]:
    if here != there:
        yield f"{name} is {_shown(here)} here and {_shown(there)} there"


def _settings(term: Term) -> dict[str, Any]:
    return term.model_dump(exclude=set(FREE_SETTINGS))


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _named(method: str, chunk: int | None) -> str:
    return method if chunk is None else f"{method} with chunk {chunk:,}"
