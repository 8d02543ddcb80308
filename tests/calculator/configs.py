"""Configurations for the tests: the DFlash drafter of a 27B target, and a small one."""

from __future__ import annotations

from typing import Any

from membudget.calculator.plan import make_plan
from membudget.calculator.result import GpuPlan
from membudget.config.models import Config

QWEN = {
    "hidden_size": 5120,
    "intermediate_size": 17408,
    "num_hidden_layers": 5,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "vocab_size": 248320,
    "target_layer_ids": [1, 16, 31, 46, 61],
}
SMALL = {
    "hidden_size": 64,
    "intermediate_size": 224,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "vocab_size": 1000,
    "target_layer_ids": [1, 3],
}
TARGET = {
    "weights": "55.56 GB",
    "hidden_size": 5120,
    "intermediate_size": 17408,
    "num_hidden_layers": 64,
}
TARGETS_AND_DRAFTER = [
    {"role": "target", "indices": [0, 1, 2, 3, 4, 5], "gpu": "rtx-pro-6000-blackwell"},
    {"role": "drafter", "indices": [7], "gpu": "rtx-pro-6000-blackwell"},
]

MIXED = {"parameters": "fp32", "frozen": "fp32", "autocast": "bf16"}
"""fp32 parameters and tables, products in bf16."""


def incident(**sections: Any) -> Config:
    """1024 anchors x 24 tokens on seven GPUs; keyword arguments replace or extend sections."""
    base: dict[str, Any] = {
        "model": QWEN,
        "target": TARGET,
        "batch": {"total_seq_len": 8192, "max_anchors": 1024, "block_size": 24},
        "loss": {"cross_entropy": {}},
        "hardware": {"groups": TARGETS_AND_DRAFTER},
    }
    return Config.model_validate(_merged(base, sections))


def small(**sections: Any) -> Config:
    """A few MB, one GPU given by its memory."""
    base: dict[str, Any] = {
        "model": SMALL,
        "batch": {"total_seq_len": 32, "max_anchors": 6, "block_size": 4},
        "loss": {"cross_entropy": {}},
        "hardware": {"groups": [{"role": "drafter", "indices": [0], "memory": "1 GiB"}]},
    }
    return Config.model_validate(_merged(base, sections))


def _merged(base: dict[str, Any], sections: dict[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for name, fields in sections.items():
        merged[name] = {**base.get(name, {}), **fields} if name in ("model", "batch") else fields
    return merged


def training_gpu(config: Config, **options: Any) -> GpuPlan:
    (gpu,) = [gpu for gpu in make_plan(config, name="x", **options).gpus if gpu.role == "drafter"]
    return gpu


def phases(gpu: GpuPlan) -> dict[str, int]:
    return dict(gpu.phase_peaks)
