"""What else is known of a GPU: its driver, and who else uses it. Whoever does not tell is not asked twice."""

from __future__ import annotations

import os
import re
from importlib import import_module

import torch

from membudget.units import format_both

UNEXPLAINED_BYTES = 2 * 2**30
"""Far more than a CUDA context takes: this much beside our own memory belongs to somebody else."""

_PROCESS = re.compile(r"process\s+(\d+) uses\s+([0-9.]+ MB)")


def driver_version() -> str | None:
    """The driver's own version by NVML, else the newest CUDA that it speaks; None where torch does not say either."""
    try:
        pynvml = import_module("pynvml")
        pynvml.nvmlInit()
        return str(pynvml.nvmlSystemGetDriverVersion())
    except Exception:  # NVML is optional, and fails in ways of its own in containers
        return _newest_cuda()


def _newest_cuda() -> str | None:
    try:
        version = int(torch._C._cuda_getDriverVersion())  # type: ignore[attr-defined]
    except (AttributeError, RuntimeError):
        return None
    return f"CUDA {version // 1000}.{version % 1000 // 10}"


def other_processes(device: torch.device) -> list[str]:
    """Other processes on the device with their memory; without NVML what nobody here has allocated."""
    try:
        text = str(torch.cuda.list_gpu_processes(device))
    except Exception:  # the same
        text = ""
    found = [f"process {pid} {size}" for pid, size in _PROCESS.findall(text) if int(pid) != os.getpid()]
    if found or "no processes" in text:
        return found
    free, total = torch.cuda.mem_get_info(device)
    beside = total - free - torch.cuda.memory_reserved(device)
    return [f"{format_both(beside)} in use outside of this process"] if beside > UNEXPLAINED_BYTES else []
