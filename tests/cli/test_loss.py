"""`loss`: flags, bounds, and what the comparison shows."""

from __future__ import annotations

import json
from typing import Any

import pytest

from membudget.cli.app import main
from membudget.cli.loss_terms import METHODS, TermFlags, build_terms
from membudget.config.libraries import LIBRARY_METHODS
from membudget.config.loss import TERMS, CrossEntropy, Jsd, KlTopK

Capture = pytest.CaptureFixture[str]
SIZES = ["--tokens", "64", "--vocab", "1_000", "--hidden", "32"]


def rows(capsys: Capture, *words: str) -> dict[str, dict[str, Any]]:
    assert main(["loss", *words, "--format", "json"]) == 0
    return {row["method"]: row for row in json.loads(capsys.readouterr().out)["results"]}


def test_the_incident(capsys: Capture) -> None:
    line = "kl --tokens 24576 --vocab 248320 --hidden 5120 --chunk 4096"
    found = rows(capsys, *line.split())
    assert tuple(found) == tuple(method for method in METHODS if method not in LIBRARY_METHODS)
    logits = 24_576 * 248_320 * 2
    # Logits and targets kept, two bf16 probabilities held: chunking changes none of it.
    assert found["whole"]["held_bytes"] // logits == found["chunked"]["held_bytes"] // logits == 4
    assert found["chunked"]["forward_peak_bytes"] < found["whole"]["forward_peak_bytes"]
    assert 5 * found["fused_head"]["peak_bytes"] < found["whole"]["peak_bytes"]
    assert main(["loss", *line.split()]) == 0
    assert "chunked, chunked_slices: held memory is that of whole," in capsys.readouterr().out.replace("\n", " ")


def test_libraries_compute_cross_entropy_alone(capsys: Capture) -> None:
    assert tuple(rows(capsys, "cross_entropy", *SIZES)) == METHODS
    assert not LIBRARY_METHODS.intersection(rows(capsys, "cross_entropy", "kl", *SIZES))
    main(["loss", "kl", *SIZES])
    reason = (
        "torch_linear_cross_entropy, liger, cut_cross_entropy: method of a library: it computes cross_entropy alone"
    )
    assert f"not priced: {reason}" in capsys.readouterr().out.replace("\n", " ")


def test_one_method(capsys: Capture) -> None:
    words = ["kl", "--tokens", "640", *SIZES[2:], "--method", "chunked", "--chunk", "100"]
    found = rows(capsys, *words)
    assert list(found) == ["chunked"]
    assert found["chunked"]["chunk"] == 100
    main(["loss", *words])
    assert "held memory is that of whole" in capsys.readouterr().out


def test_default_chunk_is_said(capsys: Capture) -> None:
    assert rows(capsys, "kl", *SIZES)["chunked"]["chunk"] == 64
    assert rows(capsys, "kl", "--tokens", "10000", *SIZES[2:])["chunked"]["chunk"] == 4096
    main(["loss", "kl", "--tokens", "10000", *SIZES[2:]])
    assert "chunk 4,096 tokens" in capsys.readouterr().out


def test_several_terms_share_the_logits(capsys: Capture) -> None:
    both = rows(capsys, "kl", "cross_entropy", *SIZES)["whole"]
    assert both["terms"] == ["cross_entropy", "kl"]
    alone = [rows(capsys, term, *SIZES)["whole"]["held_bytes"] for term in ("cross_entropy", "kl")]
    assert max(alone) < both["held_bytes"] < sum(alone)


@pytest.mark.parametrize(
    ("term", "flag"),
    [
        ("kl", ["--softmax-dtype", "fp32"]),
        ("cross_entropy", ["--upcast"]),
        ("kl", ["--logits-dtype", "fp32"]),
        ("kl", ["--head", "trainable"]),
        ("cross_entropy", ["--autocast"]),
        ("cross_entropy", ["--labels", "targets"]),
    ],
)
def test_flags_that_cost_something(term: str, flag: list[str], capsys: Capture) -> None:
    words = [term, *SIZES[:4], "--hidden", "4096"]
    plain, flagged = rows(capsys, *words)["whole"], rows(capsys, *words, *flag)["whole"]
    # What is kept longer raises what is held, not always the peak.
    assert flagged["peak_bytes"] + flagged["held_bytes"] > plain["peak_bytes"] + plain["held_bytes"]


def test_a_temperature_is_of_the_teachers_terms_if_there_are_any() -> None:
    def temperatures(*names: str) -> list[float]:
        return [term.temperature for _, term in build_terms(names, TermFlags(temperature=2.0))]

    assert temperatures("cross_entropy", "kl", "jsd", "cap") == [1.0, 2.0, 2.0, 1.0]
    assert temperatures("cross_entropy", "cap") == [2.0, 2.0]


