from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from membudget.config.suggest import did_you_mean, nearest

KEYS = ["hidden_size", "head_dim", "num_hidden_layers"]


def test_the_nearest_key() -> None:
    assert nearest("hiden_size", KEYS) == "hidden_size"
    assert nearest("num_layers", KEYS) == "num_hidden_layers"
    assert nearest("HEAD_DIM", KEYS) == "head_dim"
    assert nearest("colour", KEYS) is None


def test_as_text() -> None:
    assert did_you_mean("hiden_size", KEYS) == ' (did you mean "hidden_size"?)'
    assert did_you_mean("colour", KEYS) == ""


@given(st.text(max_size=300), st.lists(st.text(max_size=30), max_size=10))
def test_it_names_a_candidate_or_nothing(word: str, candidates: list[str]) -> None:
    assert nearest(word, candidates) in {None, *candidates}
