"""Reading a measurement: every problem with its place, and nothing read that would not have been written."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from membudget.config.fields import section_in
from membudget.config.source import Source, printable, read_source
from membudget.config.suggest import did_you_mean
from membudget.config.yaml_text import Document, read_yaml
from membudget.errors import ConfigError
from membudget.probe.measurement import SCHEMA_VERSION, Measurement

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

    from membudget.config.base import Section

MAX_PROBLEMS = 20
"""Problems told one by one; a file with more is another kind of file."""


def read_measurement(path: str | Path) -> Measurement:
    """The measurement in a file written by `probe --save`. Raises ConfigError with every problem in it."""
    source = read_source(path)
    document = read_yaml(source)  # JSON is YAML, and this reader knows where each value stands
    if document.problems:
        raise ConfigError(document.problems)
    _check_version(source, document)
    try:
        return Measurement.model_validate(document.data)
    except ValidationError as error:
        details = error.errors(include_url=False)[:MAX_PROBLEMS]
        raise ConfigError([source.problem(_position(document, d), _message(d)) for d in details]) from None


def _check_version(source: Source, document: Document) -> None:
    data = document.data
    if not isinstance(data, dict) or "schema_version" not in data:
        raise ConfigError([source.problem((0, 0), "is no measurement: write one with `membudget probe --save FILE`")])
    version = data["schema_version"]
    if type(version) is not int or version != SCHEMA_VERSION:
        position = document.values.get(("schema_version",), (0, 0))
        text = f"schema_version {printable(str(version))} is unknown; this membudget reads {SCHEMA_VERSION}"
        raise ConfigError([source.problem(position, f"{text}: probe again, or use the version that wrote the file")])


def _position(document: Document, details: ErrorDetails) -> tuple[int, int]:
    """Where the value stands; for a missing key, where the section begins."""
    loc = details["loc"][:-1] if details["type"] == "missing" else details["loc"]
    places = (document.values, document.keys)
    if details["type"] == "extra_forbidden":
        places = (document.keys, document.values)
    return places[0].get(loc) or places[1].get(loc) or (0, 0)


def _message(details: ErrorDetails) -> str:
    kind, loc = details["type"], details["loc"]
    where = f" in {_dotted(loc[:-1])}" if len(loc) > 1 else ""
    if kind == "missing":
        return f'missing key "{loc[-1]}"{where}'
    if kind == "extra_forbidden":
        section = _section_at(loc[:-1])
        near = did_you_mean(str(loc[-1]), section.model_fields) if section else ""
        return f'unknown key "{printable(str(loc[-1]))}"{where}{near}'
    text = str(details["ctx"]["error"]) if kind == "value_error" else _expected(details)
    return f"{_dotted(loc)}: {text}" if loc else text


def _expected(details: ErrorDetails) -> str:
    """What pydantic expected, and for a choice what it may have meant."""
    text = details["msg"][:1].lower() + details["msg"][1:]
    value = details["input"]
    if details["type"] != "literal_error" or not isinstance(value, str):
        return text
    choices = str(details["ctx"]["expected"]).replace("'", "").replace(" or ", ", ").split(", ")
    return f'no "{printable(value)}"{did_you_mean(value, choices)}; one of {", ".join(choices)}'


def _dotted(path: tuple[str | int, ...]) -> str:
    """`rows[2].method`."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return printable(text.removeprefix("."), 200)


def _section_at(path: tuple[str | int, ...]) -> type[Section] | None:
    section: type[Section] | None = Measurement
    for part in path:
        if isinstance(part, str):
            field: Any = section.model_fields.get(part) if section else None
            section = section_in(field.annotation) if field else None
    return section
