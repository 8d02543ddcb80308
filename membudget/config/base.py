"""What every section of a configuration has in common, and the types its fields are made of."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

from membudget.units import parse_size


class Section(BaseModel):
    """Strict (no silent conversion), frozen, and without room for keys nobody reads."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, use_attribute_docstrings=True)


MAX_COUNT = 10**9
"""Above this a count is a typing error; it also keeps every product of counts far from absurd."""

Count = Annotated[int, Field(ge=1, le=MAX_COUNT)]
"""A whole number of things: tokens, layers, heads."""

Size = Annotated[
    int,
    BeforeValidator(parse_size),
    WithJsonSchema({"type": "string", "pattern": r"^[0-9]+(\.[0-9]+)? ?([kKMGT]?B|[KMGT]iB)$"}),
]
"""Bytes, written with a unit: "95 GB" (10^9) or "95 GiB" (2^30)."""

Fraction = Annotated[float, Field(ge=0, allow_inf_nan=False)]
"""A finite number, zero or more."""
