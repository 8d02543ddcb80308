"""Which lines of a budget are shown: those that matter, or all of them with --explain."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from membudget.calculator.result import GROUPS, GpuPlan, Item
from membudget.report.words import plural
from membudget.timeline import least_certain

_MOST_ROWS = {"logits and loss": 12}
_MOST_ROWS_ELSEWHERE = 4
_ALWAYS = frozenset({"logits", "targets"})
"""Categories that are shown however small: they are what people look for."""


@dataclass(frozen=True)
class Rows:
    """One group of the budget."""

    group: str
    nbytes: int
    provenance: str
    items: tuple[Item, ...]
    """The largest first; small ones are one last item that says how many they are. Empty when all are small."""


def rows(gpu: GpuPlan, *, everything: bool) -> Iterator[Rows]:
    """The groups that hold anything, in order; without `everything` small items are added up."""
    for group, categories in GROUPS.items():
        items = sorted((i for i in gpu.items if i.category in categories), key=lambda item: -item.nbytes)
        if not items:
            continue
        most = len(items) if everything else _MOST_ROWS.get(group, _MOST_ROWS_ELSEWHERE)
        least_bytes = 0 if everything else gpu.device_bytes * 3 // 100
        shown = _without_small(items, most, least_bytes)
        provenance = least_certain(item.provenance for item in items)
        yield Rows(group, sum(item.nbytes for item in items), provenance, tuple(shown))


def _without_small(items: list[Item], most: int, least_bytes: int) -> list[Item]:
    large = [i for i, item in enumerate(items) if item.category in _ALWAYS or (i < most and item.nbytes >= least_bytes)]
    small = [item for i, item in enumerate(items) if i not in large]
    if not large:
        return []
    if len(small) < 2:
        return items
    rest = Item(
        name=plural(len(small), "smaller item"),
        category=small[0].category,
        nbytes=sum(item.nbytes for item in small),
        formula="see --explain",
        values="",
        provenance=least_certain(item.provenance for item in small),
        count=len(small),
    )
    return [*(items[i] for i in large), rest]
