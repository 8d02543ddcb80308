from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from membudget.config import load as load_module
from membudget.config.load import (
    find_config,
    load,
    load_config,
    parse,
    parse_config,
    profile_names,
    profiles_folder,
)
from membudget.errors import ConfigError, UsageError
from tests.config.examples import MINIMAL, minimal


def test_a_file_and_its_text_are_the_same_configuration(tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    path.write_text(MINIMAL, encoding="utf-8")
    assert load_config(path) == load(str(path)).config == parse_config(MINIMAL, "x.yaml")


def test_positions_of_keys() -> None:
    loaded = parse(minimal("cross_entropy: {}", "kl:\n    method: chunked\n    chunk: 16"), "run.yaml")
    assert loaded.file == "run.yaml"
    assert loaded.positions[("loss", "kl", "chunk")] == (17, 5)
    assert loaded.positions[("hardware", "groups", 0, "memory")] == (22, 7)


def test_a_run_is_called_by_its_name_or_its_file() -> None:
    assert parse(MINIMAL, "runs/ddtree.yaml").name == "ddtree"
    assert parse("name: night run\n" + MINIMAL, "runs/ddtree.yaml").name == "night run"


def test_one_problem_does_not_hide_the_others() -> None:
    text = minimal("hidden_size: 64", "hidden_size: 064").replace("block_size: 8", "block_size: 8.0")
    text = text.replace("[0]", "[-1]").replace("24 GiB", "24G") + "step:\nlos: 1\n"
    with pytest.raises(ConfigError) as error:
        parse_config(text, "a.yaml")
    assert [problem.line for problem in error.value.problems] == [2, 13, 19, 20, 21, 22]


@pytest.fixture
def shipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of profiles, and an empty working directory."""
    folder, work = tmp_path / "profiles", tmp_path / "work"
    folder.mkdir()
    work.mkdir()
    for name in ("ddtree", "v6"):
        (folder / f"{name}.yaml").write_text(MINIMAL, encoding="utf-8")
    monkeypatch.setattr(load_module, "profiles_folder", lambda: folder)
    monkeypatch.chdir(work)
    return folder


@pytest.mark.parametrize("argument", ["ddtree", "ddtree.yaml"])
def test_the_name_of_a_profile(shipped: Path, argument: str) -> None:
    assert find_config(argument) == shipped / "ddtree.yaml"


def test_a_file_here_goes_before_a_profile(shipped: Path) -> None:
    Path("ddtree.yaml").write_text(MINIMAL, encoding="utf-8")
    assert find_config("ddtree.yaml") == Path("ddtree.yaml")
    assert find_config("ddtree") == shipped / "ddtree.yaml"


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("ddtre", 'no configuration "ddtre" (did you mean "ddtree"?)'),
        ("dtree.yaml", 'no configuration "dtree.yaml" (did you mean "ddtree.yaml"?)'),
        ("colour", 'no configuration "colour"'),
        ("", 'no configuration ""'),
        ("../ddtree.yaml", 'no configuration "../ddtree.yaml" (did you mean "ddtree.yaml"?)'),
        ("nowhere/run.yaml", 'no configuration "nowhere/run.yaml": the folder nowhere does not exist'),
        ("a\x1bb", 'no configuration "a\\x1bb"'),
        ("a\0b", 'no configuration "a\\x00b"'),
    ],
)
@pytest.mark.usefixtures("shipped")
def test_a_name_that_is_nothing_tells_what_there_is(argument: str, message: str) -> None:
    with pytest.raises(UsageError) as error:
        find_config(argument)
    known = "" if "does not exist" in message else "; profiles that ship with this tool: ddtree, v6"
    assert str(error.value) == message + known


@pytest.mark.usefixtures("shipped")
def test_a_name_like_a_file_here() -> None:
    Path("night-run.yaml").write_text(MINIMAL, encoding="utf-8")
    with pytest.raises(UsageError, match=r'did you mean "night-run\.yaml"'):
        find_config("nightrun.yaml")


@given(st.text())
def test_any_argument_is_found_or_refused(argument: str) -> None:
    try:
        found = str(find_config(argument))
    except UsageError as error:
        found = str(error)
    assert found.isprintable()


def test_every_profile_that_ships_is_found_and_valid() -> None:
    names = profile_names()
    if not names:
        pytest.skip("no profiles beside the package")
    for name in names:
        assert find_config(name) == profiles_folder() / f"{name}.yaml"
        assert load(find_config(name)).name


def test_reading_is_quick(tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    path.write_text(MINIMAL, encoding="utf-8")
    load_config(path)
    times = []
    for _ in range(5):
        start = time.perf_counter()
        load_config(path)
        times.append(time.perf_counter() - start)
    assert min(times) < 0.01


PROBE = """
import json, sys
{extra}
from membudget.config.load import parse_config
parse_config({text!r}, "a.yaml")
print(json.dumps(sorted({heavy!r} & set(sys.modules))))
"""
HEAVY = {"torch", "numpy", "rich", "typer", "difflib", "jsonschema"}


def heavy_modules(extra: str) -> list[str]:
    code = PROBE.format(extra=extra, text=MINIMAL, heavy=HEAVY)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded: list[str] = json.loads(done.stdout)
    return loaded


def test_a_valid_configuration_is_read_without_heavy_modules() -> None:
    assert heavy_modules("") == []


def test_the_test_above_can_fail() -> None:
    assert heavy_modules("import difflib") == ["difflib"]
