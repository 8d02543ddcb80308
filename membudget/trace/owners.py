"""Source lines and the bytes they own."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from membudget.timeline import Allocation
from membudget.trace.events import Place
from membudget.units import format_both


@dataclass(frozen=True, order=True)
class Owner:
    """One line, and what it made."""

    file: str
    line: int
    nbytes: int
    names: tuple[str, ...]


def owners_of(placed: Iterable[tuple[Allocation, Place]], negligible: int) -> list[Owner]:
    """By file and line; lines and names with less than one part in `negligible` of the bytes are left out."""
    sizes: dict[tuple[str, int], dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for allocation, place in placed:
        file, line, _ = place[0]
        sizes[file, line][allocation.name] += allocation.nbytes
    total_bytes = sum(sum(names.values()) for names in sizes.values())
    owners = []
    for (file, line), names in sorted(sizes.items()):
        nbytes = sum(names.values())
        if nbytes * negligible > total_bytes:
            owners.append(
                Owner(file, line, nbytes, tuple(n for n, size in names.items() if size * negligible > nbytes))
            )
    return owners


def listed(owners: Iterable[Owner], file: str) -> str:
    """`line 11 24.41 GB = 22.73 GiB (log_softmax), ...`; lines of other files say which."""
    return ", ".join(
        f"{'' if owner.file == file else os.path.basename(owner.file) + ' '}line {owner.line} "
        f"{format_both(owner.nbytes)} ({', '.join(owner.names)})"
        for owner in owners
    )
