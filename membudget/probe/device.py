"""What a probe needs of a device; the CPU, CUDA and a test's fake are each one of these."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from membudget.calculator.loss_request import LossRequest
from membudget.probe.prediction import Kind
from membudget.timeline import Timeline

NO_CODE = "priced by rule (modelled): membudget has no kernel of its own that could run"
"""Why fused_kernel runs nowhere."""


class DeviceOutOfMemoryError(Exception):
    """The device could not allocate what the section asked for; everything is freed again."""


@dataclass(frozen=True)
class Sample:
    """One run of a loss section, in bytes beyond its hidden states, heads and labels."""

    peak_bytes: int
    held_bytes: int
    """Alive between forward and backward."""
    milliseconds: float
    """Forward and backward together."""
    reserved_bytes: int | None = None
    """The most the allocator had reserved, everything included; None where nothing is reserved."""
    device_bytes: int | None = None
    """What was in use on the device right after, other processes included; None where nobody counts it."""
    timeline: Timeline | None = None
    """Every event, where the device tells them."""


class Device(Protocol):
    """Where sections are run."""

    @property
    def kind(self) -> Kind: ...

    @property
    def name(self) -> str:
        """For people."""

    @property
    def driver(self) -> str | None: ...

    @property
    def torch_version(self) -> str: ...

    @property
    def method(self) -> str:
        """How it measures, in one line."""

    def warnings(self) -> Sequence[str]:
        """What may disturb a measurement."""

    def missing(self, method: str) -> str:
        """Why a method cannot run here at all; empty when it can."""

    def refusal(self, request: LossRequest) -> str:
        """Why the section cannot fit now; empty when it can."""

    def run(self, request: LossRequest) -> Sample:
        """Run the section once. Raises DeviceOutOfMemoryError, or CannotMeasureError with the reason."""
