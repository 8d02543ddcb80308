"""The options of `probe`, apart from the command so that it can be read."""

from __future__ import annotations

from typing import Annotated

import typer

Config = Annotated[
    str | None,
    typer.Argument(
        metavar="CONFIG",
        help="A file or a profile. Default: ./membudget.yaml, else the profile ddtree.",
        show_default=False,
    ),
]
Device = Annotated[
    str | None, typer.Option("--device", metavar="cuda|cpu", help="Where to run; cpu needs no GPU. Default: cuda.")
]
Method = Annotated[
    list[str] | None,
    typer.Option(
        "--method",
        metavar="METHOD|configured|all",
        help="May be given several times. Default: all.",
        show_default=False,
    ),
]
Chunk = Annotated[
    list[str] | None,
    typer.Option(
        "--chunk",
        metavar="N",
        help="Tokens per chunk; may be given several times. Default: 4096, at most the tokens.",
        show_default=False,
    ),
]
Repeat = Annotated[
    str | None,
    typer.Option("--repeat", metavar="N", help="Runs per row, the largest counts. Default: 3, on the CPU 1."),
]
Scale = Annotated[
    str | None, typer.Option("--scale", metavar="K", help="Where all tokens do not fit, run 1/K and extrapolate.")
]
Force = Annotated[bool, typer.Option("--force", help="Run also what does not fit by what is free.")]
Save = Annotated[
    str | None, typer.Option("--save", metavar="FILE", help="Write the measurement as JSON, whole or not at all.")
]
Check = Annotated[
    str | None,
    typer.Option("--check", metavar="FILE", help="Run nothing: compare a saved measurement with today's prediction."),
]
Tolerance = Annotated[
    str | None, typer.Option("--tolerance", metavar="T", help='Of --check: "1%", "10 MB" or 0. Default: 0.')
]
Format = Annotated[str, typer.Option("--format", metavar="table|json", help="How to print it.")]
