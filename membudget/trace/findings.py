"""What a timeline says about the code that made it: loops that hold, loops that do not, and what outlives backward."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, field

from membudget.timeline import Allocation, Timeline
from membudget.trace.events import Place
from membudget.trace.loops import Loop, loop_of
from membudget.trace.result import Finding
from membudget.units import format_both

NEGLIGIBLE = 100
"""What is less than one part in so many is not spoken of: running sums, row statistics."""

Placed = tuple[Allocation, Place]


def findings_of(
    timeline: Timeline, places: Sequence[Place], expected: Container[int] = frozenset()
) -> tuple[Finding, ...]:
    """In the order of the source: what its loops hold until backward, then what is left after it.

    `places` has one place per allocation; `expected` numbers the allocations that may outlive backward: the loss and
    the gradients of what the section started from.
    """
    placed = list(zip(timeline.allocations, places, strict=True))
    forward = next((phase for phase in timeline.phases if phase.name == "forward"), None)
    if forward is None:
        return ()
    in_forward = [each for each in placed if forward.first <= each[0].born < forward.end]
    loops = sorted(_by_loop(in_forward, forward.end - 1).items())
    found = [_of_loop(loop, use) for loop, use in loops if use.iterations > 1]
    return (*found, *_left_over(placed, timeline, expected))


@dataclass
class _LoopUse:
    """What was allocated inside a loop during forward."""

    born_bytes: int = 0
    held: list[Placed] = field(default_factory=list)
    """Alive when forward ends."""
    times: dict[Place, int] = field(default_factory=lambda: defaultdict(int))

    @property
    def iterations(self) -> int:
        """How often the line that ran most often ran, which is how often the loop ran or more."""
        return max(self.times.values(), default=0)

    @property
    def held_bytes(self) -> int:
        return sum(allocation.nbytes for allocation, _ in self.held)


def _by_loop(placed: list[Placed], end_of_forward: int) -> dict[Loop, _LoopUse]:
    uses: dict[Loop, _LoopUse] = defaultdict(_LoopUse)
    for allocation, place in placed:
        loop = loop_of(place)
        if loop is not None:
            use = uses[loop]
            use.born_bytes += allocation.nbytes
            use.times[place] += 1
            if allocation.alive_at(end_of_forward):
                use.held.append((allocation, place))
    return uses


def _of_loop(loop: Loop, use: _LoopUse) -> Finding:
    where = f"{loop.file}:{_lines(loop.first_line, loop.last_line)}"
    if use.held_bytes * NEGLIGIBLE <= use.born_bytes:
        text = f"this loop holds next to nothing until backward: {where}: each chunk's tensors die with the chunk"
        return Finding("loop_frees", loop.file, loop.first_line, loop.last_line, use.held_bytes, text)
    text = (
        f"held memory is not reduced by this loop: {where}: what its iterations save stays until backward, "
        f"{format_both(use.held_bytes)} in all: {_listed(_by_line(use.held, use.held_bytes))}"
    )
    return Finding("loop_holds", loop.file, loop.first_line, loop.last_line, use.held_bytes, text)


def _left_over(placed: list[Placed], timeline: Timeline, expected: Container[int]) -> Iterator[Finding]:
    """Not freed by a backward that has run: something outside the loss refers to its graph."""
    files: dict[str, list[Placed]] = defaultdict(list)
    for index, (allocation, place) in enumerate(placed):
        if allocation.dies is None and place and index not in expected:
            files[place[0][0]].append((allocation, place))
    for file, left in sorted(files.items()):
        left_bytes = sum(allocation.nbytes for allocation, _ in left)
        if left_bytes * NEGLIGIBLE > timeline.peak().nbytes:
            yield _of_left_over(file, left, left_bytes)


def _of_left_over(file: str, left: list[Placed], left_bytes: int) -> Finding:
    lines = _by_line(left, left_bytes)
    numbers = [line for line, _, _ in lines]
    text = (
        f"still alive after backward: {file}: {_listed(lines)}: something beside the loss refers to it, such as a "
        f"metric that was not detached; detach it, or compute it under torch.no_grad()"
    )
    return Finding("alive_after_backward", file, min(numbers), max(numbers), left_bytes, text)


def _by_line(placed: list[Placed], total_bytes: int) -> list[tuple[int, int, str]]:
    """(line, bytes, names) of the lines that are not negligible, in order."""
    nbytes: dict[int, int] = defaultdict(int)
    names: dict[int, dict[str, None]] = defaultdict(dict)
    for allocation, place in placed:
        line = place[0][1]
        nbytes[line] += allocation.nbytes
        names[line][allocation.name] = None
    return [
        (line, size, ", ".join(names[line])) for line, size in sorted(nbytes.items()) if size * NEGLIGIBLE > total_bytes
    ]


def _listed(lines: list[tuple[int, int, str]]) -> str:
    return ", ".join(f"line {line} {format_both(nbytes)} ({names})" for line, nbytes, names in lines)


def _lines(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}-{last}"
