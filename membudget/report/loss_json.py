"""The price of a loss for programs: one JSON object; its names are a contract, more keys may be added."""

from __future__ import annotations

import json
from typing import Any

from membudget.calculator.result import LossPrice
from membudget.report.loss_result import LossReport
from membudget.report.plan_json import SCHEMA_VERSION
from membudget.report.screen import Screen


def render(report: LossReport, screen: Screen) -> str:
    """The comparison as JSON; all sizes are integer bytes. The screen does not matter."""
    document = {
        "schema_version": SCHEMA_VERSION,
        "tokens": report.tokens,
        "vocab": report.vocab,
        "hidden": report.hidden,
        "keep": report.keep,
        "head": report.head,
        "labels": report.labels,
        "autocast": report.autocast,
        "token_weights": report.token_weights,
        "settings": dict(report.settings),
        "results": [_price(price) for price in report.prices],
        "skipped": [{"method": method, "reason": reason} for method, reason in report.skipped],
    }
    return json.dumps(document, indent=2) + "\n"


def _price(price: LossPrice) -> dict[str, Any]:
    return {
        "terms": list(price.terms),
        "method": price.method,
        "chunk": price.chunk,
        "logits_dtype": price.logits_dtype,
        "softmax_dtype": price.softmax_dtype,
        "held_bytes": price.held_bytes,
        "forward_peak_bytes": price.forward_peak_bytes,
        "backward_peak_bytes": price.backward_peak_bytes,
        "peak_bytes": price.peak_bytes,
        "gradient": price.gradient,
        "provenance": price.provenance,
    }
