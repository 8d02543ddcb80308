"""Any exception -> one clear line and an exit code."""

from __future__ import annotations

from membudget.errors import ConfigError, ExitCode, MembudgetError, printable

INTERRUPTED = 130
"""128 + SIGINT, as shells report it."""


def exit_code_of(error: BaseException) -> int:
    """Never 1: that means a budget over its limit, which is no failure."""
    if isinstance(error, MembudgetError):
        return int(error.exit_code)
    if isinstance(error, KeyboardInterrupt) or type(error).__name__ == "Abort":
        return INTERRUPTED
    return int(ExitCode.BAD_INPUT)


def message_of(error: BaseException) -> str:
    """One line for people; only the problems of a configuration take more, with their source lines."""
    if isinstance(error, ConfigError):
        return "\n".join(printable(line) for line in str(error).split("\n"))
    return f"membudget: {cause_of(error)}"


def cause_of(error: BaseException) -> str:
    """One line without the name of the program in front."""
    return printable(_cause(error))


def traceback_of(error: BaseException) -> str:
    """What --debug shows."""
    from traceback import format_exception

    return "".join(format_exception(error))


def is_json_wanted(arguments: list[str]) -> bool:
    """Whether a command line asks for JSON, read without parsing it: the parse may be what failed."""
    from itertools import pairwise

    return "--format=json" in arguments or ("--format", "json") in pairwise(arguments)


def _cause(error: BaseException) -> str:
    if isinstance(error, MembudgetError):
        return str(error)
    if exit_code_of(error) == INTERRUPTED:
        return "interrupted"
    if isinstance(error, MemoryError):
        return "this machine ran out of memory while computing; nothing was computed"
    # typer does not export the root of its usage errors; all of them, and only they, format themselves.
    formatted = getattr(error, "format_message", None)
    if formatted is not None:
        return _usage(error, str(formatted()))
    return (
        f"internal error, {type(error).__name__}: {str(error) or 'no details'}; "
        "run again with --debug for the traceback, and please report it"
    )


def _usage(error: BaseException, text: str) -> str:
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "membudget"
    return f"{' '.join(text.split()).rstrip('.')} (see `{command} --help`)"
