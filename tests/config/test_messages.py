"""What the files in cases/invalid do not show: which problems are left out, how many are told, how fast."""

from __future__ import annotations

import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from membudget.config.load import parse_config
from membudget.config.messages import MAX_PROBLEMS
from membudget.errors import ConfigError, Problem
from tests.config.examples import MINIMAL, minimal


def problems(text: str) -> list[Problem]:
    start = time.perf_counter()
    with pytest.raises(ConfigError) as error:
        parse_config(text, "a.yaml")
    assert time.perf_counter() - start < 2
    return error.value.problems


def problems_if_any(text: str) -> list[Problem]:
    try:
        parse_config(text, "a.yaml")
    except ConfigError as error:
        return error.problems or [Problem("", -1, -1, "an error without a problem")]
    return []


def messages(text: str) -> list[str]:
    return [problem.message for problem in problems(text)]


def test_a_misspelled_key_is_not_reported_as_missing_too() -> None:
    assert messages(minimal("hidden_size", "hiden_size")) == [
        'unknown key "hiden_size" in section model (did you mean "hidden_size"?)'
    ]


def test_another_missing_key_still_is() -> None:
    text = minimal("hidden_size", "hiden_size").replace("  head_dim: 8\n", "")
    assert len(messages(text)) == 2


def test_what_a_bad_value_brings_with_it_is_left_out() -> None:
    """The layers would be too few, the heads would not divide, and so on."""
    assert len(messages(minimal("[1, 5]", "[x]"))) == 1
    assert len(messages(minimal("num_attention_heads: 8", "num_attention_heads: 08"))) == 1
    assert len(messages(minimal("cross_entropy: {}", "cross_entropy:"))) == 1


def test_a_key_of_another_term_is_not_pointed_at() -> None:
    text = minimal("cross_entropy: {}", "cross_entropy: {method: whole}\n  kl: {chunk: 4}")
    assert [(p.line, p.column) for p in problems(text)] == [(16, 3)]


def test_a_file_full_of_problems_is_told_in_part() -> None:
    keys = "".join(f"key{i}: 1\n" for i in range(1000))
    found = problems(MINIMAL + keys)
    assert len(found) == MAX_PROBLEMS + 1
    assert found[-1].message == "950 more problems from here on"
    assert found[-1].line == 21 + MAX_PROBLEMS


@pytest.mark.parametrize("count", ["1" + "0" * 18, "1e18", "9" * 90, "1e99", "1e300"])
def test_counts_beyond_reason_are_refused_at_once(count: str) -> None:
    (message,) = messages(minimal("max_anchors: 32", f"max_anchors: {count}"))
    assert message.startswith("batch.max_anchors: ")
    assert message.endswith("is more than 1,000,000,000, the largest count that makes sense here")


def test_the_largest_product_of_counts() -> None:
    at_limit = minimal("max_anchors: 32", "max_anchors: 1e9").replace("block_size: 8", "block_size: 1000")
    assert parse_config(at_limit, "a.yaml").batch.loss_tokens == 10**12
    (message,) = messages(at_limit.replace("block_size: 1000", "block_size: 1001"))
    assert "1,001,000,000,000 loss tokens" in message


def test_a_file_of_gpus_is_checked_at_once() -> None:
    groups = "".join(
        f"    - {{role: target, memory: 1 GiB, indices: [{', '.join(map(str, range(4096)))}]}}\n" for _ in range(4)
    )
    assert any("GPU 0 is named twice" in m for m in messages(minimal("  groups:\n", f"  groups:\n{groups}")))


replacements = st.sampled_from(
    ["", "~", "0", "-1", "1e9", "1e18", ".nan", "true", "x", '"64"', "[]", "[1]", "{}", "{a: 1}", "95", "95 GB", "*a"]
)


@given(st.data())
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_any_value_in_any_place_is_read_or_refused_with_a_position(data: st.DataObject) -> None:
    lines = MINIMAL.splitlines()
    index = data.draw(st.integers(0, len(lines) - 1))
    key = lines[index].split(":")[0]
    lines[index] = f"{key}: {data.draw(replacements)}"
    for problem in problems_if_any("\n".join(lines)):
        assert 0 <= problem.line <= len(lines) + 1
        assert problem.message.isprintable()


@given(st.lists(st.sampled_from(MINIMAL.splitlines()), max_size=25))
def test_any_order_of_lines_is_read_or_refused(lines: list[str]) -> None:
    found = problems_if_any("\n".join(lines))
    assert found == sorted(found, key=lambda problem: (problem.line, problem.column))
