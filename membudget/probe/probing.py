"""The loop of a probe: predict, look whether it fits, run, compare; one row after another, whatever happens to one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from membudget.calculator.loss_request import LossRequest
from membudget.calculator.section_totals import SectionTotals, section_totals
from membudget.errors import CannotMeasureError, UsageError
from membudget.probe.device import Device, DeviceOutOfMemoryError, Sample
from membudget.probe.measurement import SCHEMA_VERSION, Measurement, Row, Settings, by_row
from membudget.probe.prediction import predicted, reduced
from membudget.sequence import same_sequence
from membudget.timeline import Timeline

MAX_REASON = 900
"""Characters of a reason; some libraries write pages."""

Wanted = tuple[str, int | None]
"""Method (or `configured`) and chunk of a row; chunk None where the method does not chunk."""


@dataclass(frozen=True)
class Options:
    """How rows are run."""

    repeat: int = 1
    scale: int = 1
    """Run 1/scale of the tokens where the full size does not fit."""
    force: bool = False
    """Run also what does not fit by what is free now."""


def probe(
    device: Device,
    settings: Settings,
    wanted: Sequence[Wanted],
    options: Options,
    on_row: Callable[[int, Wanted], object] = lambda index, wanted: None,
) -> Measurement:
    """Probe the section of `settings` by each method; `on_row` hears of each before it begins."""
    warnings = tuple(warning[:MAX_REASON] for warning in device.warnings())
    rows = []
    for index, (method, chunk) in enumerate(wanted):
        on_row(index, (method, chunk))
        rows.append(_RowProbe(device, settings.request, method, chunk, options).row())
    return Measurement(
        schema_version=SCHEMA_VERSION,
        kind=device.kind,
        device=device.name,
        driver=device.driver,
        torch=device.torch_version,
        method=device.method,
        settings=settings,
        warnings=warnings,
        rows=tuple(rows),
    )


@dataclass(frozen=True)
class _RowProbe:
    """One row on its way."""

    device: Device
    request: LossRequest
    method: str
    chunk: int | None
    options: Options

    def row(self) -> Row:
        try:
            request = by_row(self.request, self.method, self.chunk)
            full = predicted(request, self.device.kind)
        except UsageError as error:
            return self._row("skipped", reason=str(error))
        if reason := self._missing(request):
            return self._row("skipped", full, reason=reason)
        refusal = self.device.refusal(request)
        if refusal and self.options.scale > 1:
            return self._scaled(request, full, refusal)
        if refusal and not self.options.force:
            return self._row("skipped", full, reason=f"{refusal}; --force runs it all the same, --scale K a K-th of it")
        return self._run(request, full)

    def _missing(self, request: LossRequest) -> str:
        """Why one of the methods cannot run here."""
        for name, term in request.terms:
            if reason := self.device.missing(term.method):
                return reason if self.method == term.method else f"{name} by {term.method}: {reason}"
        return ""

    def _scaled(self, request: LossRequest, full: Timeline, refusal: str) -> Row:
        """A part of the tokens, and what that says of all of them."""
        scale = self.options.scale
        part = reduced(request, scale)
        still = self.device.refusal(part)
        if still and not self.options.force:
            return self._row("skipped", full, reason=f"1/{scale} of the tokens: {still}; choose a larger --scale")
        row = self._run(part, predicted(part, self.device.kind), scale=scale)
        if row.difference_bytes is None:
            return row
        peak = section_totals(full).peak_bytes + scale * row.difference_bytes
        reason = f"extrapolated: 1/{scale} of the tokens was run, since all of them do not fit ({refusal})"
        return row.model_copy(update={"extrapolated_bytes": max(0, peak), "reason": _joined(reason, row.reason)})

    def _run(self, request: LossRequest, expected: Timeline, **known: Any) -> Row:
        try:
            samples = [self.device.run(request) for _ in range(self.options.repeat)]
        except DeviceOutOfMemoryError as error:
            return self._row("out_of_memory", expected, reason=str(error), **known)
        except (CannotMeasureError, UsageError) as error:
            return self._row("skipped", expected, reason=str(error), **known)
        except RuntimeError as error:  # torch's: an operator without a kernel for the dtype, a size it cannot index
            first = str(error).strip().split("\n", 1)[0]
            return self._row("skipped", expected, reason=f"the run failed: {first}", **known)
        return self._measured(expected, samples, **known)

    def _measured(self, expected: Timeline, samples: Sequence[Sample], **known: Any) -> Row:
        largest = max(samples, key=lambda sample: sample.peak_bytes)
        totals = section_totals(expected)
        least = min(sample.peak_bytes for sample in samples)
        differ = least != largest.peak_bytes
        reason = f"the runs differ: from {least:,} B to {largest.peak_bytes:,} B" if differ else ""
        same = None if largest.timeline is None else same_sequence(largest.timeline, expected)
        return self._row(
            "measured",
            expected,
            reason=reason,
            measured_bytes=largest.peak_bytes,
            difference_bytes=largest.peak_bytes - totals.peak_bytes,
            measured_held_bytes=largest.held_bytes,
            milliseconds=round(min(sample.milliseconds for sample in samples), 3),
            reserved_bytes=_most(sample.reserved_bytes for sample in samples),
            device_bytes=_most(sample.device_bytes for sample in samples),
            same_events=same,
            runs_differ=differ,
            **known,
        )

    def _row(self, status: str, expected: Timeline | None = None, *, reason: str = "", **values: Any) -> Row:
        totals = _totals(expected)
        return Row.model_validate(
            {
                "terms": tuple(name for name, _ in self.request.terms),
                "method": self.method,
                "chunk": self.chunk,
                "status": status,
                "reason": reason[:MAX_REASON],
                "predicted_bytes": totals.peak_bytes if totals else None,
                "predicted_held_bytes": totals.held_bytes if totals else None,
                **values,
            }
        )


def _totals(timeline: Timeline | None) -> SectionTotals | None:
    return None if timeline is None else section_totals(timeline)


def _most(values: Iterable[int | None]) -> int | None:
    return max((value for value in values if value is not None), default=None)


def _joined(*texts: str) -> str:
    return "; ".join(text for text in texts if text)
