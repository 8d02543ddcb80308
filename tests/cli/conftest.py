"""A fixed environment, and configurations in a folder."""

from __future__ import annotations

from pathlib import Path

import pytest

SMALL = """\
model:
  hidden_size: 64
  intermediate_size: 224
  num_hidden_layers: 3
  num_attention_heads: 4
  num_key_value_heads: 2
  head_dim: 16
  vocab_size: 1000
  target_layer_ids: [1, 3]
batch: {total_seq_len: 32, max_anchors: 6, block_size: 4}
loss:
  kl: {method: chunked, chunk: 5}
hardware:
  groups:
    - {role: drafter, indices: [0], memory: 1 GiB}
"""
"""A few MB and the CUDA context: it fits 1 GiB, and is over a limit of 1 MB."""


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """80 columns, no colour by accident, no job summary, an empty working folder."""
    for name in ("GITHUB_STEP_SUMMARY", "NO_COLOR", "FORCE_COLOR", "GITHUB_ACTIONS", "TERM"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """small.yaml fits, over.yaml does not, bad.yaml has an unknown key."""
    (tmp_path / "small.yaml").write_text(SMALL)
    (tmp_path / "over.yaml").write_text(SMALL + "budget: {limit: 1 MB}\n")
    (tmp_path / "bad.yaml").write_text(SMALL.replace("hidden_size: 64", "hiden_size: 64"))
    return tmp_path
