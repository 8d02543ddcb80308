"""A measurement against today's engine: does what was measured still part from what is predicted by no more than so?"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction

from membudget.calculator.section_totals import section_totals
from membudget.errors import SizeError, UsageError
from membudget.probe.measurement import Measurement, Row
from membudget.probe.prediction import predicted, reduced
from membudget.units import format_exact, parse_size

_PERCENT = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,9})?) ?%")
_EXAMPLES = 'write "1%" of what was measured, a size such as "10 MB", or 0'


@dataclass(frozen=True)
class Tolerance:
    """How far apart is still together: a share of what was measured, or bytes."""

    share: Fraction = Fraction(0)
    nbytes: int = 0

    def allows(self, difference_bytes: int, measured_bytes: int) -> bool:
        return abs(difference_bytes) <= self.nbytes or abs(difference_bytes) <= self.share * measured_bytes

    def __str__(self) -> str:
        if self.share:
            return f"{float(self.share * 100):g} %"
        return format_exact(self.nbytes)


def parse_tolerance(text: str) -> Tolerance:
    """ "1%", "0.5 %", "10 MB" or "0". Raises UsageError."""
    if match := _PERCENT.fullmatch(text):
        share = Fraction(match[1]) / 100
        if share <= 1:
            return Tolerance(share=share)
        raise UsageError(f'--tolerance: "{text}" is more than all of it; {_EXAMPLES}')
    if re.fullmatch("0+", text[:20]):
        return Tolerance()
    try:
        return Tolerance(nbytes=parse_size(text))
    except SizeError:
        shown = text if len(text) <= 40 else f"{text[:37]}..."
        raise UsageError(f'--tolerance: "{shown}" is neither a percentage nor a size; {_EXAMPLES}') from None


@dataclass(frozen=True)
class Checked:
    """A measurement with the predictions of today."""

    measurement: Measurement
    tolerance: Tolerance
    parted: tuple[Row, ...]
    """The rows whose prediction and measurement are further apart than allowed."""
    moved: tuple[tuple[Row, int], ...]
    """Rows whose prediction is not that of the file, and the one of the file."""

    @property
    def passed(self) -> bool:
        return not self.parted


def check_measurement(measurement: Measurement, tolerance: Tolerance) -> Checked:
    """Predict every measured row anew. UsageError when there is none, or when the engine no longer prices one."""
    if not any(row.status == "measured" for row in measurement.rows):
        raise UsageError("nothing to check: no row of this file was measured")
    rows = tuple(_predicted_today(measurement, row) for row in measurement.rows)
    parted = tuple(row for row in rows if _parts(row, tolerance))
    before = ((row, old.predicted_bytes) for row, old in zip(rows, measurement.rows, strict=True))
    moved = tuple((row, old) for row, old in before if old is not None and old != row.predicted_bytes)
    return Checked(measurement.model_copy(update={"rows": rows}), tolerance, parted, moved)


def _parts(row: Row, tolerance: Tolerance) -> bool:
    if row.difference_bytes is None or row.measured_bytes is None:
        return False
    return not tolerance.allows(row.difference_bytes, row.measured_bytes)


def _predicted_today(measurement: Measurement, row: Row) -> Row:
    """The row with the prediction of the engine as it is now."""
    if row.measured_bytes is None:
        return row
    request = measurement.request(row)
    if row.scale > 1:
        request = reduced(request, row.scale)
    totals = section_totals(predicted(request, measurement.kind))
    return row.model_copy(
        update={
            "predicted_bytes": totals.peak_bytes,
            "predicted_held_bytes": totals.held_bytes,
            "difference_bytes": row.measured_bytes - totals.peak_bytes,
        }
    )
