"""--method and --chunk of `probe` -> the rows to measure."""

from __future__ import annotations

from collections.abc import Sequence

from membudget.calculator.loss_request import DEFAULT_CHUNK, LossRequest
from membudget.cli.arguments import choose, parse_count
from membudget.cli.loss_terms import METHODS
from membudget.config.base import MAX_COUNT
from membudget.config.loss import CHUNKING_METHODS
from membudget.errors import UsageError
from membudget.probe.measurement import CONFIGURED
from membudget.probe.probing import Wanted


def wanted_rows(methods: Sequence[str], chunks: Sequence[str], request: LossRequest) -> list[Wanted]:
    """One row per method, and where it chunks per chunk, in the order in which methods are shown.

    A section whose terms have different methods comes first among all, as it is configured.
    """
    tokens = request.tokens
    is_mixed = len({(term.method, term.chunk) for _, term in request.terms}) > 1
    everything = (CONFIGURED, *METHODS) if is_mixed else METHODS
    choices = {"all": everything, CONFIGURED: (CONFIGURED,), **{name: (name,) for name in METHODS}}
    named = {name for given in methods or ("all",) for name in choose("--method", given, choices)}
    if chunks and not CHUNKING_METHODS & named:
        chunking = ", ".join(name for name in METHODS if name in CHUNKING_METHODS)
        verb = "takes" if len(named) == 1 else "take"
        raise UsageError(f"--chunk: {', '.join(sorted(named))} {verb} no chunk; leave it out, or add one of {chunking}")
    sizes = sorted({parse_count("--chunk", chunk, MAX_COUNT) for chunk in chunks}) or [min(DEFAULT_CHUNK, tokens)]
    rows: list[Wanted] = [(CONFIGURED, None)] if CONFIGURED in named else []
    for method in METHODS:
        if method in named:
            rows += [(method, chunk) for chunk in sizes] if method in CHUNKING_METHODS else [(method, None)]
    return rows
