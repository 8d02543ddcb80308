"""What a plan says of a measurement that is shown beside it, the same in all formats."""

from __future__ import annotations

from membudget.calculator.result import MeasuredLoss
from membudget.errors import printable
from membudget.report.words import sized


def measured_lines(measured: MeasuredLoss) -> list[str]:
    """One line when nothing matches; else prediction and measurement of the loss section alone, and how far apart."""
    file = printable(measured.file)
    if measured.predicted_bytes is None or measured.measured_bytes is None:
        return [f"measurement {file}: {printable(measured.reason)}"]
    chunk = f", chunk {measured.chunk:,}" if measured.chunk is not None else ""
    apart = measured.measured_bytes - measured.predicted_bytes
    distance = f"{apart:+,}" if apart else "0"
    return [
        f"measurement {file}: loss section alone, {measured.method}{chunk}: predicted "
        f"{sized(measured.predicted_bytes)}, measured {sized(measured.measured_bytes)}, {distance} bytes apart",
        f"measured on {printable(measured.device)}",
    ]
