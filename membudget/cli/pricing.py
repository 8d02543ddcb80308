"""A CONFIG argument -> the plan of that run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from membudget.errors import ConfigError, Problem, UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from membudget.calculator.result import Plan
    from membudget.config.load import LoadedConfig
    from membudget.config.models import Config


class Planner(Protocol):
    """make_plan, or plan_with_notes."""

    def __call__(self, config: Config, *, name: str, limit_bytes: int | None = None) -> Plan: ...


def price(path: str | Path, limit_bytes: int | None, planner: Planner) -> tuple[LoadedConfig, Plan]:
    """Read a configuration file and price its run. Raises ConfigError with the position of every problem."""
    from membudget.config.load import load

    loaded = load(path)
    try:
        return loaded, planner(loaded.config, name=loaded.name, limit_bytes=limit_bytes)
    except UsageError as error:
        line, column = loaded.positions.get(("loss",), (0, 0))
        raise ConfigError([Problem(loaded.file, line, column, str(error))]) from error
