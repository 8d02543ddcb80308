from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from membudget.calculator.items import Ledger, items_at
from membudget.calculator.optimizer import Share
from membudget.calculator.parameters import Tensors
from membudget.timeline import Dim, Recorder

TOKENS, HIDDEN = Dim(256, "tokens"), Dim(64, "hidden")
ROW = Tensors("row", (TOKENS, HIDDEN))


def ledger_lines(ledger: Ledger) -> list[tuple[str, int, int, str, str]]:
    timeline = ledger.recorder.build()
    items = items_at(timeline, ledger, timeline.num_instants - 1)
    return [(i.name, i.nbytes, i.count, i.formula, i.values) for i in items]


def test_equal_allocations_are_one_line() -> None:
    ledger = Ledger(Recorder())
    for _ in range(2):
        ledger.tensors("gate", "activations", (ROW,), "bf16")
    ledger.tensors("gate", "activations", (ROW,), "bf16", times=3)
    assert ledger_lines(ledger) == [("gate", 5 * 32768, 5, "5 x tokens x hidden x 2 B", "5 x 256 x 64 x 2 B")]


def test_different_sizes_under_one_name_are_a_sum() -> None:
    ledger = Ledger(Recorder())
    for rows in (256, 256, 128):
        ledger.tensors("chunk", "loss", (Tensors("chunk", (Dim(rows, "rows"), HIDDEN)),), "fp32")
    assert ledger_lines(ledger) == [
        ("chunk", 163840, 3, "3 x rows x hidden x 4 B", "2 x 256 x 64 x 4 B + 128 x 64 x 4 B")
    ]


def test_padding_is_part_of_the_formula() -> None:
    ledger = Ledger(Recorder())
    norms = (Tensors("layernorms", (HIDDEN,), 2), Tensors("q_norm", (Dim(16, "head_dim"),)))
    ledger.tensors("norms", "parameters", norms, "bf16", times=2)
    assert ledger_lines(ledger) == [
        (
            "norms",
            2 * 3 * 512,
            2,
            "2 x ((2 x hidden + head_dim) x 2 B + padding)",
            "2 x ((2 x 64 + 16) x 2 B + 1,248 B padding)",
        )
    ]


def test_the_weakest_provenance_is_shown() -> None:
    ledger = Ledger(Recorder())
    for provenance in ("exact", "assumed", "modelled"):
        ledger.tensors("x", "inputs", (ROW,), "bf16", provenance=provenance)
    timeline = ledger.recorder.build()
    assert [item.provenance for item in items_at(timeline, ledger, 2)] == ["assumed"]


def test_lines_follow_the_groups_and_then_the_size() -> None:
    ledger = Ledger(Recorder())
    ledger.tensors("logits", "logits", (ROW,), "fp32")
    ledger.tensors("small", "parameters", (ROW,), "bf16")
    ledger.share(Share("moment", "trained parameters", (ROW,), "fp32"), "optimizer")
    ledger.tensors("large", "parameters", (ROW,), "fp32")
    assert [name for name, *_ in ledger_lines(ledger)] == ["large", "small", "moment", "logits"]


def test_what_others_record_is_listed_too() -> None:
    ledger = Ledger(Recorder())
    handle = ledger.recorder.allocate("logits", "logits", 1024, shape=(Dim(2, "tokens"), 256), dtype="bf16")
    assert ledger_lines(ledger) == [("logits", 1024, 1, "tokens x 256 x 2 B", "2 x 256 x 2 B")]
    (allocation,) = ledger.recorder.build().allocations
    assert ledger.blocks(handle, allocation) == ((1024, 1),)


counts = st.integers(1, 4)
groups = st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 3000), counts, counts), min_size=1, max_size=12)


@given(groups, st.data())
def test_lines_and_blocks_add_up_to_what_is_alive(groups: list[tuple[str, int, int, int]], data: st.DataObject) -> None:
    ledger = Ledger(Recorder())
    alive = [
        ledger.tensors(name, "loss", (Tensors(name, (size,), count),), "bf16", times=times)
        for name, size, count, times in groups
    ]
    ledger.free(data.draw(st.lists(st.sampled_from(alive), unique=True)))
    timeline = ledger.recorder.build()
    for instant, total in enumerate(timeline.totals()):
        items = items_at(timeline, ledger, instant)
        assert sum(item.nbytes for item in items) == total
        assert len({item.name for item in items}) == len(items)
    blocks = [ledger.blocks(h, a) for h, a in enumerate(timeline.allocations)]
    assert [sum(b * n for b, n in each) for each in blocks] == [a.nbytes for a in timeline.allocations]
