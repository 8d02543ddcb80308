"""`membudget trace`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from membudget.cli import trace_options as options
from membudget.cli.arguments import choose, parse_count
from membudget.cli.needs_torch import require_torch
from membudget.cli.options import Color, screen_for
from membudget.cli.outcome import Outcome
from membudget.errors import UsageError

if TYPE_CHECKING:
    from membudget.trace.result import Trace

SizeArguments = tuple[int, int, int | None, str, bool]

_EXAMPLE = {"--tokens": 24576, "--vocab": 248320}

EXAMPLES = """\b
Examples:
  membudget trace ddtree.yaml
  membudget trace losses.py:kl_loss --tokens 24576 --vocab 248320 --arg chunk=1024
"""


def trace(
    target: options.Target,
    tokens: options.Tokens = None,
    vocab: options.Vocab = None,
    hidden: options.Hidden = None,
    logits_dtype: options.Dtype = None,
    head: options.Head = None,
    arg: options.Arg = None,
    peak_lines: options.PeakLines = False,
    format_: options.Format = "table",
    color: Color = "auto",
) -> Outcome:
    """Run the real loss on fake tensors, without a GPU.

    Of a configuration: its loss at full size, beside what `plan` says of it. Of a function of yours: forward and
    backward of what it returns; it gets logits and targets [tokens, vocab], or what its arguments are named after:
    logits, targets, labels, hidden, weight, teacher_hidden, teacher_weight, mask, token_weights.
    """
    from membudget.report.reporters import TRACE_REPORTERS

    report = choose("--format", format_, TRACE_REPORTERS)
    screen = screen_for(color, None, only_lines=peak_lines)
    of_function = {
        "--tokens": tokens,
        "--vocab": vocab,
        "--hidden": hidden,
        "--logits-dtype": logits_dtype,
        "--head": head,
        "--arg": arg or None,
    }
    given = {option: value for option, value in of_function.items() if value is not None}
    if _is_function(target):
        values, wanted = options.parse_arguments(arg or ())
        result = _of_function(target, _sizes(given), values, wanted)
    else:
        result = _of_config(target, list(given))
    return Outcome(report(result, screen))


def _is_function(target: str) -> bool:
    return ":" in target and not target.endswith((".yaml", ".yml")) and not os.path.lexists(target)


def _of_config(target: str, given: list[str]) -> Trace:
    if target.endswith(".py"):
        raise UsageError(f"{target} is a file of code: name the function in it, like {target}:my_loss")
    from membudget.calculator.loss_request import LossRequest
    from membudget.config.load import find_config, load

    path = find_config(target)
    if given:
        raise UsageError(f"{given[0]}: for functions only; the sizes of a configuration are those written in it")
    loaded = load(path)
    require_torch("trace")
    from membudget.trace.section import trace_config

    return trace_config(loaded.name, LossRequest.of(loaded.config))


def _of_function(target: str, sizes: SizeArguments, values: dict[str, Any], wanted: tuple[str, ...]) -> Trace:
    require_torch("trace")
    from membudget.trace.arguments import Sizes
    from membudget.trace.function import trace_target

    return trace_target(target, Sizes(*sizes), values, wanted)


def _sizes(given: dict[str, Any]) -> SizeArguments:
    """tokens, vocab, hidden, dtype and whether the head is trained, read before torch is imported."""
    from membudget.config.base import MAX_COUNT

    for option in ("--tokens", "--vocab"):
        if option not in given:
            raise UsageError(f"{option} is missing: a function needs its sizes, such as {option} {_EXAMPLE[option]}")
    counts = {
        option: parse_count(option, given[option], MAX_COUNT)
        for option in ("--tokens", "--vocab", "--hidden")
        if option in given
    }
    dtypes = {name: name for name in ("bf16", "fp16", "fp32")}
    dtype = choose("--logits-dtype", given.get("--logits-dtype", "bf16"), dtypes)
    train_head = choose("--head", given.get("--head", "frozen"), {"frozen": False, "trainable": True})
    return counts["--tokens"], counts["--vocab"], counts.get("--hidden"), dtype, train_head
