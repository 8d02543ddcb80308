"""Sections, settings and a device made for tests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from membudget.calculator.loss_request import LossRequest
from membudget.calculator.section_totals import section_totals
from membudget.config.models import Config
from membudget.probe.device import Sample
from membudget.probe.measurement import Measurement, Settings
from membudget.probe.prediction import Kind, inputs_bytes, predicted
from membudget.probe.probing import Options, Wanted, probe
from tests.calculator import configs

KL = {"kl": {"weight": 0.15}}


def settings(loss: Any = None, **sections: Any) -> Settings:
    """Those of a small run of 24 tokens."""
    return Settings.of(config(loss, **sections), "small")


def config(loss: Any = None, **sections: Any) -> Config:
    return configs.small(loss=KL if loss is None else loss, **sections)


@dataclass
class FakeDevice:
    """Measures what is predicted plus `excess`, unless a row is given something else to do."""

    kind: Kind = "cuda"
    free_bytes: int = 10**12
    excess: int = 0
    others: tuple[str, ...] = ()
    on_run: Callable[[LossRequest, int], Sample | None] = lambda request, count: None
    name: str = "Fake GPU"
    driver: str | None = "CUDA 13.0"
    torch_version: str = "2.13.0"
    method: str = "made up"
    ran: list[LossRequest] = field(default_factory=list)

    def warnings(self) -> tuple[str, ...]:
        return self.others

    def missing(self, method: str) -> str:
        return "no kernel" if method == "fused_kernel" else ""

    def refusal(self, request: LossRequest) -> str:
        needed = inputs_bytes(request) + section_totals(predicted(request, self.kind)).peak_bytes
        return "" if needed <= self.free_bytes else f"needs {needed}, {self.free_bytes} are free"

    def run(self, request: LossRequest) -> Sample:
        self.ran.append(request)
        made = self.on_run(request, len(self.ran))
        if made is not None:
            return made
        totals = section_totals(predicted(request, self.kind))
        return Sample(totals.peak_bytes + self.excess, totals.held_bytes, 2.5, 10**9, 2 * 10**9)


def measured(
    device: FakeDevice | None = None,
    wanted: tuple[Wanted, ...] = (("whole", None), ("fused_head", 8)),
    options: Options | None = None,
    loss: Any = None,
    **sections: Any,
) -> Measurement:
    """A probe of the small run on the fake device."""
    return probe(device or FakeDevice(), settings(loss, **sections), wanted, options or Options())
