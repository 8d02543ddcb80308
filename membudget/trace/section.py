"""A priced loss section traced: the real code of its program on fake tensors."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

from torch import Tensor

from membudget.allocator import block_bytes
from membudget.calculator.loss import MAX_CHUNKS, section_timeline
from membudget.calculator.loss_request import LossRequest
from membudget.calculator.loss_run import run_section
from membudget.config.loss import Term
from membudget.errors import UsageError
from membudget.losses.section import torch_heads
from membudget.losses.torch_ops import TorchOps
from membudget.programs import heads, methods
from membudget.programs.section_run import SectionRun
from membudget.sequence import same_sequence
from membudget.timeline import Timeline
from membudget.trace.findings import NEGLIGIBLE
from membudget.trace.lines import outermost
from membudget.trace.observer import Observer
from membudget.trace.result import Finding, Trace
from membudget.trace.tracing import DEVICE, faking, named_dims, observed, observing
from membudget.units import format_both


class NamedOps(TorchOps):
    """The operators, telling an observer the names that programs give."""

    def __init__(self, observer: Observer) -> None:
        self._observer = observer

    def matmul(self, a: Tensor, b: Tensor, name: str = "matmul") -> Tensor:
        return self._rename(super().matmul(a, b), name)

    def empty_like(self, x: Tensor, name: str) -> Tensor:
        return self._rename(super().empty_like(x, name), name)

    def zeros_like(self, x: Tensor, name: str) -> Tensor:
        return self._rename(super().zeros_like(x, name), name)

    def empty(self, name: str, like: Tensor, shape: tuple[int, ...], dtype: str) -> Tensor:
        return self._rename(super().empty(name, like, shape, dtype), name)

    def library(
        self, name: str, priced: Callable[..., Tensor], hidden: Tensor, weight: Tensor, labels: Tensor
    ) -> Tensor:
        """One operator to a trace, which cannot look inside: its priced program is run instead."""
        return priced(self, hidden, weight, labels)

    def scope(self, name: str) -> AbstractContextManager[None]:
        return self._observer.within(self._observer.scope._replace(name=name))

    def modelled(self) -> AbstractContextManager[None]:
        return self._observer.within(self._observer.scope._replace(provenance="modelled"))

    def _rename(self, tensor: Tensor, name: str) -> Tensor:
        number = self._observer.number_of(tensor)
        if number is not None:
            birth = self._observer.log.births[number]
            scope = self._observer.scope.name
            birth.name = f"{scope} {name}" if scope else name
            birth.category = name if name in ("logits", "targets") else "loss"
        return tensor


CHUNK_LOOPS = frozenset({methods.__file__, heads.__file__})
"""Where the programs loop over chunks."""


def trace_config(name: str, request: LossRequest) -> Trace:
    """The real loss of a configuration at full size, beside the calculator's timeline of the same section.

    UsageError when it has more chunks than are run one by one.
    """
    if request.num_chunks > MAX_CHUNKS:
        raise UsageError(
            f"the loss has {request.num_chunks:,} chunks, and a trace runs no more than {MAX_CHUNKS:,} one by one: "
            f"choose larger chunks, or use plan, which folds them"
        )
    plan_peak_bytes = section_timeline(request).until("backward").peak().nbytes
    timeline, findings = trace_section(request)
    return Trace(
        name=name,
        settings=_settings(request),
        timeline=timeline,
        findings=tuple(finding for finding in findings if finding.file in CHUNK_LOOPS),
        notes=tuple(_shares(request, timeline)),
        plan_peak_bytes=plan_peak_bytes,
        # plan folds long loops, which changes no peak; what is compared is every chunk.
        equals_plan=same_sequence(run_section(request).until("backward"), timeline)
        and plan_peak_bytes == timeline.peak().nbytes,
    )


@outermost
def trace_section(
    request: LossRequest, rounding: Callable[[int], int] = block_bytes
) -> tuple[Timeline, tuple[Finding, ...]]:
    """Targets, forward and backward, beyond hidden states, heads and labels."""
    dims = named_dims(tokens=request.tokens, vocab=request.vocab, hidden_size=request.hidden)
    with faking():
        tensors = torch_heads(request, DEVICE)
        with observing(dims) as observer:
            run = SectionRun(NamedOps(observer), request.section_plan, tensors, Tensor.backward)
            for phase, step in run.phases()[:3]:
                observer.log.phase(phase)
                step()
            return observed(observer, rounding, [run.loss, *run.kept, tensors.hidden.grad, tensors.weight.grad])


def _shares(request: LossRequest, timeline: Timeline) -> Iterator[str]:
    """Each term's own tensors at the peak, the largest share first."""
    peak = timeline.peak()
    own: dict[str, int] = defaultdict(int)
    names: dict[str, dict[str, None]] = defaultdict(dict)
    for each in timeline.alive_at(peak.instant):
        term, _, tensor = each.name.partition(" ")
        if any(term == name for name, _ in request.terms):
            own[term] += each.nbytes
            names[term][tensor] = None
    for term, nbytes in sorted(own.items(), key=lambda item: -item[1]):
        if nbytes * NEGLIGIBLE > peak.nbytes:
            tensors = ", ".join(names[term])
            yield f"at the peak {term} owns {format_both(nbytes)} ({100 * nbytes // peak.nbytes} %): {tensors}"


def _settings(request: LossRequest) -> str:
    methods = ", ".join(f"{name} by {_method(term)}" for name, term in request.terms)
    sizes = f"{request.tokens:,} tokens x {request.vocab:,} vocab, hidden {request.hidden:,}, {request.logits_dtype}"
    return f"{sizes}; {methods}"


def _method(term: Term) -> str:
    return term.method if term.chunk is None else f"{term.method} in chunks of {term.chunk:,}"
