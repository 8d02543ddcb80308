"""Terms and flags of `loss` -> terms of a configuration, and the methods to price them by."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, get_args

from membudget.cli.arguments import choose
from membudget.config.loss import CHUNKING_METHODS, TEACHER_TERMS, TERMS, Loss, Method
from membudget.errors import UsageError

if TYPE_CHECKING:
    from membudget.config.loss import Term

METHODS: tuple[str, ...] = get_args(Method)
"""Every method, in the order in which they are shown."""


@dataclass(frozen=True)
class TermFlags:
    """Settings of the terms as given; None where a flag is absent."""

    softmax_dtype: str | None = None
    upcast: bool | None = None
    temperature: float | None = None
    beta: float | None = None
    k: int | None = None

    def given(self) -> Iterator[tuple[str, str | float | bool]]:
        """What was given and does not show elsewhere."""
        for name in ("upcast", "temperature", "beta", "k"):
            value = getattr(self, name)
            if value is not None:
                yield name, value


_FLAG_NAMES = {"upcast": "--upcast", "beta": "--beta", "k": "--top-k"}


def chosen_terms(names: Iterable[str]) -> tuple[str, ...]:
    """The terms named, each once, in the order in which a training loop adds them up."""
    given = list(names)
    for name in given:
        choose("TERM", name, dict.fromkeys(TERMS, name))
        if given.count(name) > 1:
            raise UsageError(f"TERM: {name} is named twice; a term is computed once")
    return tuple(name for name in TERMS if name in given)


def chosen_methods(method: str, chunk_given: bool) -> tuple[str, ...]:
    """The methods to price; UsageError for a chunk that the only method could not use."""
    methods = choose("--method", method, {"all": METHODS, **{name: (name,) for name in METHODS}})
    if chunk_given and not CHUNKING_METHODS.intersection(methods):
        chunking = ", ".join(name for name in METHODS if name in CHUNKING_METHODS)
        raise UsageError(f"--chunk: {method} does not chunk; leave it out, or choose one of {chunking}")
    return methods


def check_flags(names: tuple[str, ...], flags: TermFlags) -> None:
    """UsageError for a flag that none of the terms would read."""
    for setting, flag in _FLAG_NAMES.items():
        owners = [name for name in TERMS if setting in _term_class(name).model_fields]
        if getattr(flags, setting) is not None and not set(owners).intersection(names):
            raise UsageError(f"{flag} belongs to {', '.join(owners)}, which is not among the terms")


def build_terms(names: tuple[str, ...], flags: TermFlags) -> tuple[tuple[str, Term], ...]:
    """The terms as a configuration would hold them, by the method whole."""
    return tuple((name, _term(name, names, flags)) for name in names)


def _term(name: str, names: tuple[str, ...], flags: TermFlags) -> Term:
    fields = _term_class(name).model_fields
    settings: dict[str, Any] = {}
    # F.cross_entropy has no such argument: beside other terms it stays in the dtype of its logits.
    if flags.softmax_dtype is not None and (name != "cross_entropy" or len(names) == 1):
        settings["softmax_dtype"] = flags.softmax_dtype
    # A temperature is of distillation: beside a teacher's term it leaves the others alone.
    if flags.temperature is not None and (name in TEACHER_TERMS or not TEACHER_TERMS.intersection(names)):
        settings["temperature"] = flags.temperature
    for setting in _FLAG_NAMES:
        value = getattr(flags, setting)
        if value is not None and setting in fields:
            settings[setting] = value
    return _term_class(name)(**settings)


def _term_class(name: str) -> type[Term]:
    """The model of a term, read from the configuration so that a new term is known here too."""
    term_class: type[Term] = get_args(Loss.model_fields[name].annotation)[0]
    return term_class
