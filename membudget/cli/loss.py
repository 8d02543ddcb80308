"""`membudget loss`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from membudget.cli import loss_options as options
from membudget.cli.arguments import choose, parse_count, parse_positive
from membudget.cli.options import Color, screen_for
from membudget.cli.outcome import Outcome

if TYPE_CHECKING:
    from membudget.cli.loss_terms import TermFlags

EXAMPLES = """\b
Examples:
  membudget loss kl --tokens 24576 --vocab 248320 --hidden 5120 --softmax-dtype fp32
  membudget loss cross_entropy kl --tokens 8192 --vocab 151936 --hidden 4096 --chunk 1024
"""


def loss(
    terms: options.Terms,
    tokens: options.Tokens,
    vocab: options.Vocab,
    hidden: options.Hidden,
    method: options.Method = "all",
    chunk: options.Chunk = None,
    softmax_dtype: options.SoftmaxDtype = None,
    upcast: options.Upcast = False,
    temperature: options.Temperature = None,
    beta: options.Beta = None,
    top_k: options.TopK = None,
    logits_dtype: options.LogitsDtype = "bf16",
    keep: options.Keep = "both",
    head: options.Head = "frozen",
    labels: options.Labels = "data",
    autocast: options.Autocast = False,
    token_weights: options.TokenWeights = False,
    format_: options.Format = "table",
    color: Color = "auto",
) -> Outcome:
    """Price a loss by every method, side by side.

    No configuration is needed. Bytes are counted beyond the hidden states and the head: logits, targets,
    temporaries and gradients.
    """
    from membudget.cli.loss_pricing import LossSettings, compare
    from membudget.config.base import MAX_COUNT
    from membudget.report.reporters import LOSS_REPORTERS

    report = choose("--format", format_, LOSS_REPORTERS)
    screen = screen_for(color, None)
    settings = LossSettings(
        tokens=parse_count("--tokens", tokens, MAX_COUNT),
        vocab=parse_count("--vocab", vocab, MAX_COUNT),
        hidden=parse_count("--hidden", hidden, MAX_COUNT),
        chunk=None if chunk is None else parse_count("--chunk", chunk, MAX_COUNT),
        logits_dtype=_one_of("--logits-dtype", logits_dtype, "bf16", "fp16", "fp32"),
        keep=_one_of("--keep", keep, "none", "logits", "targets", "both"),
        head=_one_of("--head", head, "frozen", "trainable"),
        labels=_one_of("--labels", labels, "data", "targets"),
        autocast=autocast,
        token_weights=token_weights,
    )
    flags = _flags(softmax_dtype, upcast, temperature, beta, top_k)
    return Outcome(report(compare(terms, method, settings, flags), screen))


def _flags(
    softmax_dtype: str | None, upcast: bool, temperature: str | None, beta: str | None, top_k: str | None
) -> TermFlags:
    from membudget.cli.loss_terms import TermFlags
    from membudget.config.base import MAX_COUNT
    from membudget.config.loss import MAX_TEMPERATURE

    return TermFlags(
        softmax_dtype=None if softmax_dtype is None else _one_of("--softmax-dtype", softmax_dtype, "native", "fp32"),
        upcast=True if upcast else None,
        temperature=None
        if temperature is None
        else parse_positive("--temperature", temperature, below=MAX_TEMPERATURE),
        beta=None if beta is None else parse_positive("--beta", beta, below=1),
        k=None if top_k is None else parse_count("--top-k", top_k, MAX_COUNT),
    )


def _one_of(option: str, value: str, *choices: str) -> str:
    return choose(option, value, dict(zip(choices, choices, strict=True)))
