"""What `check` found in one file: a plan, or problems."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from membudget.calculator.result import GpuPlan, Item, Plan
from membudget.errors import ExitCode, Problem

Position = tuple[int, int]
"""Line and column, from 1."""


@dataclass(frozen=True)
class FileResult:
    """One file that was checked; `plan` is None exactly when there are problems."""

    file: str
    plan: Plan | None = None
    problems: tuple[Problem, ...] = ()
    positions: Mapping[tuple[str | int, ...], Position] = field(default_factory=dict)
    """Where each key stands in the file, by its path from the top."""

    @property
    def status(self) -> Literal["fits", "over", "error"]:
        if self.plan is None:
            return "error"
        return "fits" if self.plan.fits else "over"

    @property
    def exit_code(self) -> ExitCode:
        return {"fits": ExitCode.FITS, "over": ExitCode.OVER, "error": ExitCode.BAD_INPUT}[self.status]


def largest_item(gpu: GpuPlan) -> Item | None:
    """The item that takes the most of what is compared with the limit, the first of several that take as much."""
    outside = {"allocated": ("allocator slack", "CUDA context"), "reserved": ("CUDA context",), "device": ()}
    counted = (item for item in gpu.items if item.category != "runtime" or item.name not in outside[gpu.compare])
    return max(counted, key=lambda item: item.nbytes, default=None)
