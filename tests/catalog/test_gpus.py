"""The catalogue: exact figures where they are known, sources, suggestions."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from membudget.catalog.gpus import Gpu, cublas_workspace_bytes, find_gpu, list_gpus
from membudget.errors import UsageError

MIB = 2**20
SHARED = Path(__file__).parents[3] / "shared" / "data" / "gpus.yaml"


def test_the_gpu_of_the_incident() -> None:
    gpu = find_gpu("rtx-pro-6000-blackwell")
    assert gpu.torch_bytes == 97_250 * MIB == 101_974_016_000
    assert (f"{gpu.torch_bytes / 2**30:.2f}", f"{gpu.torch_bytes / 10**9:.2f}") == ("94.97", "101.97")
    assert (gpu.vendor_gb, gpu.printed_to, gpu.arch) == (96, "MiB", "12.0")


@pytest.mark.parametrize(
    ("key", "nbytes", "printed_to"),
    [
        ("h200", 143_156 * MIB, "MiB"),
        ("b200", 182_631 * MIB, "MiB"),
        ("mi300x", 196_592 * MIB, "MiB"),
        ("t4", 15_633_681_121, "0.01 GiB"),  # 14.56 x 1,073,741,824 = 15,633,680,957.4
        ("h100-nvl", 93 * 2**30, "0.01 GiB"),
    ],
)
def test_bytes_are_as_exact_as_they_were_printed(key: str, nbytes: int, printed_to: str) -> None:
    gpu = find_gpu(key)
    assert gpu.printed_to == printed_to
    assert abs(gpu.torch_bytes - nbytes) <= (0 if printed_to == "MiB" else 200)


def test_every_figure_has_a_source_and_is_of_a_real_card() -> None:
    gpus = list_gpus()
    assert len({gpu.key for gpu in gpus}) == len(gpus) >= 25
    for gpu in gpus:
        assert gpu.source, gpu.key
        assert gpu.key == gpu.key.lower()
        # What torch sees is never far above the number on the box, in either reading of GB.
        assert 0.85 * gpu.vendor_gb * 10**9 < gpu.torch_bytes <= gpu.vendor_gb * 2**30, gpu.key


def test_agrees_with_the_shared_figures() -> None:
    if not SHARED.exists():
        pytest.skip("the shared figures are not beside this checkout")
    shared = yaml.safe_load(SHARED.read_text())["gpus"]
    assert set(shared) == {gpu.key for gpu in list_gpus()}
    for gpu in list_gpus():
        assert abs(gpu.torch_bytes / 2**30 - shared[gpu.key]["torch_gib"]) <= 0.00501, gpu.key
        assert (gpu.arch, gpu.vendor_gb) == (shared[gpu.key]["arch"], shared[gpu.key]["vendor_gb"])


@pytest.mark.parametrize(
    ("arch", "nbytes"),
    [
        ("7.5", 8_519_680),
        ("8.9", 8_519_680),
        ("9.0", 33_554_432),
        ("10.0", 33_554_432),
        ("11.0", 8_519_680),
        ("12.1", 33_554_432),
        ("gfx90a", 32 * MIB),
        ("gfx942", 128 * MIB),
    ],
)
def test_cublas_workspace(arch: str, nbytes: int) -> None:
    assert cublas_workspace_bytes(Gpu("k", "name", 1, 1, "MiB", arch, "", "source")) == nbytes


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("RTX PRO 6000 Blackwell", "rtx-pro-6000-blackwell"),
        ("a100_80gb", "a100-80gb"),
        ("h100-80", "h100-80gb"),
        ("H100", "h100-80gb"),
        ("A100", "a100-40gb"),
        ("b20", "b200"),
    ],
)
def test_unknown_gpu_suggests(wrong: str, right: str) -> None:
    with pytest.raises(UsageError, match=f'did you mean "{right}"'):
        find_gpu(wrong)


def test_unknown_gpu_like_nothing() -> None:
    with pytest.raises(UsageError) as caught:
        find_gpu("abacus")
    assert str(caught.value) == (
        'no GPU "abacus" in the catalogue (see `membudget gpus`); for another GPU give "memory", what torch sees on it'
    )
