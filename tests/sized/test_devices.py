"""Where the engine speaks of a GPU it differs from the CPU, which is measured, by the documented rules alone."""

from __future__ import annotations

import ast
import os
from pathlib import Path

import pytest

from membudget import sized
from tests.sized.cuda_rules import (
    difference_beside_host,
    difference_on_device,
    difference_on_host,
    fused_terms,
    is_on_device,
    is_on_host,
)
from tests.sized.matrix import CASES

ON_DEVICE = [case for case in CASES if is_on_device(case)][:: 8 if os.environ.get("MEMBUDGET_QUICK") else 1]
BESIDE_HOST = [case for case in CASES if not is_on_device(case) and not is_on_host(case)]
ON_HOST = [case for case in CASES if is_on_host(case)]
PARTS = 4


@pytest.mark.parametrize("part", range(PARTS))
def test_cuda_differs_by_the_documented_rules(part: int) -> None:
    for request in ON_DEVICE[part::PARTS]:
        found = difference_on_device(request)
        assert not found, f"{request}\n{found}"


def test_casts_that_a_gpu_fuses_occur() -> None:
    """The comparison above would prove little if no case had anything to leave out."""
    assert sum(bool(fused_terms(request)) for request in ON_DEVICE) >= 40


def test_a_term_on_the_host_leaves_the_logits_their_gradient_and_the_loss() -> None:
    assert len(ON_HOST) >= 40
    for request in ON_HOST:
        found = difference_on_host(request)
        assert not found, f"{request}\n{found}"


def test_a_term_on_the_host_changes_nothing_for_the_others() -> None:
    assert len(BESIDE_HOST) >= 200
    for request in BESIDE_HOST[:: len(BESIDE_HOST) // 100]:
        found = difference_beside_host(request)
        assert not found, f"{request}\n{found}"


DEVICE_RULES = {
    "session.py": {"__init__", "_storage"},
    "casts.py": {"elementwise"},
    "elementwise.py": {"number", "scale_"},
    "indexing.py": {"_cpu_scatter_buffer", "_to_host_backward", "to_device"},
    "reductions.py": {"_softmax"},
    "namespace.py": {"on_cuda"},
}
"""Every function of the engine that asks which device it speaks of."""


def test_nothing_else_looks_at_the_device() -> None:
    found: dict[str, set[str]] = {}
    for path in Path(sized.__file__).parent.glob("*.py"):
        for function in ast.walk(ast.parse(path.read_text(encoding="ascii"))):
            if isinstance(function, ast.FunctionDef) and any(
                isinstance(node, ast.Attribute) and node.attr == "device" for node in ast.walk(function)
            ):
                found.setdefault(path.name, set()).add(function.name)
    assert found == DEVICE_RULES
