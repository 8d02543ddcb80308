"""The modes of a trace, entered together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager

from torch import Tensor

from membudget.timeline import Timeline
from membudget.trace.cuda_choices import cuda_choices
from membudget.trace.fake_mode import fake_tensors
from membudget.trace.findings import findings_of
from membudget.trace.lines import LineFinder
from membudget.trace.observer import Observer
from membudget.trace.result import Finding

DEVICE = "meta"
"""Where the tensors of a trace live: no device's operators are chosen, and the host stays a different place."""


def faking() -> AbstractContextManager[object]:
    """Tensors made inside on DEVICE have no data. What is made before `observing` is nobody's birth."""
    return fake_tensors()


@contextmanager
def observing(dims: Mapping[int, str]) -> Iterator[Observer]:
    """Every storage born on DEVICE is seen until it dies; operators are those that CUDA would run.

    `dims` names sizes: {24576: "tokens"}.
    """
    with cuda_choices(), Observer(DEVICE, LineFinder(), dims) as observer:
        yield observer


def named_dims(**sizes: int) -> dict[int, str]:
    """Names by size, without those that cannot be told apart."""
    counts = Counter(sizes.values())
    return {size: name for name, size in sizes.items() if counts[size] == 1}


def observed(
    observer: Observer, rounding: Callable[[int], int], outlive: Iterable[Tensor | None]
) -> tuple[Timeline, tuple[Finding, ...]]:
    """What was seen so far. The tensors that may `outlive` backward are the loss and gradients of the inputs."""
    log = observer.log
    numbers = [observer.number_of(tensor) for tensor in outlive if tensor is not None]
    expected = log.allocations_of(number for number in numbers if number is not None)
    timeline = log.timeline(rounding)
    return timeline, findings_of(timeline, log.places(), expected)
