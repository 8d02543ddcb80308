"""What a probe, or the check of a measurement, has to show."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from membudget.probe.checking import Checked
from membudget.probe.measurement import Measurement, Row


@dataclass(frozen=True)
class ProbeReport:
    """A measurement, and with `--check` what became of it."""

    measurement: Measurement
    checked: Checked | None = None

    @property
    def measured(self) -> list[Row]:
        return [row for row in self.measurement.rows if row.status == "measured"]


def not_measured(measurement: Measurement) -> Iterator[tuple[str, list[str]]]:
    """Reasons, and the methods each of them keeps from being measured."""
    methods: dict[str, list[str]] = {}
    for row in measurement.rows:
        if row.status != "measured":
            chunk = f" (chunk {row.chunk:,})" if row.chunk is not None else ""
            reason = row.reason or row.status.replace("_", " ")
            prefix = "out of memory: " if row.status == "out_of_memory" else ""
            methods.setdefault(prefix + reason, []).append(row.method + chunk)
    yield from methods.items()
