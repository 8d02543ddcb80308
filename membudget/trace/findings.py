"""What a timeline says about its code: what repeated lines hold, what they free, what outlives backward."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field

from membudget.timeline import Allocation, Timeline
from membudget.trace.events import Place
from membudget.trace.loops import Loop, loop_of
from membudget.trace.owners import listed, owners_of
from membudget.trace.result import Finding
from membudget.units import format_both

NEGLIGIBLE = 100
"""What is less than one part in so many is not spoken of: running sums, row statistics."""

Placed = tuple[Allocation, Place]


def findings_of(
    timeline: Timeline, places: Sequence[Place], expected: Collection[int] = frozenset()
) -> tuple[Finding, ...]:
    """In the order of the source: what its loops and repeated lines hold until backward, then what is left after it.

    `places` has one place per allocation; `expected` numbers the allocations that may live on: the loss, what the
    caller got, and the gradients of what the section started from.
    """
    placed = [
        each for index, each in enumerate(zip(timeline.allocations, places, strict=True)) if index not in expected
    ]
    forward = next((phase for phase in timeline.phases if phase.name == "forward"), None)
    if forward is None:
        return ()
    in_forward = [each for each in placed if each[1] and forward.first <= each[0].born < forward.end]
    in_loops, elsewhere = _by_loop(in_forward, forward.end - 1)
    found = [_of_loop(loop, use) for loop, use in sorted(in_loops.items()) if use.iterations > 1]
    repeated = list(_repeated(elsewhere, timeline))
    return (*found, *repeated, *_left_over(placed, timeline))


@dataclass
class _Use:
    """What was allocated inside a loop, or by a line, during forward."""

    born: list[Placed] = field(default_factory=list)
    held: list[Placed] = field(default_factory=list)
    """Alive when forward ends."""

    def add(self, each: Placed, end_of_forward: int) -> None:
        self.born.append(each)
        if each[0].alive_at(end_of_forward):
            self.held.append(each)

    @property
    def iterations(self) -> int:
        """How often the largest of its tensors was made."""
        largest, place = max(self.born, key=lambda each: each[0].nbytes)
        return sum(1 for allocation, other in self.born if (allocation.name, other) == (largest.name, place))

    @property
    def held_bytes(self) -> int:
        return sum(allocation.nbytes for allocation, _ in self.held)

    @property
    def holds(self) -> bool:
        """Whether what it holds is worth a word."""
        return self.held_bytes * NEGLIGIBLE > sum(allocation.nbytes for allocation, _ in self.born)


def _by_loop(placed: list[Placed], end_of_forward: int) -> tuple[dict[Loop, _Use], dict[Place, _Use]]:
    """What loops use, and what instructions outside of any loop do."""
    in_loops: dict[Loop, _Use] = defaultdict(_Use)
    elsewhere: dict[Place, _Use] = defaultdict(_Use)
    for each in placed:
        loop = loop_of(each[1])
        use = elsewhere[each[1][:1]] if loop is None else in_loops[loop]
        use.add(each, end_of_forward)
    return in_loops, elsewhere


def _of_loop(loop: Loop, use: _Use) -> Finding:
    where = f"{loop.file}:{_lines(loop.first_line, loop.last_line)}"
    if not use.holds:
        text = f"this loop holds next to nothing until backward: {where}: each chunk's tensors die with the chunk"
        return Finding("loop_frees", loop.file, loop.first_line, loop.last_line, use.held_bytes, text)
    text = (
        f"held memory is not reduced by this loop: {where}: what its iterations save stays until backward, "
        f"{format_both(use.held_bytes)} in all: {listed(owners_of(use.held, NEGLIGIBLE), loop.file)}"
    )
    return Finding("loop_holds", loop.file, loop.first_line, loop.last_line, use.held_bytes, text)


def _repeated(elsewhere: dict[Place, _Use], timeline: Timeline) -> Iterator[Finding]:
    """Lines that run several times without a loop around them in the source: map, reduce, recursion."""
    peak_bytes = timeline.peak().nbytes
    for ((file, line, _),), use in sorted(elsewhere.items()):
        largest, _ = max(use.born, key=lambda each: each[0].nbytes)
        times = sum(1 for allocation, _ in use.born if allocation.name == largest.name)
        if times > 1 and use.holds and use.held_bytes * NEGLIGIBLE > peak_bytes:
            text = (
                f"held memory is not reduced by repeating this line: {file}:{line}: it runs {times:,} times, and what "
                f"it saves each time stays until backward, {format_both(use.held_bytes)} in all: "
                f"{listed(owners_of(use.held, NEGLIGIBLE), file)}"
            )
            yield Finding("repeats_hold", file, line, line, use.held_bytes, text)


def _left_over(placed: list[Placed], timeline: Timeline) -> Iterator[Finding]:
    """Not freed by a backward that has run: something outside the loss refers to its graph."""
    files: dict[str, list[Placed]] = defaultdict(list)
    for allocation, place in placed:
        if allocation.dies is None and place:
            files[place[0][0]].append((allocation, place))
    for file, left in sorted(files.items()):
        left_bytes = sum(allocation.nbytes for allocation, _ in left)
        if left_bytes * NEGLIGIBLE > timeline.peak().nbytes:
            yield _of_left_over(file, left, left_bytes)


def _of_left_over(file: str, left: list[Placed], left_bytes: int) -> Finding:
    owners = owners_of(left, NEGLIGIBLE)
    numbers = [owner.line for owner in owners]
    text = (
        f"still alive after backward: {file}: {listed(owners, file)}: something beside the loss refers to it, such as "
        f"a metric that was not detached; detach it, or compute it under torch.no_grad()"
    )
    return Finding("alive_after_backward", file, min(numbers), max(numbers), left_bytes, text)


def _lines(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}-{last}"
