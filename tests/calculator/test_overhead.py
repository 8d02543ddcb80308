from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from membudget.calculator.overhead import MIB, runtime_items, segment_bytes, workspace_bytes
from membudget.catalog.gpus import find_gpu

blocks = st.lists(st.tuples(st.integers(1, 10**5).map(lambda n: 512 * n), st.integers(1, 50)), max_size=8)


def test_segments_by_hand() -> None:
    assert segment_bytes([]) == 0
    assert segment_bytes([(512, 1)]) == 2 * MIB
    assert segment_bytes([(MIB, 2)]) == 2 * MIB
    assert segment_bytes([(MIB + 512, 1)]) == 20 * MIB
    assert segment_bytes([(8_519_680, 2)]) == 20 * MIB
    assert segment_bytes([(10 * MIB, 1)]) == 10 * MIB
    assert segment_bytes([(10 * MIB + 512, 3)]) == 36 * MIB
    assert segment_bytes([(33_554_432, 2)]) == 64 * MIB


@given(blocks)
def test_segments_hold_the_blocks_and_little_more(blocks: list[tuple[int, int]]) -> None:
    total = sum(nbytes * count for nbytes, count in blocks)
    large = sum(count for nbytes, count in blocks if nbytes >= 10 * MIB)
    reserved = segment_bytes(blocks)
    assert reserved % (2 * MIB) == 0
    assert total <= reserved < total + 22 * MIB + large * 2 * MIB


@given(blocks, st.tuples(st.integers(1, 10**5).map(lambda n: 512 * n), st.integers(1, 9)))
def test_one_more_block_never_reserves_less(blocks: list[tuple[int, int]], more: tuple[int, int]) -> None:
    assert segment_bytes(blocks) <= segment_bytes([*blocks, more])


def test_workspaces_follow_the_architecture() -> None:
    assert workspace_bytes(find_gpu("rtx-pro-6000-blackwell")) == (33_554_432, "exact")
    assert workspace_bytes(find_gpu("a100-80gb")) == (8_519_680, "exact")
    assert workspace_bytes(None) == (33_554_432, "assumed")


def test_runtime_lines_are_what_lies_between_the_totals() -> None:
    slack, context = runtime_items(allocated_bytes=100, reserved_bytes=130, cuda_context_bytes=50)
    assert (slack.nbytes, context.nbytes) == (30, 50)
    assert (slack.provenance, context.provenance) == ("modelled", "assumed")
