"""Whole texts compared with files; MEMBUDGET_UPDATE_GOLDEN=1 rewrites them, to be read in the diff."""

from __future__ import annotations

import os
from pathlib import Path

FOLDER = Path(__file__).with_name("golden")


def assert_golden(name: str, text: str) -> None:
    """The text is, to the byte, that of golden/NAME."""
    path = FOLDER / name
    if os.environ.get("MEMBUDGET_UPDATE_GOLDEN"):
        FOLDER.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")
