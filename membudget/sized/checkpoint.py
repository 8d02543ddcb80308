"""Non-reentrant activation checkpointing (torch.utils.checkpoint, use_reentrant=False, early stop on).

Nothing but the arguments is held. The first unpack of a backward pass recomputes; recomputation stops at the
last tensor to be packed, before that operator allocates its output; a recomputed tensor dies when it has been
unpacked. Arguments pass through the hooks outside (nested checkpoints).
"""

from __future__ import annotations

from collections.abc import Callable

from membudget.sized.graph import SavedTensorHooks
from membudget.sized.session import Session
from membudget.sized.tensor import Tensor


class _Stop(Exception):  # noqa: N818  (it is no error: recomputation has all it needs)
    """Raised by the last pack of a recomputation."""


class _Frame:
    """One checkpointed call: packs its saved tensors into numbers, recomputes them when the first is asked for."""

    def __init__(self, session: Session, fn: Callable[..., Tensor], args: tuple[Tensor | None, ...]) -> None:
        self.session = session
        self.fn = fn
        outer = session.hooks[-1] if session.hooks else None
        self.outer: SavedTensorHooks | None = outer
        self.args: list[object] = [arg if outer is None or arg is None else outer.pack(arg) for arg in args]
        self.wants_gradient = [arg is not None and arg.requires_grad for arg in args]
        self.num_packed = 0
        self.recomputed: dict[int, Tensor] | None = None

    def pack(self, tensor: Tensor) -> object:
        self.num_packed += 1
        return self.num_packed - 1

    def unpack(self, packed: object) -> Tensor:
        assert isinstance(packed, int)
        if self.recomputed is None:
            self.recomputed = _recompute(self)
        return self.recomputed.pop(packed)

    def arguments(self) -> list[Tensor | None]:
        args: list[Tensor | None] = []
        for arg, wants_gradient in zip(self.args, self.wants_gradient, strict=True):
            tensor = arg if self.outer is None or arg is None else self.outer.unpack(arg)
            assert tensor is None or isinstance(tensor, Tensor)
            if tensor is not None and wants_gradient and not tensor.requires_grad:
                # What comes out of hooks wants a gradient again, as SavedVariable::unpack sees to.
                tensor.requires_grad = True
            args.append(tensor)
        return args


class _Recomputation:
    """Hooks during recomputation: keep each packed tensor, stop at the last one."""

    def __init__(self, session: Session, wanted: int) -> None:
        self.session = session
        self.wanted = wanted
        self.tensors: dict[int, Tensor] = {}

    def pack(self, tensor: Tensor) -> object:
        self.tensors[len(self.tensors)] = self.session.alias(tensor)
        if len(self.tensors) == self.wanted:
            raise _Stop
        return self.session.alias(tensor)

    def unpack(self, packed: object) -> Tensor:
        assert isinstance(packed, Tensor)
        return packed


def _recompute(frame: _Frame) -> dict[int, Tensor]:
    session = frame.session
    recomputation = _Recomputation(session, frame.num_packed)
    try:
        with session.grad_mode(True), session.saving_with(recomputation):
            frame.fn(*frame.arguments())
    except _Stop:
        pass
    return recomputation.tensors


def checkpoint(session: Session, fn: Callable[..., Tensor], *args: Tensor | None) -> Tensor:
    """fn(*args) without what it would save; `preserve_rng_state=False`, since no program draws numbers."""
    if not session.grad_enabled:
        return fn(*args)
    with session.saving_with(_Frame(session, fn, args)):
        return fn(*args)
