"""How long the command line takes to answer, as ratios, so that they mean something on any machine.

    python benchmarks/startup.py [RUNS]

`plan ddtree.yaml --format json` against an interpreter that only imports typer, rich, pydantic and yaml
(target: at most 1.3), and `check` on 100 files against one file (target: under 10).
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from membudget.config.load import find_config

IMPORTS = "import typer, rich.console, rich.table, pydantic, yaml\nclass Model(pydantic.BaseModel):\n    x: int"
COMMAND = "from membudget.__main__ import run; run()"
PLAN_TARGET = 1.3
CHECK_TARGET = 10.0
NUM_FILES = 100


def wall_seconds(cache: str, *words: str) -> float:
    """Seconds a fresh interpreter takes to run a line of code; any exit code but 0 and 1 is an error."""
    # All modules are compiled once, into the same folder, whatever the environment says about byte code.
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": cache}
    start = time.perf_counter()
    done = subprocess.run([sys.executable, "-c", *words], capture_output=True, text=True, env=environment)
    if done.returncode not in (0, 1):
        raise RuntimeError(f"{words} ended in {done.returncode}: {done.stderr}")
    return time.perf_counter() - start


def medians(cache: str, runs: int, *lines: tuple[str, ...]) -> list[float]:
    """Median seconds of each line; the lines take turns, so that a slow spell of the machine hits all."""
    seconds = [[wall_seconds(cache, *line) for line in lines] for _ in range(runs + 1)]
    # The first turn compiles the modules and fills the cache of the file system.
    return [statistics.median(column) for column in zip(*seconds[1:], strict=True)]


def report(name: str, above: float, below: float, target: float) -> bool:
    """Print one ratio; whether it meets its target."""
    ratio = above / below
    met = ratio <= target
    print(f"{name}: {ratio:.2f} (target {target:g}; {above * 1000:.0f} ms / {below * 1000:.0f} ms)", end=" ")
    print("ok" if met else "MISSED")
    return met


def main() -> int:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    profile = find_config("ddtree")
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as cache:
        for number in range(NUM_FILES):
            shutil.copy(profile, Path(folder) / f"{number}.yaml")
        plan, imports, one, many = medians(
            cache,
            runs,
            (COMMAND, "plan", str(profile), "--format", "json"),
            (IMPORTS,),
            (COMMAND, "check", str(Path(folder) / "0.yaml")),
            (COMMAND, "check", folder),
        )
    met = [
        report("plan ddtree.yaml --format json / importing its libraries", plan, imports, PLAN_TARGET),
        report(f"check {NUM_FILES} files / check 1 file", many, one, CHECK_TARGET),
    ]
    return 0 if all(met) else 1


if __name__ == "__main__":
    sys.exit(main())
