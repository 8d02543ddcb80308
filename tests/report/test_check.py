"""The formats of `check`."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from membudget.errors import Problem
from membudget.report import check_github, check_json, check_markdown, check_text
from membudget.report.check_result import FileResult
from membudget.report.check_words import finding
from membudget.report.screen import Screen
from tests.report.golden import assert_golden
from tests.report.samples import drafter, fitting_plan, over_plan

SCREEN = Screen()


def over(file: str = "ddtree.yaml") -> FileResult:
    return FileResult(file, over_plan(), positions={("loss",): (12, 1)})


def bad(file: str = "bad.yaml", message: str = 'unknown key "hiden_size" (did you mean "hidden_size"?)') -> FileResult:
    problem = Problem(file, 3, 3, message, "  hiden_size: 5120")
    return FileResult(file, problems=(problem, Problem(file, 9, 1, "is missing")))


def results() -> list[FileResult]:
    return [over(), FileResult("v6.yaml", fitting_plan()), bad()]


@pytest.mark.parametrize(
    ("reporter", "golden"),
    [
        (check_text, "check.txt"),
        (check_json, "check.json"),
        (check_github, "check_github.txt"),
        (check_markdown, "check.md"),
    ],
)
def test_whole_text(reporter: object, golden: str) -> None:
    assert_golden(golden, reporter.render(results(), SCREEN))  # type: ignore[attr-defined]


def test_a_failure_begins_with_expected_got_and_by_how_much() -> None:
    assert check_text.render([over()], SCREEN).startswith(
        "OVER  ddtree.yaml: expected at most 95.00 GB = 88.48 GiB, got 103.97 GB = 96.83 GiB, "
        "over by 8.97 GB = 8.36 GiB; "
    )


def test_sizes_that_round_alike_are_told_apart() -> None:
    from membudget.calculator.result import Plan

    gpu = drafter(given_limit_bytes=drafter().device_bytes - 1, capacity_bytes=10**12)
    words = finding(Plan("run", (gpu,), (), ()))
    assert words.startswith("expected at most 103,974,416,383 B, got 103,974,416,384 B, over by 1 B; ")


def test_every_gpu_over_is_counted() -> None:
    from membudget.calculator.result import Plan

    plan = Plan("run", (drafter(), drafter(index=8), drafter(index=9, capacity_bytes=10**9)), (), ())
    assert finding(plan).endswith("; 2 more GPUs over")


def test_json_contract() -> None:
    document = json.loads(check_json.render(results(), SCREEN))
    assert (document["schema_version"], document["fits"]) == (1, False)
    first, second, third = document["results"]
    assert (first["file"], first["status"], first["errors"]) == ("ddtree.yaml", "over", [])
    assert first["limit_bytes"] - first["device_bytes"] == first["margin_bytes"] == -8_974_416_384
    assert first["largest_item"]["name"] == "kl: log_softmax"
    assert (second["status"], second["margin_bytes"]) == ("fits", 0)
    assert (third["status"], third["device_bytes"], third["largest_item"]) == ("error", None, None)
    assert third["errors"][0] == {
        "file": "bad.yaml",
        "line": 3,
        "column": 3,
        "message": 'unknown key "hiden_size" (did you mean "hidden_size"?)',
    }


def test_json_fits_only_when_all_do() -> None:
    assert json.loads(check_json.render([FileResult("v6.yaml", fitting_plan())], SCREEN))["fits"] is True
    assert json.loads(check_json.render([bad()], SCREEN))["fits"] is False


def test_github_escapes() -> None:
    text = check_github.render([bad("a,b:c%.yaml", "50 %\r\n::error::")], SCREEN)
    assert text.splitlines()[0] == (
        "::error file=a%2Cb%3Ac%25.yaml,line=3,col=3,title=Bad configuration::50 %25%0D%0A::error::"
    )


def test_github_points_at_the_section_of_the_largest_item() -> None:
    assert "file=ddtree.yaml,line=12,col=1," in check_github.render([over()], SCREEN)
    assert "file=x.yaml,line=1,col=1," in check_github.render([FileResult("x.yaml", over_plan())], SCREEN)


def test_github_shows_ten_and_counts_the_rest() -> None:
    lines = check_github.render([over(f"{i}.yaml") for i in range(13)], SCREEN).splitlines()
    assert sum(line.startswith("::error ") for line in lines) == 10
    assert lines[10:] == ["13 files: 0 fit, 13 over the limit, 0 with errors; 3 more not shown here"]


@given(file=st.text(min_size=1), message=st.text())
def test_github_is_one_line_per_annotation(file: str, message: str) -> None:
    text = check_github.render([FileResult(file, problems=(Problem(file, 1, 1, message),))], SCREEN)
    assert text.count("\n") == 2
    assert "\r" not in text


def test_markdown_lists_failures_first_and_is_capped() -> None:
    fits = FileResult("v6.yaml", fitting_plan())
    text = check_markdown.render([*[fits] * 70, over(), bad()], SCREEN)
    rows = [line for line in text.splitlines() if line.startswith("| ")][2:]
    assert [row.split(" | ")[0] for row in rows[:3]] == ["| **error**", "| **OVER**", "| fits"]
    assert len(rows) == 60
    assert text.endswith("\n12 more files are not shown.\n")
    assert len(text) < 200_000


@given(st.lists(st.tuples(st.text(min_size=1, max_size=2000), st.text(max_size=3000)), max_size=80))
def test_markdown_stays_a_table_of_bounded_size(texts: list[tuple[str, str]]) -> None:
    found = [FileResult(file[:300], problems=(Problem(file, 1, 1, message),)) for file, message in texts]
    text = check_markdown.render(found, SCREEN)
    assert sum(line.startswith("|") for line in text.split("\n")) == 2 + min(len(texts), 60)
    assert len(text.encode(errors="backslashreplace")) < 1_000_000


@given(file=st.text(min_size=1), message=st.text())
def test_text_is_one_printable_line_per_problem(file: str, message: str) -> None:
    line = message.replace("\n", " ")
    text = check_text.render([FileResult(file, problems=(Problem(file, 0, 0, line),))], SCREEN)
    assert all(line.isprintable() for line in text.split("\n"))
    assert text.split("\n")[0].startswith("error ")
