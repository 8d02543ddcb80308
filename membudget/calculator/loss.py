"""The loss section of a step, from the sized engine: what it costs alone, and as a part of a training step."""

from __future__ import annotations

from collections.abc import Iterable

from membudget.calculator.loss_fold import folded
from membudget.calculator.loss_request import LossRequest
from membudget.calculator.loss_run import run_section
from membudget.calculator.result import LossPrice
from membudget.calculator.section_totals import section_totals
from membudget.config.libraries import LIBRARY_METHODS
from membudget.errors import UsageError
from membudget.timeline import Recorder, Timeline

MAX_CHUNKS = 4096
"""Where chunks of several sizes cannot be folded, more than this, all terms together, are refused: each is run."""

FOLDED_FROM = 12
"""Loops of at least so many full chunks are folded."""

APPROXIMATE_METHODS = frozenset({"cut_cross_entropy"})
"""Methods that leave out parts of the gradient."""


def section_timeline(request: LossRequest, *, head_gradient_exists: bool = False) -> Timeline:
    """The section's timeline; long loops over chunks are folded, which changes no peak.

    A library chooses its chunks by the number of tokens, so that no shorter run tells what a longer one does.
    """

    def run(tokens: int) -> Timeline:
        return run_section(request.with_tokens(tokens), head_gradient_exists=head_gradient_exists)

    chunks = {term.chunk for _, term in request.terms if term.chunk and term.chunk < request.tokens}
    if len(chunks) == 1 and not any(term.method in LIBRARY_METHODS for _, term in request.terms):
        (chunk,) = chunks
        if request.tokens // chunk >= FOLDED_FROM:
            timeline = folded(run, request.tokens, chunk)
            if timeline is not None:
                return timeline
    _check_chunks(request)
    return run(request.tokens)


def _check_chunks(request: LossRequest) -> None:
    if request.num_chunks > MAX_CHUNKS:
        raise UsageError(
            f"the terms have {request.num_chunks:,} chunks of different sizes, and no more than {MAX_CHUNKS:,} are "
            f"priced one by one: choose larger chunks, or the same chunk for all terms"
        )


class LossSection:
    """The section inside a step: each method replays its phase into the step's recorder."""

    def __init__(self, recorder: Recorder, request: LossRequest, *, head_gradient_exists: bool = False) -> None:
        """`head_gradient_exists`: the head's gradient was zeroed, not freed, and is accounted for elsewhere."""
        self._recorder = recorder
        self._timeline = section_timeline(request, head_gradient_exists=head_gradient_exists)
        self._events = self._timeline.events()
        self._handles: dict[int, int] = {}

    def targets(self) -> None:
        """The teacher's logits in full, when a term that works on logits in full reads them."""
        self._replay("targets")

    def forward(self) -> None:
        """Logits and loss; at the end the caller lets go of what it does not keep."""
        self._replay("forward")

    def backward(self) -> None:
        """Through loss and head to the gradient of the hidden states, which stays alive."""
        self._replay("backward")

    def pass_gradient_on(self) -> None:
        """The layers below have taken the gradient of the hidden states."""
        self._replay("pass gradient on")

    def release(self) -> None:
        """The end of the backward pass: what the caller kept goes; the head's gradient stays."""
        self._replay("release")

    def clear_gradients(self) -> None:
        """`zero_grad(set_to_none=True)` for the head."""
        self._replay("clear gradients")

    def _replay(self, name: str) -> None:
        for phase in self._timeline.phases:
            if phase.name == name:
                for event in self._events[phase.first : phase.end]:
                    self._replay_event(event)

    def _replay_event(self, event: int) -> None:
        if event < 0:
            self._recorder.free(self._handles.pop(~event))
        else:
            self._handles[event] = self._recorder.repeat(self._timeline.allocations[event])


def price_loss(request: LossRequest) -> LossPrice:
    """What the section costs in bytes, beyond hidden states and head weights."""
    timeline = section_timeline(request).until("backward")
    totals = section_totals(timeline)
    names = tuple(name for name, _ in request.terms)
    methods = {term.method for _, term in request.terms}
    chunks = {term.chunk for _, term in request.terms}
    return LossPrice(
        terms=names,
        method=_only(methods),
        chunk=next(iter(chunks)) if len(chunks) == 1 else None,
        logits_dtype=request.logits_dtype,
        softmax_dtype=_softmax_dtype(request),
        held_bytes=totals.held_bytes,
        forward_peak_bytes=totals.forward_peak_bytes,
        backward_peak_bytes=totals.backward_peak_bytes,
        gradient="approximate" if "kl_topk" in names or methods & APPROXIMATE_METHODS else "exact",
        provenance="modelled" if any(a.provenance == "modelled" for a in timeline.allocations) else "exact",
        timeline=timeline,
    )


def _softmax_dtype(request: LossRequest) -> str:
    """That of the terms with softmaxes of their own; of cross_entropy only when it is alone."""
    settings = [settings for group in request.groups for settings in group.terms]
    own = [each for each in settings if each.name != "cross_entropy"] or settings
    return _only(each.softmax_dtype or "native" for each in own)


def _only(values: Iterable[str]) -> str:
    found = set(values)
    return found.pop() if len(found) == 1 else "mixed"
