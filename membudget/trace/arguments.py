"""The arguments of a user's loss, made from the names in its signature."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from membudget.config.suggest import did_you_mean
from membudget.errors import UsageError
from membudget.losses.torch_ops import DTYPES


@dataclass(frozen=True)
class Sizes:
    """What a loss is traced at."""

    tokens: int
    vocab: int
    hidden: int | None = None
    dtype: str = "bf16"
    """Of logits, hidden states and weights."""
    train_head: bool = False


NAMES = {
    "logits": ("logits", "student_logits"),
    "targets": ("targets", "teacher_logits", "target_logits"),
    "labels": ("labels", "label_ids", "target_ids"),
    "hidden": ("hidden", "hidden_states", "student_hidden"),
    "weight": ("weight", "head_weight", "lm_head_weight"),
    "teacher_hidden": ("teacher_hidden", "teacher_hidden_states"),
    "teacher_weight": ("teacher_weight", "teacher_head_weight"),
    "mask": ("mask", "loss_mask"),
    "token_weights": ("token_weights", "loss_weights"),
}
"""What an argument stands for, and the names it is known by."""

_MEANING = {name: meaning for meaning, names in NAMES.items() for name in names}


@dataclass
class Arguments:
    """What a function is called with; made before observation begins, so nobody counts it."""

    positional: list[Any]
    by_name: dict[str, Any]
    leaves: list[Tensor]
    """What gradients are computed of: logits, hidden states, a trained head."""


def arguments_of(
    function: Callable[..., Any], sizes: Sizes, given: Mapping[str, Any], wanted: Collection[str], device: str
) -> Arguments:
    """Tensors for required arguments with a name that is known and for those `wanted`, `given` values for others.

    A function that knows no such name gets logits and targets [tokens, vocab] for its first two required arguments.
    UsageError for what cannot be filled.
    """
    maker = _Maker(sizes, device)
    result = Arguments([], {}, maker.leaves)
    parameters = list(_parameters(function, {*given, *wanted}))
    known = any(parameter.name in _MEANING for parameter in parameters)
    unnamed = iter(() if known else ("logits", "targets"))
    for parameter in parameters:
        name = parameter.name
        if name in given:
            value = given[name]
        elif parameter.default is not _EMPTY and name not in wanted:
            continue
        else:
            meaning = _MEANING.get(name) or next(unnamed, None)
            if meaning is None:
                raise UsageError(_unknown(function, name))
            value = maker.make(meaning)
        if parameter.kind is inspect.Parameter.POSITIONAL_ONLY:
            result.positional.append(value)
        else:
            result.by_name[name] = value
    return result


_EMPTY = inspect.Parameter.empty


def _parameters(function: Callable[..., Any], asked_for: Collection[str]) -> Iterator[inspect.Parameter]:
    """The parameters to fill; logits and targets where a signature says nothing."""
    kinds = inspect.Parameter
    called = function.forward if isinstance(function, nn.Module) else function
    try:
        parameters = list(inspect.signature(called).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    named = [each for each in parameters if each.kind not in (kinds.VAR_POSITIONAL, kinds.VAR_KEYWORD)]
    accepts_any = any(each.kind is kinds.VAR_KEYWORD for each in parameters)
    unknown = sorted(set(asked_for) - {each.name for each in named})
    if unknown and not accepts_any:
        names = [each.name for each in named]
        raise UsageError(f"--arg {unknown[0]}: the function has no such argument{did_you_mean(unknown[0], names)}")
    # *args says nothing of names and takes both; **kwargs alone takes them by name.
    by_name = parameters and all(each.kind is kinds.VAR_KEYWORD for each in parameters)
    kind = kinds.KEYWORD_ONLY if by_name else kinds.POSITIONAL_ONLY
    yield from named or [kinds(name, kind) for name in ("logits", "targets")]
    yield from (kinds(name, kinds.KEYWORD_ONLY) for name in unknown)


def _unknown(function: Callable[..., Any], name: str) -> str:
    known = ", ".join(names[0] for names in NAMES.values())
    function_name = getattr(function, "__name__", "the function")
    return (
        f'{function_name} needs "{name}", which is none of {known}{did_you_mean(name, list(_MEANING))}: '
        f"name it so, give it a default, or pass a value with --arg {name}=VALUE"
    )


class _Maker:
    """Tensors by what they stand for."""

    def __init__(self, sizes: Sizes, device: str) -> None:
        self._sizes = sizes
        self._device = device
        self.leaves: list[Tensor] = []

    def make(self, meaning: str) -> Tensor:
        sizes = self._sizes
        if meaning in ("logits", "targets"):
            return self._matrix(sizes.tokens, sizes.vocab, trained=meaning == "logits")
        if meaning in ("hidden", "teacher_hidden"):
            return self._matrix(sizes.tokens, self._hidden(meaning), trained=meaning == "hidden")
        if meaning in ("weight", "teacher_weight"):
            trained = meaning == "weight" and sizes.train_head
            return self._matrix(sizes.vocab, self._hidden(meaning), trained=trained)
        dtype = {"labels": torch.int64, "mask": torch.bool, "token_weights": torch.float32}[meaning]
        return torch.zeros(sizes.tokens, dtype=dtype, device=self._device)

    def _matrix(self, rows: int, columns: int, *, trained: bool) -> Tensor:
        """What is trained is no leaf for the function, as in a model: it may be written in place."""
        tensor = torch.empty(rows, columns, dtype=DTYPES[self._sizes.dtype], device=self._device)
        if not trained:
            return tensor
        self.leaves.append(tensor.requires_grad_())
        return tensor.clone()

    def _hidden(self, meaning: str) -> int:
        if self._sizes.hidden is None:
            raise UsageError(f'the function takes "{meaning}": give its width with --hidden')
        return self._sizes.hidden
