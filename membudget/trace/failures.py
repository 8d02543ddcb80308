"""What goes wrong in code that is not ours, as one message that names its line."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout

import torch
from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException

from membudget.errors import MembudgetError, UsageError, printable

_OURS = os.path.dirname(os.path.dirname(__file__)) + os.sep
_TORCH = os.path.dirname(torch.__file__) + os.sep

_REMEDIES = {
    "_local_scalar_dense": (
        "reads a value (.item(), float(), an `if` on a tensor); a trace has sizes and no data: keep it a tensor, "
        "detached if it is a metric"
    ),
    "nonzero": (
        "makes a tensor whose size depends on data (nonzero, x[mask]); a trace has sizes and no data: multiply by the "
        "mask, or use torch.where, or trace with the rows already selected (--tokens)"
    ),
}
_OUTSIDE = "convert all Tensors to FakeTensors"
"""How PyTorch says that a tensor with data came in."""

_REMEDY = "depends on data; a trace has sizes and no data: leave it out of the traced function"


@contextmanager
def user_code(doing: str) -> Iterator[None]:
    """Runs code of somebody else: its failures become UsageErrors that name its line, its prints go to stderr.

    `doing` begins the message: `importing losses`, `my_loss in forward`.
    """
    with redirect_stdout(sys.stderr):
        try:
            yield
        except MembudgetError:
            raise
        except (DataDependentOutputException, DynamicOutputShapeException) as error:
            raise UsageError(f"{_where(error)}{doing}: {_data_dependent(error)}") from error
        except SyntaxError as error:
            where = f"{error.filename}:{error.lineno or 0}: " if error.filename else ""
            raise UsageError(f"{where}{doing}: {error.msg}") from error
        except SystemExit as error:
            raise UsageError(f"{_where(error)}{doing}: the code ended the program (exit {error.code})") from error
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            raise UsageError(f"{_where(error)}{doing}: {_named(error)}") from error


def _data_dependent(error: DataDependentOutputException | DynamicOutputShapeException) -> str:
    operator = error.func._schema.name.split("::")[-1]
    name = "nonzero" if operator in ("nonzero", "masked_select") else operator
    return f"{operator.strip('_')} {_REMEDIES.get(name, _REMEDY)}"


def _named(error: BaseException) -> str:
    """Type and first line of the message, or what it means in a trace."""
    try:
        lines = printable_lines(str(error))
    except Exception:
        lines = []
    if lines and _OUTSIDE in lines[0]:
        return (
            "a tensor made outside the traced function meets one inside, which has no data: make it in the function or "
            "at the top of its file (traced as file.py:function), or pass it as an argument"
        )
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


def printable_lines(text: str) -> list[str]:
    """The lines of a text that say something, without control characters."""
    return [printable(line) for line in text.splitlines() if line.strip()]


def _where(error: BaseException) -> str:
    """`file:line: ` of the innermost frame that is the user's; nothing when there is none."""
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith((_TORCH, _OURS, "<frozen", sys.base_prefix + os.sep + "lib"))
    ]
    return f"{frames[-1].filename}:{frames[-1].lineno}: " if frames else ""
