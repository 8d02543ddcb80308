"""Long loops over chunks, folded: two short runs tell what any longer one does.

A loop over equal chunks allocates and frees the same in each iteration, so the events of a run with one chunk more
are those of the shorter run with a block repeated in every loop. In the longer of two short runs, behind a block in
the middle of each loop, twins are born (or die) that stand for what all iterations left out add (or take away).
Tensors over all tokens grow to their size. What is alive at the same place of successive iterations changes by the
same amount each time, so the largest total among those left out is at the first or the last, and both are kept: no
peak changes. None is returned where two runs do not differ in this way; then nothing is folded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from math import prod

from membudget.allocator import block_bytes
from membudget.dtypes import ITEMSIZE
from membudget.timeline import Allocation, Dim, Recorder, Timeline

SHORT_CHUNKS = 6
"""Full chunks of the shorter run, enough for iterations on both sides of the middle."""

Kind = tuple[object, ...]
Block = tuple[int, int]
"""First event and end of a repeated block, in events of the longer run."""


def folded(run: Callable[[int], Timeline], tokens: int, chunk: int) -> Timeline | None:
    """The timeline of `run(tokens)` for loops over chunks of `chunk` tokens, from two short runs."""
    rest = tokens % chunk
    short, longer = (run(num * chunk + rest) for num in (SHORT_CHUNKS, SHORT_CHUNKS + 1))
    if [phase.name for phase in short.phases] != [phase.name for phase in longer.phases]:
        return None
    blocks: list[Block] = []
    kinds = _event_kinds(short), _event_kinds(longer)
    for left, right in zip(short.phases, longer.phases, strict=True):
        found = _repeated_blocks(kinds[0][left.first : left.end], kinds[1][right.first : right.end])
        if found is None:
            return None
        blocks += [(right.first + first, right.first + end) for first, end in found]
    return _Stretched(longer, kinds[1], tokens, tokens // chunk - (SHORT_CHUNKS + 1)).build(blocks)


def _event_kinds(timeline: Timeline) -> list[Kind]:
    """For each event whether it is a birth, and all that two equal allocations share; the number of tokens aside."""
    kinds = [_kind(allocation) for allocation in timeline.allocations]
    return [(event >= 0, *kinds[event if event >= 0 else ~event]) for event in timeline.events()]


def _kind(allocation: Allocation) -> Kind:
    shape = tuple("tokens" if _counts_tokens(d) else int(d) for d in allocation.shape)
    return allocation.name, allocation.category, allocation.dtype, shape, allocation.provenance


def _counts_tokens(size: int) -> bool:
    return isinstance(size, Dim) and size.name == "tokens"


def _repeated_blocks(short: list[Kind], longer: list[Kind]) -> list[Block] | None:
    """Blocks that the longer sequence has once more than the shorter, each moved to the middle of its loop."""
    blocks: list[Block] = []
    shift = 0
    index = 0
    while index < len(short) or index + shift < len(longer):
        place = index + shift
        if index < len(short) and place < len(longer) and short[index] == longer[place]:
            index += 1
            continue
        length = _extra_length(short[index:], longer, place)
        if length is None:
            return None
        moved = _to_the_middle(longer, place, length)
        if moved is None:
            return None
        blocks.append(moved)
        shift += length
    return blocks


def _extra_length(rest: list[Kind], longer: list[Kind], place: int) -> int | None:
    """The length of the block before `place` that is repeated there, after which the sequences meet again.

    Of several, the one after which they agree longest; a whole iteration agrees to the end of the next loop.
    """
    best: tuple[int, int] | None = None
    for length in range(1, min(place, len(longer) - place) + 1):
        if longer[place : place + length] == longer[place - length : place]:
            agreed = _agreement(rest, longer, place + length)
            ends_together = not rest and place + length == len(longer)
            if (agreed or ends_together) and (best is None or agreed > best[0]):
                best = agreed, length
    return best[1] if best else None


def _agreement(rest: list[Kind], longer: list[Kind], place: int) -> int:
    agreed = 0
    while agreed < len(rest) and place + agreed < len(longer) and rest[agreed] == longer[place + agreed]:
        agreed += 1
    return agreed


def _to_the_middle(longer: list[Kind], place: int, length: int) -> Block | None:
    """The same block some iterations earlier; None when the loop has no middle."""
    block = longer[place : place + length]
    earlier = 0
    while place >= (earlier + 1) * length:
        first = place - (earlier + 1) * length
        if longer[first : first + length] != block:
            break
        earlier += 1
    if earlier < 2:
        return None
    first = place - earlier // 2 * length
    return first, first + length


class _Stretched:
    """The longer run with `extra` more iterations in each of its loops, recorded as twins."""

    def __init__(self, longer: Timeline, kinds: list[Kind], tokens: int, extra: int) -> None:
        self.longer = longer
        self.kinds = kinds
        self.extra = extra
        self.events = longer.events()
        self.allocations = [_over(allocation, tokens) for allocation in longer.allocations]
        self.recorder = Recorder(longer.phases[0].name)
        self.twins: dict[Kind, list[int]] = {}
        """Alive ones by kind."""

    def build(self, blocks: list[Block]) -> Timeline | None:
        """None when a block takes away what none before it added."""
        first_of = {end: first for first, end in blocks}
        handles: dict[int, int] = {}
        for phase in self.longer.phases:
            self.recorder.phase(phase.name)
            for place in range(phase.first, phase.end):
                event = self.events[place]
                if event >= 0:
                    handles[event] = self.recorder.repeat(self.allocations[event])
                else:
                    self.recorder.free(handles.pop(~event))
                end = place + 1
                if end in first_of and not self._repeat(first_of[end], end):
                    return None
        return self.recorder.build()

    def _repeat(self, first: int, end: int) -> bool:
        """What `extra` more of these blocks add or take away; what they take goes first."""
        born: dict[Kind, Allocation] = {}
        net: Counter[Kind] = Counter()
        for place in range(first, end):
            is_born, *rest = self.kinds[place]
            kind = tuple(rest)
            net[kind] += 1 if is_born else -1
            if is_born:
                born[kind] = self.allocations[self.events[place]]
        for kind, change in sorted(net.items(), key=lambda item: item[1]):
            waiting = self.twins.setdefault(kind, [])
            if len(waiting) < -change:
                return False
            for _ in range(-change):
                self.recorder.free(waiting.pop())
            for _ in range(change):
                waiting.append(self._twin(born[kind]))
        return True

    def _twin(self, one: Allocation) -> int:
        return self.recorder.repeat(replace(one, nbytes=one.nbytes * self.extra, count=self.extra))


def _over(allocation: Allocation, tokens: int) -> Allocation:
    """The allocation as it is when the run has so many tokens."""
    if not any(_counts_tokens(size) for size in allocation.shape):
        return allocation
    shape = tuple(Dim(tokens, "tokens") if _counts_tokens(size) else size for size in allocation.shape)
    return replace(allocation, shape=shape, nbytes=block_bytes(prod(shape) * ITEMSIZE[allocation.dtype]))
