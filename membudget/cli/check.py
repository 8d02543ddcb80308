"""`membudget check`."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from membudget.cli.arguments import choose, parse_limit
from membudget.cli.failures import cause_of
from membudget.cli.files import Candidate, candidates
from membudget.cli.options import Limit
from membudget.cli.outcome import Outcome
from membudget.cli.pricing import price
from membudget.errors import ConfigError, ExitCode, MembudgetError, Problem
from membudget.report.check_result import FileResult
from membudget.report.screen import Screen

EXAMPLES = """\b
Examples:
  membudget check configs/ --limit "95 GB"
  membudget check ddtree.yaml v6.yaml --format github
"""


def check(
    configs: Annotated[
        list[str], typer.Argument(metavar="CONFIG", help="Files, folders (*.yaml, *.yml), profile names.")
    ],
    limit: Limit = None,
    format_: Annotated[
        str, typer.Option("--format", metavar="text|json|github|markdown", help="How to print it.")
    ] = "text",
    exit_zero: Annotated[
        bool, typer.Option("--exit-zero", help="End in 0 when over the limit; failures still end in 2.")
    ] = False,
) -> Outcome:
    """Fail when a run is over its limit.

    Ends in 0 when every run fits, in 1 when one is over, in 2 when one cannot be read; all are reported.
    With $GITHUB_STEP_SUMMARY set, a Markdown table is appended to that file.
    """
    from membudget.report.reporters import CHECK_REPORTERS

    report = choose("--format", format_, CHECK_REPORTERS)
    limit_bytes = parse_limit(limit)
    pairs = [_check(candidate, limit_bytes) for candidate in candidates(configs)]
    results = [result for result, _ in pairs]
    code = max((result.exit_code for result in results), default=ExitCode.BAD_INPUT)
    if exit_zero and code == ExitCode.OVER:
        code = ExitCode.FITS
    causes = tuple(cause for _, cause in pairs if cause is not None)
    return Outcome(report(results, Screen()), code, messages=_append_summary(results), causes=causes)


def _check(candidate: Candidate, limit_bytes: int | None) -> tuple[FileResult, Exception | None]:
    """One file's result; nothing that is wrong with it keeps the others from being checked."""
    from membudget.calculator.plan import make_plan

    name = candidate.name
    if candidate.refusal:
        return FileResult(name, problems=(Problem(name, 0, 0, candidate.refusal),)), None
    try:
        loaded, plan = price(candidate.path, limit_bytes, make_plan)
        return FileResult(name, plan, positions=loaded.positions), None
    except ConfigError as error:
        return FileResult(name, problems=tuple(error.problems)), None
    except MembudgetError as error:
        return FileResult(name, problems=(Problem(name, 0, 0, str(error)),)), None
    except Exception as error:
        return FileResult(name, problems=(Problem(name, 0, 0, cause_of(error)),)), error


def _append_summary(results: list[FileResult]) -> tuple[str, ...]:
    """Append to the job summary of GitHub Actions; one that cannot be written is worth a message only."""
    path = os.environ.get("GITHUB_STEP_SUMMARY")
    if not path:
        return ()
    from membudget.report import check_markdown

    try:
        with open(path, "a", encoding="utf-8", errors="backslashreplace") as stream:
            stream.write(check_markdown.render(results, Screen()))
    except OSError as error:
        return (f"cannot append to $GITHUB_STEP_SUMMARY: {error.strerror or error}",)
    return ()
