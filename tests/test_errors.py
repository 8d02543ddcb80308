from __future__ import annotations

import pytest

from membudget import errors
from membudget.errors import (
    CannotMeasureError,
    ConfigError,
    ExitCode,
    MembudgetError,
    Problem,
    SizeError,
    UsageError,
)


def test_exit_codes_are_a_contract() -> None:
    assert {code.name: int(code) for code in ExitCode} == {
        "FITS": 0,
        "OVER": 1,
        "BAD_INPUT": 2,
        "CANNOT_MEASURE": 3,
    }


@pytest.mark.parametrize(
    ("kind", "code"),
    [(MembudgetError, 2), (UsageError, 2), (SizeError, 2), (ConfigError, 2), (CannotMeasureError, 3)],
)
def test_each_error_carries_its_exit_code(kind: type[MembudgetError], code: int) -> None:
    assert kind.exit_code == code
    assert issubclass(kind, MembudgetError)


def test_no_error_ends_as_if_it_fitted_or_was_over() -> None:
    kinds = [k for k in vars(errors).values() if isinstance(k, type) and issubclass(k, MembudgetError)]
    assert len(kinds) >= 5
    assert {kind.exit_code for kind in kinds} == {ExitCode.BAD_INPUT, ExitCode.CANNOT_MEASURE}


def test_the_caret_stands_under_its_column() -> None:
    problem = Problem("a.yaml", 12, 3, "unknown key", "  hiden_size: 5120")
    first, source, caret = str(problem).splitlines()
    assert first == "a.yaml:12:3: unknown key"
    assert source == "   12 |   hiden_size: 5120"
    assert source[caret.index("^")] == "h"


def test_a_problem_of_the_whole_file_has_no_position() -> None:
    assert str(Problem("a.yaml", 0, 0, "is empty")) == "a.yaml: is empty"


def test_a_config_error_tells_all_problems_in_the_order_of_the_file() -> None:
    error = ConfigError([Problem("a.yaml", 9, 1, "last"), Problem("a.yaml", 2, 5, "b"), Problem("a.yaml", 2, 1, "a")])
    assert str(error).splitlines() == ["a.yaml:2:1: a", "a.yaml:2:5: b", "a.yaml:9:1: last"]
    assert [problem.message for problem in error.problems] == ["a", "b", "last"]
