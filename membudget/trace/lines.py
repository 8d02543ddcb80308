"""Which lines of the user's code an operator belongs to."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from sys import _getframe
from types import CodeType, FrameType
from typing import Any, TypeVar

import torch
from torch.autograd import graph

from membudget.trace.events import NO_SCOPE, Place, Scope

ENGINE: CodeType = graph._engine_run_backward.__code__
"""The frame right above an operator that autograd itself calls, in a formula or to add gradients up."""

_TORCH = os.path.dirname(torch.__file__) + os.sep
_HERE = os.path.dirname(__file__) + os.sep
_PACKAGE = os.path.dirname(os.path.dirname(__file__))
_MACHINERY = tuple(
    os.path.join(_PACKAGE, *path)
    for path in (("losses", "torch_ops.py"), ("programs", "section.py"), ("programs", "section_run.py"))
)
"""What runs the loss programs; the programs themselves are code like a user's."""

_WRAPPERS = (os.path.join(_TORCH, "_dynamo", ""), os.path.join(_TORCH, "_compile.py"))
"""What some versions of PyTorch put between an operator and a dispatch mode."""


_OUTERMOST: set[CodeType] = set()

F = TypeVar("F", bound=Callable[..., Any])


def outermost(function: F) -> F:
    """Marks a function that calls the user's code: what is above it is not the user's."""
    _OUTERMOST.add(function.__code__)
    return function


def is_called_by_engine() -> bool:
    """Whether the operator that a dispatch mode was handed was called by autograd, with no Python in between."""
    frame: FrameType | None = _getframe(2)
    while frame is not None and frame.f_code.co_filename.startswith(_WRAPPERS):
        frame = frame.f_back
    return frame is not None and frame.f_code is ENGINE


class LineFinder:
    """Finds the lines that run; for backward, remembers at which lines each node of the graph was made."""

    def __init__(self) -> None:
        self._of_node: dict[int, tuple[Place, Scope]] = {}
        self._is_users: dict[str, bool] = {}

    def where(self, scope: Scope) -> tuple[Place, Scope]:
        """The place and scope of what runs now, or in backward of what made the node that runs now."""
        task = torch._C._current_graph_task_id()
        node = torch._C._current_autograd_node() if task != -1 else None
        place = tuple(self._user_frames())
        if node is not None and (not place or scope == NO_SCOPE):
            made_at, of_node = self._of_node.get(node._sequence_nr(), ((), scope))
            place, scope = place or made_at, of_node
        if node is None or place:
            self._of_node.setdefault(torch._C._autograd._get_sequence_nr() - 1, (place, scope))
        return place, scope

    def _user_frames(self) -> Iterator[tuple[str, int]]:
        """Frames of the user's code, the innermost first; in backward, of the code that backward runs."""
        frame: FrameType | None = _getframe(3)
        while frame is not None and frame.f_code is not ENGINE and frame.f_code not in _OUTERMOST:
            if self._users(frame.f_code.co_filename):
                yield frame.f_code.co_filename, frame.f_lineno
            frame = frame.f_back

    def _users(self, filename: str) -> bool:
        """Neither PyTorch's nor of this package's machinery."""
        known = self._is_users.get(filename)
        if known is None:
            known = not filename.startswith((_TORCH, _HERE, "<")) and filename not in _MACHINERY
            self._is_users[filename] = known
        return known
