"""Each file of cases/invalid is refused with exactly the text beside it. A new case is two new files."""

from __future__ import annotations

from pathlib import Path

import pytest

from membudget.config.load import load_config
from membudget.errors import ConfigError

FOLDER = Path(__file__).parent.parent / "cases" / "invalid"
NAMES = sorted(path.stem for path in FOLDER.glob("*.yaml"))


def test_the_cases_are_there_and_complete() -> None:
    assert len(NAMES) >= 120
    assert sorted(path.stem for path in FOLDER.glob("*.txt")) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_the_message(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(FOLDER)
    with pytest.raises(ConfigError) as error:
        load_config(f"{name}.yaml")
    assert f"{error.value}\n" == (FOLDER / f"{name}.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", NAMES)
def test_a_message_speaks_of_the_file_and_not_of_how_it_is_read(name: str) -> None:
    text = (FOLDER / f"{name}.txt").read_text(encoding="utf-8")
    for word in ("pydantic", "http", "Traceback", "Error", "type=", "input_value", "Drafter", "GpuGroup", "dict"):
        assert word not in text
