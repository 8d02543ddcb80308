"""What the CUDA adapter asks of torch.cuda and in which order, with a torch.cuda that is made up."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from membudget.calculator.loss_request import LossRequest
from membudget.errors import CannotMeasureError
from membudget.losses.section import torch_section
from membudget.probe import cuda_device
from membudget.probe.cuda_device import CudaDevice, open_cuda
from membudget.probe.device import DeviceOutOfMemoryError
from membudget.probe.prediction import inputs_bytes
from tests.probe.examples import settings

GIB = 2**30
REQUEST = settings().request


class FakeCuda:
    """Counters in place of a GPU; `calls` keeps what was asked."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: list[str] = []
        self.sections: list[LossRequest] = []
        self.free, self.total, self.reserved = 8 * GIB, 10 * GIB, 0
        self.processes = "pynvml module not found, please install nvidia-ml-py"
        self.failure: Exception | None = None
        answers: dict[str, Any] = {
            "is_available": True,
            "current_device": 0,
            "get_device_name": "Fake GPU",
            "memory_allocated": 1000,
            "max_memory_allocated": 5000,
            "max_memory_reserved": 6000,
            "empty_cache": None,
            "synchronize": None,
            "reset_peak_memory_stats": None,
        }
        for name, answer in answers.items():
            monkeypatch.setattr(torch.cuda, name, self._recording(name, answer))
        monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (self.free, self.total))
        monkeypatch.setattr(torch.cuda, "memory_reserved", lambda device: self.reserved)
        monkeypatch.setattr(torch.cuda, "list_gpu_processes", lambda device: self.processes)
        monkeypatch.setitem(sys.modules, "pynvml", None)
        monkeypatch.setattr(torch._C, "_cuda_getDriverVersion", lambda: 13010, raising=False)
        monkeypatch.setattr(cuda_device, "_event", FakeEvent)
        monkeypatch.setattr(cuda_device, "torch_section", self._section)

    def _recording(self, name: str, answer: Any) -> Any:
        def call(*args: object) -> Any:
            self.calls.append(name)
            return answer

        return call

    def _section(self, request: LossRequest, device: str) -> Any:
        assert device == "cuda:0"
        self.sections.append(request)
        if self.failure and request == REQUEST:
            raise self.failure
        return torch_section(request, "cpu")


class FakeEvent:
    def record(self) -> None:
        pass

    def elapsed_time(self, other: FakeEvent) -> float:
        return 2.5


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> FakeCuda:
    return FakeCuda(monkeypatch)


def test_what_is_measured(cuda: FakeCuda) -> None:
    device = open_cuda()
    sample = device.run(REQUEST)
    assert (sample.peak_bytes, sample.held_bytes, sample.milliseconds) == (4000, 0, 2.5)
    assert (sample.reserved_bytes, sample.device_bytes) == (6000, 2 * GIB)
    assert (device.name, device.driver, device.kind) == ("Fake GPU", "CUDA 13.1", "cuda")


def test_the_order(cuda: FakeCuda) -> None:
    device = open_cuda()
    cuda.calls.clear()
    device.run(REQUEST)
    assert cuda.calls == [
        "empty_cache",
        "synchronize",
        "reset_peak_memory_stats",
        "memory_allocated",
        "memory_allocated",
        "synchronize",
        "max_memory_allocated",
        "max_memory_reserved",
        "empty_cache",
    ]


def test_the_warm_up_is_small_and_comes_first_and_once_per_kind(cuda: FakeCuda) -> None:
    device = open_cuda()
    for _ in range(2):
        device.run(REQUEST)
    warm_up, *rest = cuda.sections
    assert rest == [REQUEST, REQUEST]
    assert (warm_up.tokens, warm_up.vocab, warm_up.hidden) == (24, 64, 64)
    assert warm_up.terms == REQUEST.terms


TRIED = "CUDA out of memory. Tried to allocate 11.37 GiB.\nSee documentation for Memory Management"


