"""The entry point: wires the commands, writes their outcome, turns every failure into a line and a code."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from membudget import __version__
from membudget.cli.failures import INTERRUPTED, cause_of, exit_code_of, is_json_wanted, message_of, traceback_of
from membudget.cli.outcome import Outcome

if TYPE_CHECKING:
    import typer

HELP = """Know before the launch whether a training step fits on the GPU.

\b
Exit codes: 0 fits (plan: always), 1 over the limit (check),
            2 bad input or any failure, 3 cannot measure here.

`--debug`, anywhere on the line, shows the traceback of a failure.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line (default: that of the process) and return its exit code; never raises."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    arguments, debug = _without_debug(arguments)
    try:
        outcome = run(arguments)
        _show_causes(outcome, debug)
        deliver(outcome)
        return int(outcome.exit_code)
    except BaseException as error:
        return _fail(error, arguments, debug)


def run(arguments: list[str]) -> Outcome:
    """Run a command line; failures come as exceptions, those of typer among them."""
    if arguments in (["--version"], ["-V"]):
        # Answered before typer is imported, so that asking for the version costs next to nothing.
        return Outcome(f"membudget {__version__}\n")
    # Looking for plug-ins of pydantic reads the metadata of every installed package; none is wanted here.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    from typer.main import get_command

    result = get_command(build()).main(arguments, prog_name="membudget", standalone_mode=False)
    if result == INTERRUPTED:
        # typer has made an exit code of it already; it is a failure like others.
        raise KeyboardInterrupt
    # typer answers --help itself and returns the exit code; the commands return an Outcome.
    return result if isinstance(result, Outcome) else Outcome("", result or 0)


def build() -> typer.Typer:
    """The typer application with all commands."""
    import typer

    from membudget.cli import check, gpus, loss, plan, probe, root, schema, trace, version

    app = typer.Typer(
        help=HELP,
        context_settings={"help_option_names": ["-h", "--help"]},
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        callback=root.root,
        invoke_without_command=True,
    )
    app.command(epilog=plan.EXAMPLES)(plan.plan)
    app.command(epilog=check.EXAMPLES)(check.check)
    app.command(epilog=loss.EXAMPLES)(loss.loss)
    app.command(epilog=trace.EXAMPLES)(trace.trace)
    app.command(epilog=probe.EXAMPLES)(probe.probe)
    app.command()(gpus.gpus)
    app.command()(schema.schema)
    app.command()(version.version)
    return app


def deliver(outcome: Outcome) -> None:
    """Write the text to the file of -o, whole or not at all, or to stdout; the messages to stderr."""
    from membudget.cli.writing import write_file, write_stream

    for message in outcome.messages:
        write_stream(sys.stderr, f"membudget: {message}\n")
    if outcome.output is None or outcome.output == "-":
        write_stream(sys.stdout, outcome.text)
    else:
        write_file(outcome.output, outcome.text)


def _without_debug(arguments: list[str]) -> tuple[list[str], bool]:
    """--debug counts anywhere before a lone --, where options end."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    options = [argument for argument in arguments[:end] if argument != "--debug"]
    return options + arguments[end:], len(options) < end


def _show_causes(outcome: Outcome, debug: bool) -> None:
    from membudget.cli.writing import write_stream

    for cause in outcome.causes if debug else ():
        write_stream(sys.stderr, traceback_of(cause))


def _fail(error: BaseException, arguments: list[str], debug: bool) -> int:
    """Say what went wrong, on stderr and, if JSON was asked for, also as JSON on stdout; the exit code."""
    if isinstance(error, SystemExit) and (not error.code or _is_broken_pipe(error.__context__)):
        # Shell completion ends this way, and typer's answer to a reader of --help that went away.
        return 0
    code = exit_code_of(error)
    try:
        from membudget.cli.writing import write_stream

        message = message_of(error)
        write_stream(sys.stderr, (traceback_of(error) if debug else "") + f"{message}\n")
        if is_json_wanted(arguments):
            from membudget.report import errors_json

            write_stream(sys.stdout, errors_json.render(error, cause_of(error)))
    except Exception:
        # Nobody is left to tell; the exit code still says it.
        pass
    return code


def _is_broken_pipe(error: BaseException | None) -> bool:
    return isinstance(error, OSError) and error.errno == errno.EPIPE
