"""Blocks into the timeline, lines out of it.

A Ledger records allocations of many equal or similar tensors as one, and remembers the blocks behind each;
`items_at` turns what is alive at an instant into the lines of a budget.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from membudget.calculator.optimizer import Share
from membudget.calculator.parameters import Tensors
from membudget.calculator.result import GROUPS, Item
from membudget.dtypes import ITEMSIZE
from membudget.timeline import Allocation, Recorder, Timeline, formula_of, least_certain, values_of

_ORDER = {category: i for i, category in enumerate(c for group in GROUPS.values() for c in group)}
_SHOWN_PARTS = 3


@dataclass(frozen=True, slots=True)
class Entry:
    """What stands behind one allocation: its blocks, and the formula of one of its `times` equal parts."""

    blocks: tuple[tuple[int, int], ...]
    """(bytes of one block, number of blocks); they add up to the allocation."""
    formula: str
    values: str
    times: int


class Ledger:
    """A Recorder with a memory for blocks; other writers may use `recorder` directly."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.entries: dict[int, Entry] = {}

    def tensors(
        self,
        name: str,
        category: str,
        tensors: Sequence[Tensors],
        dtype: str,
        *,
        times: int = 1,
        provenance: str = "exact",
    ) -> int:
        """Record `times` such groups of tensors as one allocation; returns the handle for `free`."""
        return self._record(name, category, tensors, dtype, _group_formula(tensors, dtype), times, provenance)

    def share(self, share: Share, category: str) -> int:
        """Record one line of the optimizer."""
        count = sum(t.numel * t.count for t in share.tensors)
        size = ITEMSIZE[share.dtype]
        texts = f"{share.what} x {size} B", f"{count:,} x {size} B"
        return self._record(share.name, category, share.tensors, share.dtype, texts, 1, share.provenance)

    def free(self, handles: Iterable[int]) -> None:
        """Record the end of allocations."""
        for handle in handles:
            self.recorder.free(handle)

    def blocks(self, handle: int, allocation: Allocation) -> tuple[tuple[int, int], ...]:
        """The blocks behind an allocation, also when it was recorded elsewhere."""
        return (self.entries.get(handle) or _entry_of(allocation)).blocks

    def _record(
        self,
        name: str,
        category: str,
        tensors: Sequence[Tensors],
        dtype: str,
        texts: tuple[str, str],
        times: int,
        provenance: str,
    ) -> int:
        blocks = tuple((block, count * times) for block, count in (t.block(dtype) for t in tensors))
        nbytes = sum(block * count for block, count in blocks)
        padding = nbytes - times * sum(t.numel * t.count for t in tensors) * ITEMSIZE[dtype]
        formula, values = texts
        # Padding is named so that the numbers of a formula always give the bytes beside it.
        if padding:
            formula, values = f"{formula} + padding", f"{values} + {padding // times:,} B padding"
        single = tensors[0].shape if len(tensors) == 1 and tensors[0].count * times == 1 else ()
        handle = self.recorder.allocate(
            name,
            category,
            nbytes,
            shape=tuple(single),
            dtype=dtype,
            formula=_sum_text([(formula, times)]),
            values=_sum_text([(values, times)]),
            provenance=provenance,
        )
        self.entries[handle] = Entry(blocks, formula, values, times)
        return handle


def items_at(timeline: Timeline, ledger: Ledger, instant: int) -> list[Item]:
    """One line per name and category of what is alive, in the order of GROUPS, the largest first."""
    merged: dict[tuple[str, str], list[tuple[Allocation, Entry]]] = {}
    for handle, allocation in enumerate(timeline.allocations):
        if allocation.alive_at(instant):
            entry = ledger.entries.get(handle) or _entry_of(allocation)
            merged.setdefault((allocation.name, allocation.category), []).append((allocation, entry))
    items = [_merge(name, category, parts) for (name, category), parts in merged.items()]
    return sorted(items, key=lambda item: (_ORDER.get(item.category, len(_ORDER)), -item.nbytes, item.name))


def _entry_of(allocation: Allocation) -> Entry:
    block = allocation.nbytes // allocation.count
    return Entry(((block, allocation.count),), allocation.formula, allocation.values, allocation.count)


def _merge(name: str, category: str, parts: list[tuple[Allocation, Entry]]) -> Item:
    return Item(
        name,
        category,
        sum(allocation.nbytes for allocation, _ in parts),
        _sum_text((entry.formula, entry.times) for _, entry in parts),
        _sum_text((entry.values, entry.times) for _, entry in parts),
        least_certain(allocation.provenance for allocation, _ in parts),
        sum(entry.times for _, entry in parts),
    )


def _sum_text(parts: Iterable[tuple[str, int]]) -> str:
    counts: dict[str, int] = {}
    for text, count in parts:
        counts[text] = counts.get(text, 0) + count
    texts = [text if count == 1 else f"{count:,} x {_bracketed(text)}" for text, count in counts.items()]
    if len(texts) > _SHOWN_PARTS:
        texts = [*texts[:_SHOWN_PARTS], f"{len(texts) - _SHOWN_PARTS} more sizes"]
    return " + ".join(texts)


def _bracketed(text: str) -> str:
    """In brackets when it is a sum, outside of the brackets it has."""
    depth = 0
    for character in text:
        depth += (character == "(") - (character == ")")
        if character == "+" and depth == 0:
            return f"({text})"
    return text


def _group_formula(tensors: Sequence[Tensors], dtype: str) -> tuple[str, str]:
    """(names, numbers) of a group: `(2 x a x b + 2 x c x b) x 2 B`."""
    ending = f" x {ITEMSIZE[dtype]} B"
    sides = []
    for text_of in (formula_of, values_of):
        terms = [
            (f"{t.count:,} x " if t.count > 1 else "") + text_of(t.shape, dtype).removesuffix(ending) for t in tensors
        ]
        joined = terms[0] if len(terms) == 1 else f"({' + '.join(terms)})"
        sides.append(joined + ending)
    return sides[0], sides[1]