@pytest.mark.parametrize(
    ("failure", "text"),
    [
        (torch.cuda.OutOfMemoryError(TRIED), "CUDA out of memory. Tried to allocate 11.37 GiB."),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED"), "CUDA error: CUBLAS_STATUS_ALLOC_FAILED"),
    ],
)
def test_out_of_memory(failure: Exception, text: str, cuda: FakeCuda) -> None:
    cuda.failure = failure
    device = open_cuda()
    with pytest.raises(DeviceOutOfMemoryError) as caught:
        device.run(REQUEST)
    assert str(caught.value) == text
    assert caught.value.__context__ is None
    assert cuda.calls[-1] == "empty_cache"


def test_other_failures_stay_what_they_are(cuda: FakeCuda) -> None:
    cuda.failure = RuntimeError("no kernel image is available")
    with pytest.raises(RuntimeError, match="no kernel image is available"):
        open_cuda().run(REQUEST)


def test_what_is_free_decides(cuda: FakeCuda) -> None:
    device = open_cuda()
    assert device.refusal(REQUEST) == ""
    cuda.free = inputs_bytes(REQUEST)
    assert device.refusal(REQUEST).endswith(f"with its inputs, {inputs_bytes(REQUEST):,} B are free")


def test_other_processes(cuda: FakeCuda, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.getpid", lambda: 17)
    device = open_cuda()
    cuda.processes = "GPU:0\nprocess         17 uses      500.000 MB GPU memory"
    cuda.free = 9 * GIB
    assert device.warnings() == []
    cuda.processes += "\nprocess       4242 uses     3000.000 MB GPU memory"
    assert device.warnings() == ["others use this GPU, and its device totals include them: process 4242 3000.000 MB"]
    cuda.processes = "GPU:0\nno processes are running"
    cuda.free = 0
    assert device.warnings() == []


def test_without_nvml_what_nobody_here_allocated_is_told(cuda: FakeCuda) -> None:
    device = open_cuda()
    cuda.free, cuda.reserved = 4 * GIB, 5 * GIB
    assert device.warnings() == []
    cuda.reserved = 2 * GIB
    assert "4.29 GB = 4.00 GiB in use outside of this process" in device.warnings()[0]


def test_nvml_that_fails_is_no_failure(cuda: FakeCuda, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(device: object) -> str:
        raise OSError("no libnvidia-ml.so")

    monkeypatch.setattr(torch.cuda, "list_gpu_processes", fails)
    assert open_cuda().warnings() == []


def test_a_torch_that_does_not_tell_the_driver(cuda: FakeCuda, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(torch._C, "_cuda_getDriverVersion")
    assert open_cuda().driver is None


def test_only_the_fused_kernel_has_no_code(cuda: FakeCuda) -> None:
    device = open_cuda()
    assert [method for method in ("whole", "compiled", "liger", "fused_kernel") if device.missing(method)] == [
        "fused_kernel"
    ]


def test_compiled_sections_are_compiled_for_their_shapes_before_they_are_measured(
    cuda: FakeCuda, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[LossRequest] = []

    def section(request: LossRequest, device: str) -> Any:
        made.append(request)
        return torch_section(REQUEST, "cpu")

    monkeypatch.setattr(cuda_device, "compiled_section", section)
    request = settings({"kl": {"method": "compiled"}}).request
    device = open_cuda()
    device.run(request)
    assert made == [request, request]
    device.run(request)
    assert made == [request, request, request]
    assert [warm_up.vocab for warm_up in cuda.sections] == [64]


def test_nvml_tells_the_driver(cuda: FakeCuda, monkeypatch: pytest.MonkeyPatch) -> None:
    nvml = SimpleNamespace(nvmlInit=lambda: None, nvmlSystemGetDriverVersion=lambda: "580.65.06")
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    assert open_cuda().driver == "580.65.06"


def test_no_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(CannotMeasureError, match=r"no CUDA device here .*`--device cpu`"):
        open_cuda()


def test_the_adapter_is_a_device(cuda: FakeCuda) -> None:
    from membudget.probe.device import Device

    device: Device = CudaDevice(0)
    assert device.method.startswith("real code at full size")
