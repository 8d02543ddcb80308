"""The catalogue of GPUs for people."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from membudget.catalog.gpus import Gpu
from membudget.report.screen import Screen, header_line, to_text
from membudget.units import format_gb, format_gib

_MIN_WIDTH = 79
_WIDE = 110
"""From this many columns on there is room for remarks."""


def render(gpus: Sequence[Gpu], screen: Screen) -> str:
    """One row per GPU: the name to write in a configuration, and what torch sees."""
    from rich.table import Table
    from rich.text import Text

    wide = screen.width >= _WIDE
    table = Table(box=header_line(), pad_edge=False, show_edge=False, padding=(0, 1, 0, 0))
    table.add_column("gpu", no_wrap=True)
    for header in ("torch sees", "in GB", "box"):
        table.add_column(header, justify="right", no_wrap=True)
    table.add_column("arch", no_wrap=True)
    table.add_column("name; remarks" if wide else "name", overflow="fold")
    for gpu in gpus:
        table.add_row(*(Text(cell) for cell in _cells(gpu)), Text(_name(gpu, wide=wide)))
    closing = (
        "The limit is what torch sees, not the number on the box; it moves by up to 0.3 GiB with the driver "
        "and with ECC. ~ was printed to two decimals, the others to the MiB. Sources: --format json."
    )
    wide_enough = replace(screen, width=max(screen.width, _MIN_WIDTH))
    return to_text([table, Text(), Text(closing)], wide_enough)


def _cells(gpu: Gpu) -> tuple[str, ...]:
    mark = "" if gpu.printed_to == "MiB" else "~"
    sizes = (mark + format_gib(gpu.torch_bytes), mark + format_gb(gpu.torch_bytes), f"{gpu.vendor_gb} GB")
    return (gpu.key, *sizes, gpu.arch)


def _name(gpu: Gpu, *, wide: bool) -> str:
    return f"{gpu.name}; {gpu.note}" if wide and gpu.note else gpu.name
