"""Arguments of `check` -> the configuration files they mean, each once."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from membudget.errors import UsageError

SUFFIXES = (".yaml", ".yml")


@dataclass(frozen=True)
class Candidate:
    """A file to check, or an argument that means none."""

    name: str
    """As people know it: the argument, or a path below it."""
    path: str = ""
    refusal: str = ""
    """Why there is nothing to check; empty when there is."""


def candidates(arguments: Iterable[str]) -> list[Candidate]:
    """Files as given, and below folders all *.yaml and *.yml, hidden ones skipped, sorted by path.

    A file that is named twice, through a link or a folder, comes once. Nothing is raised: an argument that
    means no file is a candidate with a refusal, so that the others are still checked.
    """
    found: dict[str, Candidate] = {}
    for argument in arguments:
        for candidate in _below(argument) if os.path.isdir(argument) else [_single(argument)]:
            # The name stands in for the path of a refusal, so that each refusal is kept too.
            key = os.path.realpath(candidate.path) if candidate.path else f"\0{candidate.name}"
            found.setdefault(key, candidate)
    return list(found.values())


def _single(argument: str) -> Candidate:
    from membudget.config.load import find_config

    try:
        return Candidate(argument, str(find_config(argument)))
    except UsageError as error:
        return Candidate(argument, refusal=str(error))


def _below(folder: str) -> list[Candidate]:
    refused: list[OSError] = []
    files = sorted(_walk(folder, refused))
    errors = [Candidate(str(error.filename), refusal=f"cannot be read: {error.strerror}") for error in refused]
    if not files and not errors:
        return [Candidate(folder, refusal="no *.yaml or *.yml file in this folder or below it")]
    return [*(Candidate(file, file) for file in files), *errors]


def _walk(folder: str, refused: list[OSError]) -> Iterator[str]:
    for where, folders, names in os.walk(folder, onerror=refused.append):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in names:
            if name.endswith(SUFFIXES) and not name.startswith("."):
                yield os.path.join(where, name)
