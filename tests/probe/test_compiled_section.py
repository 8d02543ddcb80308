"""torch.compile in place of the rule, with a compiler that needs no toolchain."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from membudget.calculator.loss_request import LossRequest, with_method
from membudget.errors import CannotMeasureError
from membudget.losses import compiled
from membudget.losses.section import torch_section
from membudget.probe.compiled_section import compiled_section
from membudget.programs.section_run import SectionRun
from tests.probe.examples import settings

LOSS: dict[str, Any] = {"cross_entropy": {"method": "compiled"}, "kl": {}, "cap": {"method": "compiled"}}


def run(section: SectionRun[torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
    """Loss and the gradient of the hidden states."""
    for step in (section.targets, section.forward, section.backward):
        step()
    assert section.loss is not None
    return section.loss.detach(), section.heads.hidden.grad


def alike(request: LossRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "BACKEND", "eager")
    plain = with_method(request, "whole", None)
    torch.manual_seed(0)
    expected = run(torch_section(plain))
    torch.manual_seed(0)
    found = run(compiled_section(request, "cpu"))
    torch.testing.assert_close(found, expected)


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor")
@pytest.mark.parametrize("token_weights", [False, True])
def test_the_compiled_terms_compute_what_the_plain_ones_do(
    token_weights: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    loss = {**LOSS, "token_weights": token_weights}
    alike(settings(loss, precision={"parameters": "fp32", "frozen": "fp32"}).request, monkeypatch)


def test_a_compiler_that_fails_is_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*args: object) -> torch.Tensor:
        raise RuntimeError("no compiler\npages of text")

    monkeypatch.setattr("membudget.probe.compiled_section.compiled_loss", broken)
    section = compiled_section(settings(LOSS).request, "cpu")
    section.targets()
    with pytest.raises(CannotMeasureError, match=r"torch\.compile cannot compile it here: no compiler$"):
        section.forward()


def test_out_of_memory_stays_what_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def too_large(*args: object) -> torch.Tensor:
        raise torch.cuda.OutOfMemoryError("tried")

    monkeypatch.setattr("membudget.probe.compiled_section.compiled_loss", too_large)
    section = compiled_section(settings(LOSS).request, "cpu")
    section.targets()
    with pytest.raises(torch.cuda.OutOfMemoryError):
        section.forward()