def test_settings_reach_the_terms_that_have_them() -> None:
    flags = TermFlags(softmax_dtype="fp32", upcast=True, beta=0.25, k=7)
    terms = dict(build_terms(TERMS, flags))
    assert {name for name, term in terms.items() if term.softmax_dtype == "native"} == {"cross_entropy"}
    assert (terms["cross_entropy"], terms["jsd"], terms["kl_topk"]) == (
        CrossEntropy(upcast=True),
        Jsd(softmax_dtype="fp32", beta=0.25),
        KlTopK(softmax_dtype="fp32", k=7),
    )
    alone = dict(build_terms(("cross_entropy",), TermFlags(softmax_dtype="fp32")))
    assert alone["cross_entropy"] == CrossEntropy(softmax_dtype="fp32")


def test_keep_and_top_k(capsys: Capture) -> None:
    kept = rows(capsys, "tv", *SIZES)["whole"]["held_bytes"]
    assert rows(capsys, "tv", *SIZES, "--keep", "none")["whole"]["held_bytes"] < kept
    small, large = (rows(capsys, "kl_topk", *SIZES, "--top-k", k)["whole"] for k in ("8", "512"))
    assert small["held_bytes"] < large["held_bytes"]
    assert small["gradient"] == "approximate"
    assert rows(capsys, "jsd", *SIZES, "--beta", "0.25")["whole"]["gradient"] == "exact"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["k", *SIZES], 'TERM: no "k"'),
        (["kl", "kl", *SIZES], "TERM: kl is named twice; a term is computed once"),
        (["kl", *SIZES, "--method", "chunkd"], '--method: no "chunkd" (did you mean "chunked"?); choose one of all,'),
        (
            ["kl", *SIZES, "--method", "whole", "--chunk", "8"],
            "--chunk: whole does not chunk; leave it out, or choose one of chunked, ",
        ),
        (["kl", *SIZES, "--method", "liger"], "liger: method of a library: it computes cross_entropy alone"),
        (
            ["cross_entropy", *SIZES, "--method", "liger", "--labels", "targets"],
            "liger: labels from the targets are not for the method of a library: it takes those of the data",
        ),
        (
            ["cross_entropy", *SIZES, "--method", "cut_cross_entropy", "--logits-dtype", "fp32"],
            "cut_cross_entropy: precision fp32 is not for method cut_cross_entropy: its backward takes hidden states",
        ),
        (["kl", *SIZES, "--upcast"], "--upcast belongs to cross_entropy, which is not among the terms"),
        (["kl", *SIZES, "--beta", "0.5"], "--beta belongs to jsd, which is not among the terms"),
        (["jsd", *SIZES, "--beta", "1"], '--beta: "1" is not between 0 and 1, both excluded'),
        (["kl", *SIZES, "--temperature", "0"], '--temperature: "0" is not between 0 and 1e+06, both excluded'),
        (["kl", *SIZES, "--temperature", "nan"], '--temperature: "nan" is not between 0 and 1e+06, both excluded'),
        (["kl", *SIZES, "--temperature", "inf"], '--temperature: "inf" is not between 0 and 1e+06, both excluded'),
        (["kl", *SIZES, "--temperature", "warm"], '--temperature: "warm" is not a number'),
        (["kl_topk", *SIZES, "--top-k", "1001"], "--top-k 1,001 is more than --vocab 1,000"),
        (["kl", *SIZES, "--keep", "all"], '--keep: no "all"'),
        (["kl", *SIZES, "--chunk", "0"], "--chunk: must be at least 1"),
        (
            ["kl", "--tokens", "1000000000000000000", *SIZES[2:]],
            '--tokens: "1000000000000000000" is more than 1,000,000,000, the most that is priced',
        ),
        (
            ["kl", "--tokens", "1000000000", "--vocab", "1000001", "--hidden", "1"],
            "--tokens 1,000,000,000 x --vocab 1,000,001 are 1,000,001,000,000,000 elements, more than the ",
        ),
    ],
)
def test_refusals(words: list[str], message: str, capsys: Capture) -> None:
    assert main(["loss", *words]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"membudget: {message}")
    assert err.count("\n") == 1


def test_thousands_of_chunks_are_priced_at_once(capsys: Capture) -> None:
    words = ["kl", "--tokens", "100000", "--vocab", "8", "--hidden", "8", "--method", "chunked", "--format", "json"]
    assert main(["loss", *words, "--chunk", "1"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["results"]
    assert row["held_bytes"] > 100_000 * 2 * 512


def test_methods_that_do_not_chunk_need_no_chunk(capsys: Capture) -> None:
    assert rows(capsys, "kl", "--tokens", "1000000000", "--vocab", "8", "--hidden", "8", "--method", "whole")


def test_token_weights(capsys: Capture) -> None:
    """Rows are summed first: a mask costs a few bytes per token, and the settings say that there is one."""
    words = ["kl", *SIZES, "--softmax-dtype", "fp32", "--method", "whole"]
    plain = rows(capsys, *words)["whole"]["held_bytes"]
    weighted = rows(capsys, *words, "--token-weights")["whole"]["held_bytes"]
    assert 0 < weighted - plain < 64 * 64
    assert main(["loss", *words, "--token-weights"]) == 0
    assert "; token weights" in capsys.readouterr().out.replace("\n", " ")
