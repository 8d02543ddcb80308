"""The table of a plan: whole screens, and that no number is ever cut."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from membudget.calculator.result import Item, Plan
from membudget.report.plan_table import render
from membudget.report.screen import Screen
from tests.report.golden import assert_golden
from tests.report.samples import drafter, fitting_plan, over_plan, target

SGR = re.compile(r"\x1b\[[0-9;]*m")


@pytest.mark.parametrize("width", [80, 120])
def test_whole_screen(width: int) -> None:
    text = render(over_plan(), Screen(width))
    assert_golden(f"plan_over_{width}.txt", text)
    assert max(map(len, text.splitlines())) <= width
    assert text.isascii()


def test_explained() -> None:
    assert_golden("plan_explained_100.txt", render(fitting_plan(), Screen(100, explain=True)))


def test_narrow_terminal_keeps_the_numbers() -> None:
    text = render(over_plan(), Screen(40))
    assert text.count("12,205,424,640") == 2
    assert "#" not in text


def test_color_adds_nothing_but_color() -> None:
    plain = render(over_plan(), Screen(80))
    colored = render(over_plan(), Screen(80, color=True))
    assert "\x1b" not in plain
    assert "\x1b[1;31m" in colored
    without = "".join(f"{line.rstrip()}\n" for line in SGR.sub("", colored).splitlines())
    assert without == plain


@pytest.mark.parametrize("name", ["AdamW [bf16]", "[red]x[/red]", ":smile:", "http://a.b/[1]", "100%", "a\x1b[31mb"])
def test_names_are_never_markup(name: str) -> None:
    item = Item(name, "loss", 1_234_567_890, name, name, "exact")
    text = render(Plan(name, (drafter(items=(item,), gpu_name=name),), (name,), (name,)), Screen(120, explain=True))
    shown = name.replace("\x1b", "\\x1b")
    # Headline above and below, GPU, item, note, not included; the values repeat the formula and are left out.
    assert text.count(shown) == 7
    assert "\x1b" not in text


@settings(max_examples=40, deadline=None)
@given(
    sizes=st.lists(st.integers(0, 10**18), min_size=1, max_size=6),
    width=st.integers(1, 200),
    name=st.text(min_size=1, max_size=60),
)
def test_no_number_is_cut_at_any_width(sizes: list[int], width: int, name: str) -> None:
    items = tuple(Item(name, "logits", size, name, name, "modelled") for size in sizes)
    plan = Plan("run", (drafter(items=items, phase_peaks=(("load", sizes[0]),)),), (), ())
    text = render(plan, Screen(width))
    words = set(re.split(r"\s+", text))
    assert {f"{size:,}" for size in [*sizes, sum(sizes), drafter().device_bytes]} <= words


def test_gpus_that_differ_get_a_line() -> None:
    fuller = replace(target(1), device_bytes=target(1).device_bytes + 10**9)
    text = render(Plan("run", (target(0), fuller, target(2)), (), ()), Screen(80))
    assert "\nGPU 1 (target): RTX PRO 6000 Blackwell\n" in text
    assert "GPUs 0, 2 (target): device total 9.54 GB, fits with 85.46 GB = 79.59 GiB left\n" in text
    assert text.count("weights:") == 1
