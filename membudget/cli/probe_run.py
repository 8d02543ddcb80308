"""`probe` with a device: everything that can be refused is refused before anything runs."""

from __future__ import annotations

import gc
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from membudget.cli.arguments import choose, parse_count
from membudget.cli.needs_torch import require_torch
from membudget.cli.probe_progress import Progress, say
from membudget.cli.probe_rows import wanted_rows
from membudget.cli.writing import check_destination, write_file
from membudget.config.base import MAX_COUNT
from membudget.config.load import find_config, load
from membudget.probe.measurement import Settings, to_text
from membudget.probe.probing import Options, probe
from membudget.report.probe_result import ProbeReport

if TYPE_CHECKING:
    from membudget.probe.device import Device
    from membudget.probe.prediction import Kind

DEFAULT_CONFIG = "membudget.yaml"
DEFAULT_PROFILE = "ddtree"
DEFAULT_REPEAT = {"cuda": 3, "cpu": 1}
"""On the CPU nothing differs from run to run, and a row is five runs already."""

MAX_REPEAT = 1000


@dataclass(frozen=True)
class Choices:
    """The command line as it was given."""

    config: str | None
    device: str | None
    methods: Sequence[str]
    chunks: Sequence[str]
    repeat: str | None
    scale: str | None
    force: bool
    save: str | None


def measure(choices: Choices) -> ProbeReport:
    """Run the probe and save its measurement."""
    kinds: dict[str, Kind] = {"cuda": "cuda", "cpu": "cpu"}
    kind = choose("--device", choices.device or "cuda", kinds)
    default = DEFAULT_REPEAT[kind]
    repeat = default if choices.repeat is None else parse_count("--repeat", choices.repeat, MAX_REPEAT)
    scale = 1 if choices.scale is None else parse_count("--scale", choices.scale, MAX_COUNT)
    if choices.save is not None:
        check_destination(choices.save)
    path, remark = _config_path(choices.config)
    loaded = load(path)
    settings = Settings.of(loaded.config, loaded.name, repeat=repeat, scale=scale)
    wanted = wanted_rows(choices.methods, choices.chunks, settings.request)
    require_torch("probe")
    # Many steps run, and what they leave in cycles may hold tensors.
    gc.enable()
    device = _open(kind)
    if remark:
        say(remark)
    with Progress(len(wanted)) as progress:
        options = Options(repeat, scale, choices.force)
        measurement = probe(device, settings, wanted, options, progress.row)
    if choices.save is not None:
        write_file(choices.save, to_text(measurement))
        say(f"measurement written to {choices.save}")
    return ProbeReport(measurement)


def _config_path(config: str | None) -> tuple[str, str]:
    """The configuration that was named, else that of the folder, else the shipped one; and a remark on the latter."""
    if config is not None:
        return str(find_config(config)), ""
    if os.path.lexists(DEFAULT_CONFIG):
        return DEFAULT_CONFIG, f"no CONFIG given: probing ./{DEFAULT_CONFIG}"
    remark = f"no CONFIG given and no ./{DEFAULT_CONFIG} here: probing the profile {DEFAULT_PROFILE}"
    return str(find_config(DEFAULT_PROFILE)), remark


def _open(kind: Kind) -> Device:
    if kind == "cpu":
        from membudget.probe.cpu_device import CpuDevice

        return CpuDevice()
    from membudget.probe.cuda_device import open_cuda

    return open_cuda()
