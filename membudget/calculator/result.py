"""What a plan says, ready for any report: per GPU the timeline, the totals, the limit and the verdict."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from membudget.timeline import Peak, Timeline

GROUPS: dict[str, tuple[str, ...]] = {
    "model": ("parameters", "frozen", "gradients"),
    "optimizer": ("optimizer",),
    "activations": ("inputs", "activations"),
    "logits and loss": ("logits", "targets", "loss"),
    "runtime": ("workspace", "runtime"),
}
"""Groups of the itemised budget, in order, and the categories of allocations in each."""


@dataclass(frozen=True, slots=True)
class Item:
    """One line of the budget: allocations of one name and category that are alive at the peak."""

    name: str
    category: str
    nbytes: int
    formula: str
    values: str
    provenance: str
    count: int = 1
    """How many allocations stand behind the line (six chunks, five layers)."""


@dataclass(frozen=True)
class GpuPlan:
    """One GPU: its step, its three totals and how they compare with the limit. All sizes in bytes."""

    index: int
    role: Literal["target", "drafter"]
    gpu_name: str
    """For people, "RTX PRO 6000 Blackwell"."""
    timeline: Timeline
    peak: Peak
    items: tuple[Item, ...]
    """Alive at the peak, plus the runtime lines outside the allocator; they add up to device_bytes."""
    phase_peaks: tuple[tuple[str, int], ...]
    """The allocated maximum of each phase, in order."""
    allocated_bytes: int
    reserved_bytes: int
    device_bytes: int
    capacity_bytes: int
    """What torch sees as the total memory of this GPU."""
    given_limit_bytes: int | None
    """The limit of the command line or the configuration, if any."""
    compare: Literal["allocated", "reserved", "device"]

    @property
    def limit_bytes(self) -> int:
        """The limit that counts: the smaller of the given one and what torch sees."""
        if self.given_limit_bytes is None:
            return self.capacity_bytes
        return min(self.given_limit_bytes, self.capacity_bytes)

    @property
    def compared_bytes(self) -> int:
        """The total that is compared with the limit."""
        totals = {
            "allocated": self.allocated_bytes,
            "reserved": self.reserved_bytes,
            "device": self.device_bytes,
        }
        return totals[self.compare]

    @property
    def margin_bytes(self) -> int:
        """What is left under the limit; negative when over."""
        return self.limit_bytes - self.compared_bytes

    @property
    def fits(self) -> bool:
        """Equality passes."""
        return self.margin_bytes >= 0


@dataclass(frozen=True, slots=True)
class MeasuredLoss:
    """What a file of measurements says of the run's loss section alone, in bytes beyond its inputs."""

    file: str
    device: str
    """Where and how it was measured, for people."""
    method: str
    chunk: int | None
    predicted_bytes: int | None = None
    """By the rules of the device it was measured on."""
    measured_bytes: int | None = None
    reason: str = ""
    """Why nothing in the file says anything of this run; empty when something does."""


@dataclass(frozen=True)
class Plan:
    """The budget of a run."""

    name: str
    gpus: tuple[GpuPlan, ...]
    notes: tuple[str, ...]
    """What the numbers mean for this run, a sentence each ("chunked: held memory is that of whole ...")."""
    not_included: tuple[str, ...]
    measured: MeasuredLoss | None = None
    """With a file of measurements, what it says."""

    @property
    def fits(self) -> bool:
        return all(gpu.fits for gpu in self.gpus)

    @property
    def tightest(self) -> GpuPlan:
        """The GPU with the smallest margin."""
        return min(self.gpus, key=lambda gpu: gpu.margin_bytes)


@dataclass(frozen=True)
class LossPrice:
    """What a loss costs beyond hidden states and head weights, in bytes."""

    terms: tuple[str, ...]
    method: str
    chunk: int | None
    logits_dtype: str
    softmax_dtype: str
    held_bytes: int
    """Alive between forward and backward."""
    forward_peak_bytes: int
    backward_peak_bytes: int
    gradient: Literal["exact", "approximate"]
    provenance: str
    """exact or modelled."""
    timeline: Timeline

    @property
    def peak_bytes(self) -> int:
        return max(self.forward_peak_bytes, self.backward_peak_bytes)
