"""A failure for programs: what a command prints with --format json instead of its result."""

from __future__ import annotations

import json
from typing import Any

from membudget.errors import ConfigError, Problem
from membudget.report.plan_json import SCHEMA_VERSION


def render(error: BaseException, message: str) -> str:
    """The problems of a ConfigError, or else the message as one problem that belongs to no file."""
    problems = error.problems if isinstance(error, ConfigError) else [Problem("", 0, 0, message)]
    document = {
        "schema_version": SCHEMA_VERSION,
        "status": "error",
        "errors": [problem_object(problem) for problem in problems],
    }
    return json.dumps(document, indent=2) + "\n"


def problem_object(problem: Problem) -> dict[str, Any]:
    """One problem; line and column count from 1, null where the problem has no position."""
    return {
        "file": problem.file or None,
        "line": problem.line or None,
        "column": problem.column or None,
        "message": problem.message,
    }
