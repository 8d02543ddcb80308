"""What was measured, as a file that a team can commit: device, settings, and a row per method and chunk."""

from __future__ import annotations

import json
from typing import Annotated, Any, Final, Literal, cast

from pydantic import Field, model_validator

from membudget.calculator.loss_request import LossRequest, with_method
from membudget.config.base import Count, Name, Section
from membudget.config.loss import CHUNKING_METHODS, Loss, Method
from membudget.config.models import Config
from membudget.programs.section_run import Keep

SCHEMA_VERSION = 1
"""Goes up when a name of the file changes its meaning or goes away."""

CONFIGURED: Final = "configured"
"""In place of a method: every term by its own, as the configuration has it."""

Bytes = Annotated[int, Field(ge=0, le=10**18)]
Status = Literal["measured", "out_of_memory", "skipped"]
LogitsDtype = Literal["bf16", "fp16", "fp32"]
Text = Annotated[str, Field(max_length=2000)]


class Settings(Section):
    """The loss section that was run; together with a row's method and chunk it says all that decides bytes."""

    name: Name
    """The run's name."""
    tokens: Count
    vocab: Count
    hidden: Count
    logits_dtype: LogitsDtype
    keep: Keep
    train_head: bool
    loss: Loss
    """The terms with their settings; each row has a method of its own."""
    repeat: Annotated[int, Field(ge=1, le=1000)] = 1
    """Runs per row, of which the largest counts."""
    scale: Count = 1
    """Where the full size does not fit, 1/scale of the tokens was run."""

    @classmethod
    def of(cls, config: Config, name: str, *, repeat: int = 1, scale: int = 1) -> Settings:
        """The loss section of a configured run."""
        request = LossRequest.of(config)
        return cls(
            name=name,
            tokens=request.tokens,
            vocab=request.vocab,
            hidden=request.hidden,
            logits_dtype=cast(LogitsDtype, request.logits_dtype),
            keep=request.keep,
            train_head=request.train_head,
            loss=config.loss,
            repeat=repeat,
            scale=scale,
        )

    @property
    def request(self) -> LossRequest:
        """The section as it was configured."""
        return LossRequest(
            terms=tuple(self.loss.terms()),
            tokens=self.tokens,
            vocab=self.vocab,
            hidden=self.hidden,
            logits_dtype=self.logits_dtype,
            keep=self.keep,
            train_head=self.train_head,
            labels=self.loss.labels,
            autocast=self.loss.autocast,
            token_weights=self.loss.token_weights,
        )


class Row(Section):
    """One method and chunk. All sizes are beyond hidden states, heads and labels."""

    terms: Annotated[tuple[Name, ...], Field(strict=False)]
    method: Literal[Method, "configured"]
    """One method for all terms, or each as it is configured."""
    chunk: Count | None = None
    """Tokens per chunk, at full size; None where the method does not chunk, or the configuration says it."""
    status: Status
    reason: Text = ""
    """Why a row is not measured, or what to know about one that is."""
    predicted_bytes: Bytes | None = None
    """The engine's peak; None for what it does not price."""
    measured_bytes: Bytes | None = None
    """The largest peak of all runs."""
    difference_bytes: int | None = None
    """measured - predicted."""
    predicted_held_bytes: Bytes | None = None
    """Alive between forward and backward."""
    measured_held_bytes: Bytes | None = None
    milliseconds: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    """Forward and backward of the fastest run; on the CPU at the reduced size."""
    reserved_bytes: Bytes | None = None
    """max_memory_reserved, inputs included."""
    device_bytes: Bytes | None = None
    """In use on the device, as mem_get_info sees it, inputs and other processes included."""
    same_events: bool | None = None
    """Whether every allocation and free was the predicted one, in order; None where the device does not tell."""
    runs_differ: bool = False
    """Whether the runs had different peaks."""
    scale: Count = 1
    """1/scale of the tokens was run; predicted and measured are both of that size."""
    extrapolated_bytes: Bytes | None = None
    """Of the full size, when it was not run: its prediction plus scale times the difference."""

    @model_validator(mode="after")
    def _is_consistent(self) -> Row:
        if (self.chunk is None) == (self.method in CHUNKING_METHODS):
            kind = "needs" if self.chunk is None else "does not chunk and has no"
            raise ValueError(f'method "{self.method}" {kind} "chunk"')
        if (self.status == "measured") != (self.measured_bytes is not None):
            raise ValueError(f'status is "{self.status}", which does not go with measured_bytes as they are')
        if self.measured_bytes is not None and self.predicted_bytes is not None:
            difference = self.measured_bytes - self.predicted_bytes
            if self.difference_bytes != difference:
                raise ValueError(f"difference_bytes is not measured_bytes - predicted_bytes, which is {difference:,}")
        elif self.difference_bytes is not None:
            raise ValueError("difference_bytes needs both measured_bytes and predicted_bytes")
        return self


class Measurement(Section):
    """One probe."""

    schema_version: int
    kind: Literal["cuda", "cpu"]
    """Whose rules the predictions follow."""
    device: Name
    driver: Name | None = None
    torch: Name
    method: Text
    """How it was measured."""
    settings: Settings
    warnings: Annotated[tuple[Text, ...], Field(strict=False)] = ()
    rows: Annotated[tuple[Row, ...], Field(min_length=1, max_length=1000, strict=False)]

    @model_validator(mode="after")
    def _rows_have_the_terms(self) -> Measurement:
        terms = tuple(name for name, _ in self.settings.loss.terms())
        for index, row in enumerate(self.rows):
            if row.terms != terms:
                raise ValueError(f"rows[{index}].terms are not those of settings.loss: {', '.join(terms)}")
        return self

    def request(self, row: Row) -> LossRequest:
        """The section of a row at full size."""
        return by_row(self.settings.request, row.method, row.chunk)


def by_row(configured: LossRequest, method: str, chunk: int | None) -> LossRequest:
    """The section with all terms by one method, or as it is configured. UsageError where a method computes no such."""
    return configured if method == CONFIGURED else with_method(configured, method, chunk)


def to_document(measurement: Measurement) -> dict[str, Any]:
    """The measurement as plain values, ready for JSON; terms that are absent are left out."""
    document = measurement.model_dump(mode="json")
    document["settings"]["loss"] = measurement.settings.loss.model_dump(mode="json", exclude_none=True)
    return document


def to_text(measurement: Measurement) -> str:
    """The file's text."""
    # Not in ASCII: a reader of YAML takes the two halves of an escaped character for two.
    return json.dumps(to_document(measurement), indent=2, ensure_ascii=False) + "\n"
