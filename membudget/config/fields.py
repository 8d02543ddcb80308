"""Looking up what a key path of a configuration stands for."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args, get_origin

from membudget.config.base import Section
from membudget.config.models import Config

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

Names: TypeAlias = tuple[str, ...]


def section_in(annotation: Any) -> type[Section] | None:
    """The section a field holds: alone, optional, or as the items of a list."""
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return annotation
    return next(filter(None, map(section_in, get_args(annotation))), None)


def section_at(path: Sequence[str | int]) -> type[Section] | None:
    """The section a path leads to: () is the whole configuration; None for a value or an unknown key."""
    section: type[Section] | None = Config
    for part in path:
        if isinstance(part, str):
            field = section.model_fields.get(part) if section else None
            section = section_in(field.annotation) if field else None
    return section


def field_at(path: Sequence[str | int]) -> FieldInfo | None:
    """The field a path leads to, or the list it is an item of."""
    names = [part for part in path if isinstance(part, str)]
    section = section_at(names[:-1])
    return section.model_fields.get(names[-1]) if section and names else None


def choices_of(field: FieldInfo) -> list[str]:
    """The texts a field allows, in order; none for a field that is no choice."""
    return list(_literals(field.annotation, *field.metadata))


@cache
def docstrings(section: type[Section]) -> dict[str, str]:
    """The text under each field of a section, on one line; nothing where the source is not at hand."""
    import ast
    import inspect
    import textwrap

    texts: dict[str, str] = {}
    for base in section.__bases__:
        texts |= docstrings(base) if issubclass(base, Section) else {}
    try:
        parsed = ast.parse(textwrap.dedent(inspect.getsource(section))).body[0]
    except (OSError, TypeError):
        return texts
    assert isinstance(parsed, ast.ClassDef)
    for field, text in pairwise(parsed.body):
        match field, text:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(words))):
                texts[name] = " ".join(words.split())
    return texts


def meaning(path: Sequence[str | int]) -> str:
    """What a field is: the first sentence of its docstring, without the full stop."""
    names = [part for part in path if isinstance(part, str)]
    section = section_at(names[:-1])
    return re.split(r"\.(?:\s|$)", docstrings(section).get(names[-1], ""))[0] if section else ""


def all_sections() -> dict[str, type[Section]]:
    """Every section by its class name."""
    return {section.__name__: section for _, section in _sections((), Config)}


def sections_with(key: str) -> list[Names]:
    """Paths of all sections that have a key of this name."""
    return [path for path, section in _sections((), Config) if key in section.model_fields]


def _literals(*annotations: Any) -> Iterator[str]:
    for annotation in annotations:
        if get_origin(annotation) is Literal:
            yield from (choice for choice in get_args(annotation) if isinstance(choice, str))
        else:
            yield from _literals(*get_args(annotation))


def _sections(path: Names, section: type[Section]) -> Iterator[tuple[Names, type[Section]]]:
    yield path, section
    for name, field in section.model_fields.items():
        inner = section_in(field.annotation)
        if inner is not None:
            yield from _sections((*path, name), inner)
