"""Which lines of the user's code an operator belongs to."""

from __future__ import annotations

import os
import sysconfig
from collections.abc import Callable
from sys import _getframe
from types import CodeType, FrameType
from typing import Any, Literal, TypeVar

import torch
from torch.autograd import graph

from membudget.trace.events import NO_SCOPE, Place, Scope

ENGINE: CodeType = graph._engine_run_backward.__code__
"""The frame right above an operator that autograd itself calls, in a formula or to add gradients up."""

_TORCH = os.path.dirname(torch.__file__) + os.sep
_PACKAGE = os.path.dirname(os.path.dirname(__file__)) + os.sep
_PROGRAMS = os.path.join(_PACKAGE, "programs", "")
_MACHINERY = tuple(_PROGRAMS + file for file in ("section.py", "section_run.py"))
"""What runs the loss programs; the programs themselves are code like a user's."""

_LIBRARIES = tuple({os.path.join(sysconfig.get_path(name), "") for name in ("stdlib", "purelib", "platlib")})
_WRAPPERS = (os.path.join(_TORCH, "_dynamo", ""), os.path.join(_TORCH, "_compile.py"))
"""What some versions of PyTorch put between an operator and a dispatch mode."""

_OUTERMOST: set[CodeType] = set()

Kind = Literal["user", "library", "machinery"]
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
        self._kinds: dict[str, Kind] = {}
        self._positions: dict[CodeType, list[tuple[int, int]]] = {}

    def where(self, scope: Scope) -> tuple[Place, Scope]:
        """The place and scope of what runs now, or in backward of what made the node that runs now."""
        task = torch._C._current_graph_task_id()
        node = torch._C._current_autograd_node() if task != -1 else None
        place = self._place()
        if node is not None and (not place or scope == NO_SCOPE):
            made_at, of_node = self._of_node.get(node._sequence_nr(), ((), scope))
            place, scope = place or made_at, of_node
        if node is None or place:
            self._of_node.setdefault(torch._C._autograd._get_sequence_nr() - 1, (place, scope))
        return place, scope

    def _place(self) -> Place:
        """The user's frames; those of a library where there are no others. In backward, of what backward runs."""
        frames: dict[Kind, list[tuple[str, int, int]]] = {"user": [], "library": [], "machinery": []}
        frame: FrameType | None = _getframe(3)
        while frame is not None and frame.f_code is not ENGINE and frame.f_code not in _OUTERMOST:
            kind = self._kind(frame.f_code.co_filename)
            if kind != "machinery":
                frames[kind].append((frame.f_code.co_filename, *self._position(frame)))
            frame = frame.f_back
        return tuple(frames["user"] or frames["library"])

    def _position(self, frame: FrameType) -> tuple[int, int]:
        """Line and column at which the instruction that runs begins."""
        code = frame.f_code
        positions = self._positions.get(code)
        if positions is None:
            positions = [(line or code.co_firstlineno, column or 0) for line, _, column, _ in code.co_positions()]
            self._positions[code] = positions
        return positions[frame.f_lasti // 2]

    def _kind(self, filename: str) -> Kind:
        known = self._kinds.get(filename)
        if known is None:
            known = self._kinds[filename] = _kind_of(filename)
        return known


def _kind_of(filename: str) -> Kind:
    """Whose code a file is: PyTorch and this package are machinery, but for the programs, which are like a user's."""
    if filename.startswith(_PACKAGE):
        return "user" if filename.startswith(_PROGRAMS) and filename not in _MACHINERY else "machinery"
    if filename.startswith((_TORCH, "<")):
        return "machinery"
    return "library" if filename.startswith(_LIBRARIES) else "user"
