"""The catalogue of GPUs: what PyTorch sees as the total memory of each, never the number on the box."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from membudget.errors import UsageError

_MIB = 2**20
_GIB = 2**30


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU model of the catalogue."""

    key: str
    """The name a configuration uses."""
    name: str
    """For people."""
    vendor_gb: int
    """The number on the box, in GB; for recognition only."""
    torch_bytes: int
    """torch.cuda.get_device_properties(i).total_memory, as exactly as it was printed."""
    printed_to: str
    """How exactly it was printed: "MiB", or "0.01 GiB"."""
    arch: str
    """CUDA compute capability "major.minor", or the gfx name of an AMD GPU."""
    note: str
    """What else was seen; may be empty."""
    source: str
    """Where the memory figure was printed."""


def find_gpu(key: str) -> Gpu:
    """The GPU with this key; UsageError, with the nearest keys, when there is none."""
    gpus = _catalogue()
    if key in gpus:
        return gpus[key]
    near = [f'"{near}"' for near in _nearest(key[:100], gpus)]
    hint = f"did you mean {' or '.join(near)}?" if near else "see `membudget gpus`"
    raise UsageError(f'no GPU "{key}" in the catalogue ({hint}); for another GPU give "memory", what torch sees on it')


def _nearest(key: str, known: Iterable[str]) -> list[str]:
    """Keys that begin with the word, then those that hold it, then those spelled alike; at most three."""
    from difflib import get_close_matches

    wanted = "-".join(key.lower().replace("_", " ").replace("-", " ").split())
    if not wanted:
        return []
    begin = [k for k in known if f"{k}-".startswith(f"{wanted}-")] or [k for k in known if k.startswith(wanted)]
    return (begin or [k for k in known if wanted in k] or get_close_matches(wanted, known, n=3, cutoff=0.5))[:3]


def list_gpus() -> tuple[Gpu, ...]:
    """Every GPU, in the order of the file."""
    return tuple(_catalogue().values())


def cublas_workspace_bytes(gpu: Gpu) -> int:
    """Bytes of one cuBLAS (hipBLAS) workspace, of which PyTorch makes one per handle and stream.

    Source: aten/src/ATen/cuda/CublasHandlePool.cpp of PyTorch, parseChosenWorkspaceSize: 32 MiB on compute
    capability 9, 10 and 12, else 2 x 4096 KiB + 8 x 16 KiB; ROCm: 128 MiB on gfx94x and gfx95x, else 32 MiB.
    CUBLAS_WORKSPACE_CONFIG overrides it and is not read here.
    """
    if gpu.arch.startswith("gfx"):
        return (128 if gpu.arch.startswith(("gfx94", "gfx95")) else 32) * _MIB
    major = gpu.arch.partition(".")[0]
    return 32 * _MIB if major in {"9", "10", "12"} else (2 * 4096 + 8 * 16) * 2**10


@cache
def _catalogue() -> dict[str, Gpu]:
    # Imported here, so that a command that asks for no GPU does not pay for reading YAML.
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    text = Path(__file__).with_name("gpus.yaml").read_text(encoding="utf-8")
    return {key: _gpu(key, fields) for key, fields in yaml.load(text, Loader=loader)["gpus"].items()}


def _gpu(key: str, fields: dict[str, Any]) -> Gpu:
    in_mib = "torch_mib" in fields
    return Gpu(
        key=key,
        name=fields["name"],
        vendor_gb=fields["vendor_gb"],
        torch_bytes=fields["torch_mib"] * _MIB if in_mib else round(fields["torch_gib"] * _GIB),
        printed_to="MiB" if in_mib else "0.01 GiB",
        arch=fields["arch"],
        note=fields.get("note", ""),
        source=fields["source"],
    )
