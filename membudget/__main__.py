"""`python -m membudget`."""

from __future__ import annotations

import sys

from membudget.cli.app import main

if __name__ == "__main__":
    sys.exit(main())
