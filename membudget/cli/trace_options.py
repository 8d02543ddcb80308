"""The options of `trace`, apart from the command so that it can be read."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import Annotated, Any

import typer

from membudget.errors import UsageError

Target = Annotated[
    str,
    typer.Argument(metavar="CONFIG|MODULE:FUNCTION", help="A configuration, or losses:my_loss, or losses.py:my_loss."),
]
Tokens = Annotated[str | None, typer.Option("--tokens", metavar="N", help="Rows of the logits, for a function.")]
Vocab = Annotated[str | None, typer.Option("--vocab", metavar="N", help="Entries of a row, for a function.")]
Hidden = Annotated[
    str | None, typer.Option("--hidden", metavar="N", help="Width, for a function that takes hidden states.")
]
Dtype = Annotated[
    str | None,
    typer.Option("--logits-dtype", metavar="bf16|fp16|fp32", help="Of a function's tensors. Default: bf16."),
]
Head = Annotated[
    str | None,
    typer.Option("--head", metavar="frozen|trainable", help="Whether a function's weight is trained. Default: frozen."),
]
Arg = Annotated[
    list[str] | None,
    typer.Option(
        "--arg",
        metavar="NAME[=VALUE]",
        help="A value for an argument of the function (chunk=1024); without a value, the tensor of that name.",
    ),
]
PeakLines = Annotated[bool, typer.Option("--peak-lines", help="List only the source lines that own the peak.")]
Format = Annotated[str, typer.Option("--format", metavar="table|json", help="How to print it.")]


def parse_arguments(texts: Iterable[str]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """(values by name, names of wanted tensors) of --arg; a value is a Python literal, or else a text."""
    values: dict[str, Any] = {}
    wanted: list[str] = []
    for text in texts:
        name, equals, value = text.partition("=")
        if not name.isidentifier():
            raise UsageError(f'--arg: "{text[:60]}" does not begin with a name; write it like chunk=1024')
        if name in values or name in wanted:
            raise UsageError(f'--arg: "{name}" is given twice')
        if equals:
            values[name] = _literal(value)
        else:
            wanted.append(name)
    return values, tuple(wanted)


def _literal(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return text
