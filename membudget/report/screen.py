"""What a text is made for: its width and whether colour is welcome; and the few things all tables share."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.box import Box
    from rich.console import RenderableType

MIN_WIDTH = 60
"""Narrower terminals get lines that wrap: a number that is cut is worse than a line that is."""


@dataclass(frozen=True, slots=True)
class Screen:
    """How a report is laid out. Formats that are not for people ignore it."""

    width: int = 80
    """Columns."""
    color: bool = False
    """Whether colour and bold may be used; they never carry the meaning alone."""
    explain: bool = False
    """Whether each formula is followed by the same formula with the numbers in it."""
    only_lines: bool = False
    """Of a trace: whether only the source lines that own the peak are shown."""


def to_text(renderables: Iterable[RenderableType], screen: Screen) -> str:
    """The renderables of rich as a string that ends in a newline, without trailing spaces."""
    from io import StringIO

    from rich.console import Console

    out = StringIO()
    console = Console(
        file=out,
        # With TERM=dumb rich ignores the width unless the height is given too.
        width=max(screen.width, MIN_WIDTH),
        height=100,
        color_system="standard" if screen.color else None,
        force_terminal=screen.color,
        force_interactive=False,
        no_color=not screen.color,
        markup=False,
        emoji=False,
        highlight=False,
        legacy_windows=False,
    )
    for renderable in renderables:
        console.print(renderable)
    return "".join(f"{line.rstrip()}\n" for line in out.getvalue().splitlines())


def header_line() -> Box:
    """A frame that is a line of hyphens under the header and nothing else: any terminal shows it."""
    from rich.box import Box

    return Box("    \n    \n -- \n    \n    \n    \n    \n    \n", ascii=True)


def bar(part: int, whole: int, cells: int = 10) -> str:
    """A bar of `cells` characters of which part/whole is filled, rounded to the nearest."""
    filled = min(cells, max(0, (2 * cells * part + whole) // (2 * whole))) if whole > 0 else 0
    return "#" * filled + "." * (cells - filled)


def percent(part: int, whole: int) -> str:
    """`12 %`, rounded to whole per cent; `<1 %` for what would round to nothing."""
    if whole <= 0:
        return "0 %"
    rounded = (200 * part + whole) // (2 * whole)
    return "<1 %" if part > 0 and rounded == 0 else f"{rounded} %"
