"""What is wrong with the values of a configuration, in words for people: cause, then remedy."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from membudget.config.base import MAX_COUNT
from membudget.config.fields import choices_of, field_at, meaning, section_at, sections_with
from membudget.config.source import Source, printable
from membudget.config.suggest import did_you_mean, nearest
from membudget.config.yaml_text import Document, Path, Position
from membudget.errors import Problem

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

    from membudget.config.base import Section

MAX_PROBLEMS = 50
"""Problems told one by one; a file with more is another kind of file."""


def all_problems(source: Source, document: Document, error: ValidationError | None) -> list[Problem]:
    """What the reader found, keys without a value, and what validation found."""
    found = validation_problems(source, document, error) if error else []
    return document.problems + empty_problems(source, document) + found


def empty_problems(source: Source, document: Document) -> list[Problem]:
    """Keys with nothing after them: whether the default or an empty section is meant cannot be known."""
    problems = []
    for path in document.empty:
        section, field = section_at(path), field_at(path)
        if field is None or not path:
            continue  # an unknown key is reported as one; an empty file likewise
        if section is None or isinstance(path[-1], int):
            message = f"{_dotted(path)}: no value is given; write one or remove the key"
        else:
            message = f"the section {_dotted(path)} is empty; {_filling(section, str(path[-1]))}"
        problems.append(source.problem(document.keys.get(path, (0, 0)), message))
    return problems


def _filling(section: type[Section], key: str) -> str:
    """What to write in an empty section."""
    needed = [name for name, field in section.model_fields.items() if field.is_required()]
    if needed:
        return f"it needs {', '.join(needed)}"
    try:
        section.model_validate({})
    except ValidationError as error:
        return _message(error.errors()[0])
    return f'write "{key}: {{}}" for its defaults, or remove it'


def validation_problems(source: Source, document: Document, error: ValidationError) -> list[Problem]:
    """One problem for each cause, in the order of the file; follow-on errors of a cause are left out."""
    known = document.refused | {path for path in document.empty if field_at(path)}
    details = [d for d in error.errors(include_url=False) if not _is_known(d["loc"], known)]
    details = [d for d in details if not _is_follow_on(d)]
    unknown = {d["loc"] for d in details if d["type"] == "extra_forbidden"}
    details = [d for d in details if not (d["type"] == "missing" and _is_misspelled(d["loc"], unknown))]
    placed = sorted(((_position(document, d), d) for d in details), key=lambda pair: pair[0])
    problems = [source.problem(position, _message(d)) for position, d in placed[:MAX_PROBLEMS]]
    if len(placed) > MAX_PROBLEMS:
        rest = len(placed) - MAX_PROBLEMS
        problems.append(source.problem(placed[MAX_PROBLEMS][0], f"{rest:,} more problems from here on"))
    return problems


def _is_known(loc: Path, known: set[Path]) -> bool:
    return any(loc[:length] in known for length in range(len(loc) + 1))


def _is_follow_on(details: ErrorDetails) -> bool:
    """A list whose items are all wrong is also reported as too short."""
    return details["type"] == "too_short" and bool(details["input"])


def _is_misspelled(missing: Path, unknown: set[Path]) -> bool:
    """Whether a missing key is there under a name that is nearly its own."""
    siblings = [str(loc[-1]) for loc in unknown if loc[:-1] == missing[:-1]][:MAX_PROBLEMS]
    section = section_at(missing[:-1])
    fields = section.model_fields if section else ()
    return any(nearest(sibling, fields) == missing[-1] for sibling in siblings)


def _position(document: Document, details: ErrorDetails) -> Position:
    """Where to point: at an unknown key, at the section a key is missing in, else at the value."""
    loc = details["loc"]
    is_about_section = isinstance(details.get("input"), dict) or details["type"] == "extra_forbidden"
    if details["type"] == "missing":
        loc, is_about_section = loc[:-1], True
    if details["type"] == "value_error" and (named := _named_key(document, details)):
        return document.values[named]
    if not loc:
        return 0, 0
    places = (document.keys, document.values) if is_about_section else (document.values, document.keys)
    return places[0].get(loc) or places[1].get(loc) or (0, 0)


def _named_key(document: Document, details: ErrorDetails) -> Path | None:
    """The key a text about a whole section begins with, when the file gives it."""
    word = str(details["ctx"]["error"]).split(" ", 1)[0]
    loc = details["loc"]
    sections: Sequence[Path] = [loc] if loc else sections_with(word)
    return next((path for path in ((*section, word) for section in sections) if path in document.keys), None)


def _message(details: ErrorDetails) -> str:
    kind, loc = details["type"], details["loc"]
    if kind == "extra_forbidden":
        return _unknown_key(loc)
    if kind == "missing":
        return _missing_key(loc)
    text = _TEXTS[kind](details) if kind in _TEXTS else details["msg"]
    return f"{_dotted(loc)}: {text}" if loc else text


def _dotted(path: Sequence[str | int]) -> str:
    """`hardware.groups[0].role`."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return printable(text.removeprefix("."), 200)


