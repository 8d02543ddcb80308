"""Configurations the tests start from."""

from __future__ import annotations

MINIMAL = """\
model:
  hidden_size: 64
  intermediate_size: 128
  num_hidden_layers: 2
  num_attention_heads: 8
  num_key_value_heads: 2
  head_dim: 8
  vocab_size: 1000
  target_layer_ids: [1, 5]
batch:
  total_seq_len: 512
  max_anchors: 32
  block_size: 8
loss:
  cross_entropy: {}
hardware:
  groups:
    - role: drafter
      indices: [0]
      memory: 24 GiB
"""
"""The least a configuration says."""


def minimal(old: str = "", new: str = "") -> str:
    """The minimal configuration with one piece of text replaced."""
    assert old in MINIMAL
    return MINIMAL.replace(old, new, 1)
