"""A CUDA device: real shapes, PyTorch's own counters."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from membudget.calculator.loss_request import LossRequest
from membudget.calculator.section_totals import section_totals
from membudget.errors import CannotMeasureError
from membudget.losses.section import torch_section
from membudget.probe.compiled_section import compiled_section
from membudget.probe.cuda_system import driver_version, other_processes
from membudget.probe.device import NO_CODE, DeviceOutOfMemoryError, Sample
from membudget.probe.prediction import Kind, inputs_bytes, predicted
from membudget.programs.section_run import SectionRun
from membudget.units import format_both

WARM_UP = 64
"""Tokens, vocabulary and hidden size of the section that is run first, at most."""

OUT_OF_MEMORY = ("CUDA error: out of memory", "CUBLAS_STATUS_ALLOC_FAILED", "CUDA out of memory")
"""What a device without memory says outside of PyTorch's allocator."""

NO_CUDA = (
    "no CUDA device here (torch.cuda.is_available() is false): use a machine with one, or `--device cpu`, which runs "
    "the same code on the CPU at a reduced size and scales"
)


def open_cuda() -> CudaDevice:
    """The current CUDA device. CannotMeasureError when there is none."""
    if not torch.cuda.is_available():
        raise CannotMeasureError(NO_CUDA)
    return CudaDevice(torch.cuda.current_device())


class CudaDevice:
    """One GPU.

    cuBLAS takes its workspaces from PyTorch's allocator at the first product of each thread and keeps them; a warm-up
    has them taken before the counters are reset, so they are in what was there before, not in the section.
    """

    kind: Kind = "cuda"
    torch_version = str(torch.__version__)
    method = "real code at full size; torch.cuda.max_memory_allocated beyond hidden states, heads and labels"

    def __init__(self, index: int) -> None:
        self._device = torch.device("cuda", index)
        self.name = str(torch.cuda.get_device_name(self._device))
        self.driver = driver_version()
        self._is_warm: set[object] = set()

    def warnings(self) -> Sequence[str]:
        """Other processes on the GPU: they take memory, and device_bytes counts theirs too."""
        others = other_processes(self._device)
        return [f"others use this GPU, and its device totals include them: {'; '.join(others)}"] if others else []

    def missing(self, method: str) -> str:
        return NO_CODE if method == "fused_kernel" else ""

    def refusal(self, request: LossRequest) -> str:
        """Compares inputs and prediction with what mem_get_info says is free."""
        needed = inputs_bytes(request) + section_totals(predicted(request, "cuda")).peak_bytes
        self._release()
        free, _ = torch.cuda.mem_get_info(self._device)
        if needed <= free:
            return ""
        return f"needs {format_both(needed)} with its inputs, {format_both(free)} are free"

    def run(self, request: LossRequest) -> Sample:
        """Targets, forward and backward, once."""
        try:
            self._warm_up(request)
            return self._measured(request)
        except RuntimeError as error:
            text = " ".join(str(error).split("See documentation", 1)[0].split())
            if not isinstance(error, torch.cuda.OutOfMemoryError) and not any(sign in text for sign in OUT_OF_MEMORY):
                raise
        finally:
            self._release()
        # Outside of the handler: inside it the exception still holds the frames, and they the tensors.
        raise DeviceOutOfMemoryError(text[:1000])

    def _measured(self, request: LossRequest) -> Sample:
        section = _section(request, str(self._device))
        self._release()
        torch.cuda.synchronize(self._device)
        torch.cuda.reset_peak_memory_stats(self._device)
        before = torch.cuda.memory_allocated(self._device)
        start, end = _event(), _event()
        start.record()
        section.targets()
        section.forward()
        held = torch.cuda.memory_allocated(self._device) - before
        section.backward()
        end.record()
        torch.cuda.synchronize(self._device)
        free, total = torch.cuda.mem_get_info(self._device)
        return Sample(
            peak_bytes=torch.cuda.max_memory_allocated(self._device) - before,
            held_bytes=held,
            milliseconds=float(start.elapsed_time(end)),
            reserved_bytes=torch.cuda.max_memory_reserved(self._device),
            device_bytes=total - free,
        )

    def _warm_up(self, request: LossRequest) -> None:
        """The same methods and dtypes, tiny: kernels are loaded, workspaces taken, by the backward's thread too."""
        kinds = tuple((name, term.method) for name, term in request.terms)
        key = (kinds, request.logits_dtype, request.train_head)
        if key not in self._is_warm:
            sizes = {name: min(getattr(request, name), WARM_UP) for name in ("tokens", "vocab", "hidden")}
            _run_alone(torch_section(replace(request, **sizes), str(self._device)))
            self._is_warm.add(key)
        if _is_compiled(request) and (key, request.tokens) not in self._is_warm:
            # Compiled for these very shapes: tiny ones first would have the compiler expect shapes that change.
            _run_alone(compiled_section(request, str(self._device)))
            self._is_warm.add((key, request.tokens))

    def _release(self) -> None:
        """Give back what the last run left."""
        gc.collect()
        torch.cuda.empty_cache()


def _section(request: LossRequest, device: str) -> SectionRun[Tensor]:
    """The real thing; of `compiled` the programs hold only a rule, so torch.compile itself takes its place."""
    return compiled_section(request, device) if _is_compiled(request) else torch_section(request, device)


def _is_compiled(request: LossRequest) -> bool:
    return any(term.method == "compiled" for _, term in request.terms)


def _run_alone(section: SectionRun[Tensor]) -> None:
    for step in (section.targets, section.forward, section.backward):
        step()


def _event() -> torch.cuda.Event:
    return torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
