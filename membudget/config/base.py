"""What every section of a configuration has in common, and the types its fields are made of."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

from membudget.units import parse_size


def _one_line(text: str) -> str:
    if not text.isprintable():
        raise ValueError("a name is printed in tables: no line breaks and no control characters")
    return text


class Section(BaseModel):
    """Strict (no silent conversion), frozen, and without room for keys nobody reads.

    The text under a field is its description. It is read from the source only when someone asks
    (fields.docstrings): parsing it on every start would cost a tenth of the start.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


MAX_COUNT = 10**9
"""Above this a count is a typing error; it also keeps every product of counts far from absurd."""

Count = Annotated[int, Field(ge=1, le=MAX_COUNT)]
"""A whole number of things: tokens, layers, heads."""

LayerCount = Annotated[int, Field(ge=1, le=10_000)]
"""Layers of a model: priced one by one, so their number is bounded more closely."""

Name = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(_one_line)]
"""A text of one line that goes into tables."""

SIZE_PATTERN = r"^[0-9]+(\.[0-9]+)? ?([kKMGT]?B|[KMGT]iB)$"

Size = Annotated[int, BeforeValidator(parse_size), WithJsonSchema({"type": "string", "pattern": SIZE_PATTERN})]
"""Bytes, written with a unit: "95 GB" (10^9) or "95 GiB" (2^30); zero is allowed."""

PositiveSize = Annotated[
    int,
    Field(gt=0),
    BeforeValidator(parse_size),
    WithJsonSchema({"type": "string", "pattern": SIZE_PATTERN}),
]
"""A size of at least one byte."""

Fraction = Annotated[float, Field(ge=0, allow_inf_nan=False)]
"""A finite number, zero or more."""