def _place(path: Sequence[str | int]) -> str:
    return f" in section {_dotted(path)}" if path else " at the top of the file"


def _unknown_key(loc: Path) -> str:
    key, section = str(loc[-1]), section_at(loc[:-1])
    fields = list(section.model_fields) if section else []
    text = f'unknown key "{printable(key)}"{_place(loc[:-1])}'
    if homes := sections_with(key):
        places = " or ".join(_place(home).strip() for home in homes[:3])
        return f"{text} (it belongs {places})"
    return text + (did_you_mean(key, fields) or f" (known: {', '.join(fields)})")


def _missing_key(loc: Path) -> str:
    kind = "section" if section_at(loc) else "key"
    explained = f": {meaning(loc)}" if meaning(loc) else ""
    return f'missing {kind} "{loc[-1]}"{_place(loc[:-1])}{explained}'


def _shown(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return printable(f"{value:,}")
    if isinstance(value, str):
        return f'the text "{printable(value)}"'
    if isinstance(value, list):
        return "a list"
    return "a section" if isinstance(value, dict) else printable(str(value))


def _expected(what: str, hint: Callable[[Any], str]) -> Callable[[ErrorDetails], str]:
    def text(details: ErrorDetails) -> str:
        value = details["input"]
        return f"expected {what}, got {_shown(value)}{hint(value)}"

    return text


def _whole_number_hint(value: object) -> str:
    if isinstance(value, float) and value.is_integer():
        return f" (write {printable(str(int(value)))})"
    digits = re.sub("[_, ]", "", value) if isinstance(value, str) else ""
    return f" (write {printable(digits)})" if re.fullmatch("[1-9][0-9]*", digits) else ""


def _number_hint(value: object) -> str:
    is_number = isinstance(value, str) and re.fullmatch(r"[0-9]+(\.[0-9]+)?", value)
    return " (remove the quotes)" if is_number else ""


def _bool_hint(value: object) -> str:
    known = {"yes": "true", "on": "true", "true": "true", "1": "true"}
    known |= {"no": "false", "off": "false", "false": "false", "0": "false"}
    meant = known.get(str(value).lower()) if isinstance(value, str | int) else None
    return f" (write {meant})" if meant else ""


def _text_hint(value: object) -> str:
    is_plain = isinstance(value, int | float)
    return f' (write "{printable(str(value).lower())}" in quotes)' if is_plain else ""


def _list_hint(value: object) -> str:
    if isinstance(value, dict):
        return ' (begin each item with "-")'
    items = ", ".join(re.split("[, ]+", str(value)))
    return f" (write [{printable(items)}])" if isinstance(value, str | int) and value != "" else ""


def _nothing(value: object) -> str:
    return ""


def _choice(details: ErrorDetails) -> str:
    field, value = field_at(details["loc"]), details["input"]
    choices = choices_of(field) if field else []
    near = did_you_mean(value, choices) if isinstance(value, str) else ""
    return f"expected one of {', '.join(choices)}; got {_shown(value)}{near}"


def _at_most(details: ErrorDetails) -> str:
    value, most = details["input"], details["ctx"]["le"]
    if most == MAX_COUNT:
        return f"{_shown(value)} is more than {most:,}, the largest count that makes sense here"
    if most == 1:
        return f"only 1 can be priced so far, got {_shown(value)}"
    return f"must be at most {most:,}, got {_shown(value)}"


def _bound(words: str, key: str) -> Callable[[ErrorDetails], str]:
    return lambda details: f"must be {words} {details['ctx'][key]:g}, got {_shown(details['input'])}"


_TEXTS: dict[str, Callable[[ErrorDetails], str]] = {
    "int_type": _expected("a whole number", _whole_number_hint),
    "float_type": _expected("a number", _number_hint),
    "bool_type": _expected("true or false", _bool_hint),
    "string_type": _expected("a text", _text_hint),
    "tuple_type": _expected("a list", _list_hint),
    "model_type": _expected("a section, keys indented below it", _nothing),
    "literal_error": _choice,
    "greater_than_equal": _bound("at least", "ge"),
    "greater_than": _bound("more than", "gt"),
    "less_than_equal": _at_most,
    "less_than": _bound("less than", "lt"),
    "finite_number": lambda d: f"must be a finite number, got {_shown(d['input'])}",
    "too_short": lambda d: f"needs at least {d['ctx']['min_length']} item",
    "too_long": lambda d: f"has more than {d['ctx']['max_length']:,} items",
    "string_too_short": lambda d: "must not be empty",
    "string_too_long": lambda d: f"must have at most {d['ctx']['max_length']:,} characters",
    "value_error": lambda d: str(d["ctx"]["error"]),
}
"""Text for each type of error pydantic reports for the fields of this package."""
