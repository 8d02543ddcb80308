from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft7Validator

import membudget.config
from membudget.config.fields import all_sections, docstrings
from membudget.config.load import parse_config
from membudget.config.models import Config
from membudget.config.schema import schema, schema_text
from tests.config.examples import MINIMAL

COMMITTED = Path(membudget.config.__file__).with_name("membudget.schema.json")
INVALID = Path(__file__).parent.parent / "cases" / "invalid"

COMPLETE = (
    MINIMAL.replace("cross_entropy: {}", "cross_entropy: {}\n  kl: {weight: 0.15, method: chunked, chunk: 4096}")
    + "name: complete\nprecision: {autocast: bf16}\nbudget: {limit: 95 GB, cuda_context: 512 MiB}\n"
)


@pytest.fixture(scope="module")
def validator() -> Draft7Validator:
    return Draft7Validator(schema())


def test_the_committed_copy_is_up_to_date() -> None:
    """To refresh it: membudget schema > membudget/config/membudget.schema.json"""
    assert COMMITTED.read_text(encoding="utf-8") == schema_text()


def test_it_is_a_schema_of_draft_7() -> None:
    generated = json.loads(schema_text())
    Draft7Validator.check_schema(generated)
    assert generated["$schema"] == "http://json-schema.org/draft-07/schema#"
    for word in ("$defs", "prefixItems", "unevaluatedProperties"):
        assert word not in schema_text()


def sections_of(generated: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {"Config": generated, **generated["definitions"]}


def test_unknown_keys_are_refused_everywhere() -> None:
    assert all(section["additionalProperties"] is False for section in sections_of(schema()).values())


@pytest.mark.parametrize("name", all_sections())
def test_every_key_is_described(name: str) -> None:
    section = sections_of(schema())[name]
    assert section["description"]
    for key, value in section["properties"].items():
        assert len(value["description"]) > 10, key
        assert value["description"].isprintable()


def test_descriptions_are_inherited_and_specific() -> None:
    texts = docstrings(all_sections()["Jsd"])
    assert texts["beta"].startswith("Weight of the teacher in the mixture")
    assert texts["chunk"] == docstrings(all_sections()["Kl"])["chunk"]
    assert docstrings(Config).keys() == Config.model_fields.keys()


def test_defaults_are_written_as_a_file_would() -> None:
    budget = schema()["definitions"]["Budget"]["properties"]
    assert budget["cuda_context"]["default"] == "512 MiB"
    assert "default" not in schema()["properties"]["budget"]


@pytest.mark.parametrize("text", [MINIMAL, COMPLETE])
def test_a_valid_configuration_is_valid_by_the_schema(validator: Draft7Validator, text: str) -> None:
    parse_config(text, "a.yaml")
    assert list(validator.iter_errors(yaml.safe_load(text))) == []


def test_the_defaults_of_the_schema_are_valid_by_it() -> None:
    generated = schema()
    for section in sections_of(generated).values():
        for value in section["properties"].values():
            if "default" in value:
                rule = {**value, "definitions": generated["definitions"]}
                assert list(Draft7Validator(rule).iter_errors(value["default"])) == []


# What a schema cannot say: one value compared with another, duplicate keys, spellings that readers of
# YAML 1.1 and 1.2 disagree on, sizes that are no whole bytes.
BEYOND_A_SCHEMA = {
    "chunk-without-method",
    "draft-vocab-too-large",
    "duplicate-key",
    "duplicate-section",
    "empty-term",
    "float-for-count",
    "gpu-and-memory",
    "gpu-twice",
    "heads-do-not-divide",
    "hexadecimal",
    "huge-logits",
    "huge-product",
    "infinite-weight",
    "layer-beyond-target",
    "layer-twice",
    "leading-zero",
    "library-for-kl",
    "library-in-fp32",
    "library-with-chunk",
    "library-with-labels-from-targets",
    "library-with-temperature",
    "library-with-token-weights",
    "masters-of-fp32",
    "method-without-chunk",
    "momentum-of-adamw",
    "name-with-line-break",
    "nan-weight",
    "neither-gpu-nor-memory",
    "no-head",
    "no-term",
    "number-with-underscore",
    "problems-of-both-kinds",
    "size-fraction-of-a-byte",
    "size-huge",
    "size-zero",
    "table-twice",
    "target-gpu-without-target",
    "two-drafters",
    "yes-for-bool",
    "zero-width-bom",
}


def is_refused(validator: Draft7Validator, path: Path) -> bool:
    try:
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, ValueError, TypeError):
        return True
    return not validator.is_valid(data)


def test_the_schema_refuses_all_that_a_schema_can(validator: Draft7Validator) -> None:
    accepted = {path.stem for path in INVALID.glob("*.yaml") if not is_refused(validator, path)}
    assert accepted == BEYOND_A_SCHEMA
