"""The process: `membudget` and `python -m membudget`."""

from __future__ import annotations

import gc
import sys


def run() -> None:
    """Run the command line and exit with its code.

    A command is short and leaves next to no garbage; looking through what it imports, and at exit once more, takes up
    to a third of its time. Commands that go on for long turn the collection on again.
    """
    gc.disable()
    from membudget.cli.app import main

    code = main()
    gc.freeze()
    sys.exit(code)


if __name__ == "__main__":
    run()
