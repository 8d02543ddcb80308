"""The Markdown of a plan."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from membudget.calculator.result import Item, Plan
from membudget.report.markdown import escaped, table
from membudget.report.plan_markdown import render
from membudget.report.screen import Screen
from tests.report.golden import assert_golden
from tests.report.samples import drafter, over_plan

UNESCAPED_BAR = re.compile(r"(?<!\\)(?:\\\\)*\|")


def test_whole_document() -> None:
    assert_golden("plan_over.md", render(over_plan(), Screen()))


def test_explain_adds_the_numbers() -> None:
    plain, explained = (render(over_plan(), Screen(explain=explain)) for explain in (False, True))
    assert "24,576 x 248,320 x 2 B" not in plain
    assert "| tokens x vocab x 2 B | 24,576 x 248,320 x 2 B |" in explained


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a|b", r"a\|b"),
        ("[bf16]", r"\[bf16\]"),
        ("<img>", r"\<img\>"),
        ("lm_head", "lm_head"),
        ("_x_", r"\_x\_"),
        ("a\nb", r"a\\nb"),
        ("*`", r"\*\`"),
    ],
)
def test_escaped(text: str, shown: str) -> None:
    assert escaped(text) == shown


@given(st.lists(st.tuples(st.text(), st.text()), max_size=5))
def test_no_text_breaks_a_row(rows: list[tuple[str, str]]) -> None:
    lines = table(("a", "b"), [[escaped(cell) for cell in row] for row in rows]).split("\n")
    assert lines.pop() == ""
    assert len(lines) == len(rows) + 2
    assert all(len(UNESCAPED_BAR.findall(line)) == 3 for line in lines)


@given(st.text(min_size=1))
def test_names_reach_the_page_escaped(name: str) -> None:
    item = Item(name, "loss", 10, name, name, "exact")
    text = render(Plan("run", (drafter(items=(item,), device_bytes=10),), (), ()), Screen())
    assert f"\n| {escaped(name)} | {escaped(name)} | " in text
