"""A FakeTensorMode without the second that importing torch._dynamo takes: nothing is compiled in a trace."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

_LOGGER = logging.getLogger("torch._subclasses.fake_tensor")
_COMPILER = "torch._dynamo"
_CACHE = "__dynamo_disable"
"""The attribute in which torch._disable_dynamo keeps what it made of a function."""


@contextmanager
def fake_tensors() -> Iterator[None]:
    """Tensors made inside have no data."""
    with ExitStack() as stack:
        # What goes wrong is said once, by whoever catches it.
        stack.callback(_LOGGER.setLevel, _LOGGER.level)
        _LOGGER.setLevel(logging.CRITICAL)
        if _COMPILER not in sys.modules:
            stack.enter_context(_without_compiler())
        stack.enter_context(FakeTensorMode())
        yield


class _StandIn(ModuleType):
    """What fake tensors ask of the compiler: its settings, and to be hidden from it. For all else it is imported."""

    def __init__(self) -> None:
        super().__init__(_COMPILER)
        spec = find_spec(_COMPILER)
        self.__path__ = list((spec and spec.submodule_search_locations) or ())
        self.hidden: list[Any] = []

    def disable(self, function: Any = None, *args: Any, **settings: Any) -> Any:
        """The function as it is."""
        if function is None:
            return lambda decorated: decorated
        self.hidden.append(function)
        return function

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        self.leave()
        return getattr(import_module(_COMPILER), name)

    def enter(self) -> None:
        sys.modules[_COMPILER] = self
        torch._dynamo = self
        import_module(f"{_COMPILER}.config")

    def leave(self) -> None:
        """As if it never was."""
        if sys.modules.get(_COMPILER) is self:
            for name in [name for name in sys.modules if name == _COMPILER or name.startswith(f"{_COMPILER}.")]:
                del sys.modules[name]
            vars(torch).pop("_dynamo", None)
        for function in self.hidden:
            vars(function).pop(_CACHE, None)


@contextmanager
def _without_compiler() -> Iterator[None]:
    stand_in = _StandIn()
    stand_in.enter()
    try:
        yield
    finally:
        stand_in.leave()
