"""The agreement has teeth: whichever rule of the engine is broken, some case of the suite no longer agrees."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from membudget import sized
from membudget.calculator import loss_run
from membudget.calculator.loss_run import run_section
from membudget.sized.namespace import SizedOps
from membudget.timeline import Timeline
from tests.sized.comparison import difference, record
from tests.sized.cuda_rules import difference_on_device, difference_on_host, is_on_device, is_on_host
from tests.sized.matrix import CASES
from tests.sized.mutations import CASTS, CHECKPOINTS, DEVICES, ENGINE, Mutation
from tests.sized.mutations_of_operators import ELEMENTWISE, REDUCTIONS, TOKEN_WEIGHTS, VIEWS_AND_PRODUCTS
from tests.sized.test_graphs import GRAPHS, allocator_of_graph, difference_of_graph

MUTATIONS = [*ENGINE, *CHECKPOINTS, *CASTS, *ELEMENTWISE, *VIEWS_AND_PRODUCTS, *REDUCTIONS, *TOKEN_WEIGHTS]
NUM_SECTIONS = 120
SOURCES = Path(sized.__file__).parent


@cache
def sections() -> list[Timeline]:
    """What the allocator says of the first cases of the matrix."""
    return record(CASES[:NUM_SECTIONS])


@cache
def graphs() -> dict[tuple[str, int], list[int]]:
    """What the allocator says of the graphs that no loss has, run once and twice."""
    return {(name, times): allocator_of_graph(GRAPHS[name], times=times) for name in GRAPHS for times in (1, 2)}


def disagreements(ops: Callable[..., Any]) -> Iterator[str]:
    """Where the allocator and an engine whose namespace is `ops` part."""
    for (name, times), allocator_events in graphs().items():
        yield difference_of_graph(allocator_events, GRAPHS[name], ops, times=times)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loss_run, "SizedOps", ops)
        for request, allocator in zip(CASES, sections(), strict=False):
            yield difference(allocator, run_section(request, device="cpu"))


def mutant(mutation: Mutation, folder: Path) -> Any:
    """The namespace of a copy of the engine with one edit; `folder` is on the path."""
    package = folder / "mutant"
    package.mkdir()
    for path in SOURCES.glob("*.py"):
        text = path.read_text(encoding="ascii")
        if path.name == mutation.file:
            assert text.count(mutation.old) == 1, f"{mutation.file} has changed: break this rule anew"
            text = text.replace(mutation.old, mutation.new)
        (package / path.name).write_text(text.replace("membudget.sized", "mutant"), encoding="ascii")
    try:
        return importlib.import_module("mutant.namespace").SizedOps
    finally:
        for module in [module for module in sys.modules if module.partition(".")[0] == "mutant"]:
            del sys.modules[module]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder on the path."""
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def test_the_engine_as_it_is_agrees() -> None:
    assert not any(disagreements(SizedOps))


def test_a_copy_of_the_engine_agrees(folder: Path) -> None:
    """Copying alone, an edit that changes nothing, is not what the mutants are caught for."""
    assert not any(disagreements(mutant(ENGINE[0]._replace(new=ENGINE[0].old), folder)))


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.rule)
def test_a_broken_rule_is_noticed(mutation: Mutation, folder: Path) -> None:
    assert any(disagreements(mutant(mutation, folder)))


@pytest.mark.parametrize("mutation", DEVICES, ids=lambda mutation: mutation.rule)
def test_a_broken_rule_of_gpus_is_noticed(mutation: Mutation, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loss_run, "SizedOps", mutant(mutation, folder))
    on_device = (difference_on_device(case) for case in CASES[:NUM_SECTIONS] if is_on_device(case))
    on_host = (difference_on_host(case) for case in CASES if is_on_host(case))
    assert any(chain(on_host, on_device))


def test_every_rule_is_broken_once() -> None:
    every = [*MUTATIONS, *DEVICES]
    assert len({mutation.rule for mutation in every}) == len(every) >= 25
    assert len({mutation[1:] for mutation in every}) == len(every)
