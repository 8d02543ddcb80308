"""JSON Schema (draft-07) of the configuration file, for editors and for other validators."""

from __future__ import annotations

import json
from typing import Any

from membudget.config.base import SIZE_PATTERN
from membudget.config.fields import all_sections, docstrings
from membudget.config.models import Config
from membudget.units import UNITS

DRAFT = "http://json-schema.org/draft-07/schema#"


def schema() -> dict[str, Any]:
    """The schema, from the models: a description per key, unknown keys refused."""
    sections = all_sections()
    generated = Config.model_json_schema(ref_template="#/definitions/{model}")
    definitions = generated.pop("$defs")
    whole = {"$schema": DRAFT, **generated, "title": "membudget configuration", "definitions": definitions}
    for section in (whole, *definitions.values()):
        texts = docstrings(sections.get(section["title"], Config))
        section["properties"] = {
            key: _property(value, texts.get(key, "")) for key, value in section["properties"].items()
        }
    for definition in definitions.values():
        del definition["title"]
    return whole


def schema_text() -> str:
    """The schema as a file."""
    return json.dumps(schema(), indent=2) + "\n"


def _property(value: dict[str, Any], description: str) -> dict[str, Any]:
    """One key: described, without the title made of its own name, in the words of draft-07."""
    value = {**{key: item for key, item in value.items() if key != "title"}, "description": description}
    if value.get("pattern") == SIZE_PATTERN and isinstance(value.get("default"), int):
        value["default"] = _size_text(value["default"])
    if "$ref" in value:
        # Draft-07 ignores what stands beside a $ref; the defaults of a section are those of its keys.
        value = {"allOf": [{"$ref": value["$ref"]}], "description": description}
    return value


def _size_text(nbytes: int) -> str:
    """The shortest exact spelling of a size."""
    texts = [f"{nbytes // size} {unit}" for unit, size in UNITS.items() if nbytes % size == 0]
    return min(texts, key=len)
