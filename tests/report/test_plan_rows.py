"""Small lines are added up, nothing is lost."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from membudget.calculator.result import GROUPS, Item
from membudget.report.plan_rows import rows
from tests.report.samples import drafter

CATEGORIES = [category for categories in GROUPS.values() for category in categories]
ITEMS = st.builds(
    lambda category, size, number: Item(f"item {number}", category, size, "f", "v", "exact"),
    st.sampled_from(CATEGORIES),
    st.integers(0, 10**12),
    st.integers(0, 99),
)


@given(items=st.lists(ITEMS, max_size=40), everything=st.booleans())
def test_every_byte_and_every_line_is_accounted_for(items: list[Item], everything: bool) -> None:
    gpu = drafter(items=tuple(items), device_bytes=sum(item.nbytes for item in items))
    groups = list(rows(gpu, everything=everything))
    shown = [item for group in groups for item in group.items]
    assert sum(group.nbytes for group in groups) == gpu.device_bytes
    assert all(sum(item.nbytes for item in group.items) == group.nbytes for group in groups if group.items)
    assert all(group.nbytes < gpu.device_bytes * 0.03 * len(items) for group in groups if not group.items)
    assert not everything or len(shown) == len(items)
    for item in items:
        if item.category in ("logits", "targets"):
            assert item in shown


def test_what_is_added_up_is_as_uncertain_as_its_parts() -> None:
    small = [Item(f"t{i}", "activations", 1, "f", "v", "assumed" if i == 3 else "exact") for i in range(9)]
    large = Item("gate", "activations", 10**9, "f", "v", "exact")
    (group,) = rows(drafter(items=(*small, large), device_bytes=10**9 + 9), everything=False)
    assert [(item.name, item.nbytes, item.provenance) for item in group.items] == [
        ("gate", 10**9, "exact"),
        ("9 smaller items", 9, "assumed"),
    ]
    assert (group.nbytes, group.provenance) == (10**9 + 9, "assumed")
