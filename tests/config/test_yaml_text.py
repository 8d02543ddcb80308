from __future__ import annotations

import time

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from membudget.config.scalars import ScalarError, resolve
from membudget.config.source import Source
from membudget.config.yaml_text import MAX_ALIASES, MAX_DEPTH, MAX_NODES, Document, read_yaml
from membudget.errors import ConfigError


def read(text: str) -> Document:
    return read_yaml(Source("a.yaml", text))


def refusal(text: str) -> str:
    with pytest.raises(ConfigError) as error:
        read(text)
    return error.value.problems[0].message


def test_values_and_where_they_stand() -> None:
    document = read("loss:\n  kl: {chunk: 4096}\nids:\n  - 1\n  - x: 2\n")
    assert document.data == {"loss": {"kl": {"chunk": 4096}}, "ids": [1, {"x": 2}]}
    assert document.keys == {
        ("loss",): (1, 1),
        ("loss", "kl"): (2, 3),
        ("loss", "kl", "chunk"): (2, 8),
        ("ids",): (3, 1),
        ("ids", 0): (4, 5),
        ("ids", 1): (5, 5),
        ("ids", 1, "x"): (5, 5),
    }
    assert document.values[("loss", "kl", "chunk")] == (2, 15)
    assert document.values[("ids",)] == (4, 3)


def test_quotes_make_a_text_of_anything() -> None:
    assert read("a: '1'\nb: \"true\"\nc: ''\nd: |\n  12\n").data == {
        "a": "1",
        "b": "true",
        "c": "",
        "d": "12\n",
    }


def test_line_ends_and_comments_of_all_systems_read_the_same() -> None:
    text = "# run\na: 1 # one\nb:\n  - 2\n"
    expected = read(text)
    for other in (text.replace("\n", "\r\n"), text.replace("\n", "\r"), "---\n" + text + "...\n"):
        assert read(other).data == expected.data
    assert read(text.replace("\n", "\r\n")).keys == expected.keys


def test_keys_are_taken_as_written() -> None:
    assert read("1: a\nyes: b\n~: c\n'x y': d\n").data == {"1": "a", "yes": "b", "~": "c", "x y": "d"}


def test_an_alias_repeats_its_anchor() -> None:
    document = read("a: &it {x: [1]}\nb: *it\n")
    assert document.data == {"a": {"x": [1]}, "b": {"x": [1]}}
    assert document.keys[("b", "x")] == document.keys[("a", "x")] == (1, 9)


def test_nothing_written_is_told_from_null() -> None:
    document = read("a:\nb: null\nc: ~\nd: {e: }\n")
    assert document.empty == [("a",), ("d", "e")]


@pytest.mark.parametrize("text", ["", "\n", "# only a comment\n", "---\n", "---\n...\n"])
def test_an_empty_file_holds_nothing(text: str) -> None:
    assert read(text).data is None


def test_reading_goes_on_after_a_bad_value() -> None:
    document = read("a: 010\na: 2\nb: !!int 3\nc:\n  <<: {x: 1}\n  y: 4\n")
    assert [problem.line for problem in document.problems] == [1, 2, 3, 5]
    assert document.refused == {("a",), ("b",), ("c",)}
    assert document.data["c"] == {"y": 4}


@pytest.mark.parametrize("opening", ["[", "{a: ", "- ", "? ", "- ? ", "{a: [{b: "])
@pytest.mark.parametrize("times", [MAX_DEPTH + 1, 2_000, 200_000])
def test_deep_nesting_is_refused_at_once(opening: str, times: int) -> None:
    start = time.perf_counter()
    assert "nested" in refusal(opening * times)
    assert time.perf_counter() - start < 2


def test_depth_at_its_limit() -> None:
    at_limit = "[" * MAX_DEPTH + "]" * MAX_DEPTH
    assert read(at_limit).data is not None
    assert "nested more than 50 deep" in refusal(f"[{at_limit}]")


def test_aliases_do_not_get_around_the_depth() -> None:
    half = MAX_DEPTH // 2
    inner = "[" * half + "]" * half
    assert read(f"- &a {inner}\n- " + "[" * (half - 1) + "*a" + "]" * (half - 1)).data is not None
    assert "aliases written out" in refusal(f"- &a {inner}\n- " + "[" * half + "*a" + "]" * half)


def test_a_billion_laughs_are_refused_at_once() -> None:
    lines = ["a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 10)]
    start = time.perf_counter()
    assert "keys and values" in refusal("\n".join(lines))
    assert time.perf_counter() - start < 1


def test_limits_count_exactly() -> None:
    assert len(read("[" + "1," * (MAX_NODES - 1) + "]").data) == MAX_NODES - 1
    assert "20,000 keys and values" in refusal("[" + "1," * MAX_NODES + "]")
    assert len(read("[&a 1" + ", *a" * MAX_ALIASES + "]").data) == MAX_ALIASES + 1
    assert "more than 100 aliases" in refusal("[&a 1" + ", *a" * (MAX_ALIASES + 1) + "]")


def test_the_python_parser_serves_where_the_c_parser_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(yaml, "CSafeLoader")
    assert read("a: {b: [1, 2]}\n").data == {"a": {"b": [1, 2]}}
    assert refusal("a: [1\nb: 2\n").startswith('a "," or a closing bracket is missing')
    assert refusal("a:\n\tb: 1\n") == "a tab cannot indent YAML; use spaces"
    assert refusal("a: 'x\n") == "this quote is never closed"
    assert "nested" in refusal("[" * 5000)


def outcome(text: str) -> Document | ConfigError:
    try:
        return read(text)
    except ConfigError as error:
        return error


def is_text(text: str) -> bool:
    """Not a number of YAML 1.2 that a writer of YAML 1.1, to which 0E0 is a text, leaves without quotes."""
    try:
        return isinstance(resolve(text), str)
    except ScalarError:
        return False


texts = st.text().filter(is_text)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**15), 10**15) | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=20,
)


@given(st.dictionaries(texts, values, max_size=5), st.booleans())
def test_what_a_yaml_writer_wrote_is_read_back(data: dict[str, object], is_flow: bool) -> None:
    """Characters that are refused are escaped by the writer, in quotes."""
    text = yaml.safe_dump(data, default_flow_style=is_flow)
    document = read(text)
    assert document.problems == []
    assert document.data == data


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    assert isinstance(outcome(text), Document | ConfigError)


yaml_like = st.lists(
    st.sampled_from([*"[]{}:,-?&*!|>'\"%@`#~<=\t \n\r", "a", "a: ", "- ", "\n  ", "&a ", "*a", "<<: ", "!!str "]),
    max_size=40,
).map("".join)


@given(yaml_like)
def test_any_punctuation_is_read_or_refused_with_a_position_in_the_text(text: str) -> None:
    result = outcome(text)
    problems = result.problems
    assert problems or isinstance(result, Document)
    num_lines = len(Source("a.yaml", text).lines)
    assert all(1 <= problem.line <= num_lines + 1 and problem.column >= 1 for problem in problems)
