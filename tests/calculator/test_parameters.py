from __future__ import annotations

from math import prod

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from membudget.allocator import block_bytes
from membudget.calculator.parameters import (
    Tensors,
    frozen_tables,
    parameter_count,
    trainable_groups,
    vocabulary_buffers,
)
from membudget.timeline import Dim
from tests.calculator.reference import Drafter

QWEN = {"hidden_size": 5120, "intermediate_size": 17408}
"""Qwen3.6-27B as a target: its width and MLP."""

PUBLISHED = [
    # heads, kv heads, head_dim, target layers, P; the first is the published draft, "~3.46 GB" in bf16.
    (32, 8, 128, 5, 1_730_213_120),
    (20, 4, 256, 3, 1_730_214_400),
    (20, 4, 256, 5, 1_782_643_200),
]


@pytest.mark.parametrize(("heads", "kv_heads", "head_dim", "captured", "expected"), PUBLISHED)
def test_parameter_counts_of_published_drafters(
    heads: int, kv_heads: int, head_dim: int, captured: int, expected: int
) -> None:
    groups = trainable_groups(
        hidden_size=QWEN["hidden_size"],
        intermediate_size=QWEN["intermediate_size"],
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        head_dim=head_dim,
        num_target_layers=captured,
    )
    assert parameter_count(groups, num_hidden_layers=5) == expected


sizes = st.integers(1, 40)


@given(sizes, sizes, sizes, sizes, sizes, st.integers(1, 4), st.integers(1, 6), sizes)
def test_the_parts_are_those_of_the_formula(
    hidden: int, width: int, heads: int, kv: int, dim: int, layers: int, captured: int, head: int
) -> None:
    groups = trainable_groups(
        hidden_size=hidden,
        intermediate_size=width,
        num_attention_heads=heads,
        num_key_value_heads=kv,
        head_dim=dim,
        num_target_layers=captured,
        trained_head=Dim(head, "vocab"),
    )
    n_q, n_kv = heads * dim, kv * dim
    layer = 2 * hidden * n_q + 2 * hidden * n_kv + 3 * hidden * width + 2 * hidden + 2 * dim
    assert parameter_count(groups, num_hidden_layers=layers) == (
        captured * hidden**2 + 2 * hidden + layers * layer + head * hidden
    )


@given(sizes, sizes, st.integers(1, 8), st.integers(1, 4), st.integers(1, 3), st.integers(1, 5))
def test_the_tensors_are_those_of_a_real_module(
    hidden: int, width: int, kv: int, groups_per_kv: int, layers: int, captured: int
) -> None:
    heads, dim = kv * groups_per_kv, 4
    with torch.device("meta"):
        module = Drafter(
            hidden=hidden,
            width=width,
            heads=heads,
            kv_heads=kv,
            head_dim=dim,
            layers=layers,
            captured=captured,
        )
    groups = trainable_groups(
        hidden_size=hidden,
        intermediate_size=width,
        num_attention_heads=heads,
        num_key_value_heads=kv,
        head_dim=dim,
        num_target_layers=captured,
    )
    ours = sorted(t.numel for g in groups for t in g.repeated(layers) for _ in range(t.count))
    assert ours == sorted(p.numel() for p in module.parameters())


def test_frozen_tables_of_two_code_bases() -> None:
    tables = frozen_tables(
        hidden_size=5120,
        vocab_size=248320,
        logits_size=248320,
        tables=("embed_tokens", "lm_head", "verifier_lm_head"),
    )
    assert [(t.name, t.shape) for t in tables] == [
        ("embed_tokens", (248320, 5120)),
        ("lm_head", (248320, 5120)),
        ("verifier_lm_head", (248320, 5120)),
        ("verifier_norm", (5120,)),
    ]
    assert tables[0].block("fp32") == (5_085_593_600, 1)
    fewer = frozen_tables(hidden_size=5120, vocab_size=248320, logits_size=32000, tables=("embed_tokens", "lm_head"))
    assert [t.shape for t in fewer] == [(248320, 5120), (32000, 5120)]


def test_vocabulary_buffers_exist_only_for_a_smaller_draft_vocabulary() -> None:
    assert vocabulary_buffers(vocab_size=1000, logits_size=1000) == ()
    buffers = vocabulary_buffers(vocab_size=1000, logits_size=300)
    assert [(t.name, prod(t.shape), dtype) for t, dtype in buffers] == [
        ("t2d", 1000, "bool"),
        ("d2t", 300, "int64"),
    ]


@given(st.integers(0, 10**12))
def test_a_block_is_the_next_multiple_of_512(nbytes: int) -> None:
    block = block_bytes(nbytes)
    assert block % 512 == 0
    assert nbytes <= block < nbytes + 512


def test_every_tensor_has_a_block_of_its_own() -> None:
    assert Tensors("norms", (100,), 3).block("bf16") == (512, 3)
