"""The JSON of a plan: the names that other programs read."""

from __future__ import annotations

import json

from membudget.report.plan_json import render
from membudget.report.screen import Screen
from tests.report.samples import DRAFTER_ITEMS, LOGITS_BYTES, over_plan


def test_contract() -> None:
    document = json.loads(render(over_plan(), Screen()))
    assert (document["schema_version"], document["name"], document["fits"]) == (1, "ddtree", False)
    assert document["not_included"] == ["fragmentation", "NCCL"]
    assert [gpu["index"] for gpu in document["gpus"]] == [0, 1, 2, 3, 4, 5, 7]
    gpu = document["gpus"][-1]
    assert (gpu["role"], gpu["fits"]) == ("drafter", False)
    assert (gpu["limit_bytes"], gpu["margin_bytes"]) == (95 * 10**9, -8_974_416_384)
    assert gpu["peak"] == {
        "phase": "loss forward",
        "allocated_bytes": 103_429_156_864,
        "reserved_bytes": 103_437_545_472,
        "device_bytes": 103_974_416_384,
    }
    assert gpu["phases"][0] == {"name": "load", "allocated_bytes": 12_991_184_384}
    logits = next(item for item in gpu["items"] if item["name"] == "logits")
    assert logits == {
        "name": "logits",
        "category": "logits",
        "bytes": LOGITS_BYTES,
        "formula": "tokens x vocab x 2 B",
        "values": "24,576 x 248,320 x 2 B",
        "provenance": "exact",
        "count": 1,
    }


def test_sizes_are_integers_and_items_add_up() -> None:
    gpu = json.loads(render(over_plan(), Screen()))["gpus"][-1]
    sizes = [item["bytes"] for item in gpu["items"]]
    assert all(type(size) is int for size in sizes)
    assert sum(sizes) == gpu["peak"]["device_bytes"] == sum(item.nbytes for item in DRAFTER_ITEMS)
