from __future__ import annotations

from collections.abc import Iterable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from membudget.calculator import activations as acts
from membudget.calculator.activations import Activation, Dtypes, Sizes
from membudget.calculator.parameters import trainable_groups
from membudget.dtypes import ITEMSIZE
from membudget.timeline import Dim
from tests.allocator_events import torch_events
from tests.calculator.configs import incident
from tests.calculator.reference import Layer, kept_bytes

BF16 = Dtypes("bf16", "bf16", "bf16")
AUTOCAST = Dtypes("fp32", "bf16", "fp32")
FP32 = Dtypes("fp32", "fp32", "fp32")
TORCH = {"fp32": torch.float32, "bf16": torch.bfloat16}


def sizes(*, tokens: int, context: int, hidden: int, width: int, heads: int, kv_heads: int, head_dim: int) -> Sizes:
    values = (
        tokens,
        context,
        context + tokens,
        hidden,
        2 * hidden,
        width,
        heads * head_dim,
        kv_heads * head_dim,
        heads,
        kv_heads,
        head_dim,
    )
    return Sizes(*(Dim(value, "size") for value in values))


def raw_bytes(activations: Iterable[Activation]) -> int:
    return sum(t.numel * t.count * ITEMSIZE[a.dtype] for a in activations for t in a.tensors)


def layer_of(s: Sizes, d: Dtypes) -> Layer:
    layer = Layer(s.hidden, s.intermediate, s.heads, s.kv_heads, s.head_dim)
    return layer.to(TORCH[d.parameters])


def arguments(s: Sizes, d: Dtypes) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Residual, context, cos, sin, the first two as results of other operators, as in a drafter."""
    residual = torch.randn(1, s.tokens, s.hidden, dtype=TORCH[d.residual], requires_grad=True)
    context = torch.randn(1, s.context, s.hidden, dtype=TORCH[d.context], requires_grad=True)
    cos = torch.randn(1, s.keys, s.head_dim, dtype=TORCH[d.residual])
    return residual * 1, context * 1, cos, cos.clone()


small = st.integers(1, 9)


@pytest.mark.parametrize("d", [BF16, AUTOCAST, FP32], ids=["bf16", "autocast", "fp32"])
@settings(deadline=None, max_examples=25)
@given(small, small, small, small, st.integers(1, 3), st.integers(1, 3), st.integers(1, 4))
def test_an_eager_layer_keeps_what_autograd_keeps(
    d: Dtypes, tokens: int, context: int, hidden: int, width: int, kv: int, per_kv: int, dim: int
) -> None:
    s = sizes(
        tokens=tokens,
        context=context,
        hidden=hidden,
        width=width,
        heads=kv * per_kv,
        kv_heads=kv,
        head_dim=2 * dim,
    )
    layer, args = layer_of(s, d), arguments(s, d)
    known = [*layer.parameters(), *args[1:]]
    kept = kept_bytes(lambda: layer(*args), known, autocast=d is AUTOCAST)
    copies = sum(p.numel() for p in layer.parameters() if p.ndim == 2) * 2 if d is AUTOCAST else 0
    assert raw_bytes(acts.eager_layer(s, d)) + copies == kept


@pytest.mark.parametrize("d", [BF16, AUTOCAST], ids=["bf16", "autocast"])
def test_backward_of_a_layer_rises_by_what_layer_gradients_says(d: Dtypes) -> None:
    s = sizes(tokens=768, context=256, hidden=256, width=870, heads=4, kv_heads=2, head_dim=32)
    layer, args = layer_of(s, d), arguments(s, d)
    out: list[torch.Tensor] = []

    def forward() -> None:
        with torch.autocast("cpu", torch.bfloat16, enabled=d is AUTOCAST):
            out.append(layer(*args))

    torch_events(forward)  # The profiler sees the end only of what it saw begin.
    gradient = torch.ones_like(out[0])
    total = peak = 0
    for nbytes in torch_events(lambda: torch.autograd.backward([out.pop()], [gradient])):
        total += nbytes
        peak = max(peak, total)
    assert peak == raw_bytes(acts.layer_gradients(s, d))


def test_weight_copies_are_the_matrices_in_the_compute_dtype() -> None:
    layer = layer_of(sizes(tokens=1, context=1, hidden=6, width=5, heads=2, kv_heads=1, head_dim=4), FP32)
    groups = trainable_groups(
        hidden_size=6,
        intermediate_size=5,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=4,
        num_target_layers=2,
    )
    copies = [acts.weight_copies(g, AUTOCAST) for g in groups if g.per_layer]
    assert raw_bytes(c for c in copies if c) == sum(p.numel() for p in layer.parameters() if p.ndim == 2) * 2
    assert all(acts.weight_copies(g, BF16) is None for g in groups)


def formula(s: Sizes, d: Dtypes) -> int:
    """The published counts, with the difference that `eager_layer` names and the norms' statistics."""
    t, k, h = int(s.tokens), int(s.keys), int(s.hidden)
    n_q, n_kv, width = int(s.queries), int(s.key_values), int(s.intermediate)
    statistics = 4 * (2 * t + t * int(s.heads) + k * int(s.kv_heads))
    shared = 8 * t * width + 10 * t * n_q + 10 * k * n_kv + 4 * t * int(s.heads) + statistics
    return shared + (16 * t * h if d is BF16 else 26 * t * h + 4 * int(s.context) * h)


@pytest.mark.parametrize("d", [BF16, AUTOCAST], ids=["bf16", "autocast"])
def test_eager_layer_is_the_formula_of_its_docstring(d: Dtypes) -> None:
    s = Sizes.of(incident())
    assert raw_bytes(acts.eager_layer(s, d)) == formula(s, d)


def test_distance_of_the_compiled_count_to_the_published_fit() -> None:
    s = sizes(tokens=8192, context=8192, hidden=4096, width=12288, heads=32, kv_heads=8, head_dim=128)
    n_q, n_kv = 4096, 1024
    fit = 5 * 8192 * (14 * 4096 + 8 * n_q + 8 * n_kv + 4 * 12288)
    ours = 5 * raw_bytes(acts.compiled_layer(s, AUTOCAST))
    assert (round(fit / 1e9, 2), round(ours / 1e9, 2)) == (6.04, 5.54)


def test_compiled_layer_by_hand() -> None:
    s = sizes(tokens=100, context=50, hidden=10, width=30, heads=4, kv_heads=2, head_dim=3)
    t, k = 100, 150
    shared = 6 * t * 12 + 6 * k * 6 + 4 * t * 30 + 4 * t * 4
    assert raw_bytes(acts.compiled_layer(s, AUTOCAST)) == 12 * t * 10 + shared
    assert raw_bytes(acts.compiled_layer(s, BF16)) == 8 * t * 10 + shared


def test_residual_stream_follows_the_frozen_table() -> None:
    config = incident(precision={"parameters": "fp32", "frozen": "fp32", "autocast": "bf16"})
    assert Dtypes.of(config) == AUTOCAST
    assert Dtypes.of(incident()) == BF16


def test_inputs_of_the_incident() -> None:
    inputs = {a.name: raw_bytes([a]) for a in acts.batch_inputs(Sizes.of(incident()), BF16)}
    assert inputs == {
        "captured hidden states": 8192 * 5 * 5120 * 2,
        "target's last hidden states": 8192 * 5120 * 2,
        "ids, positions, document ids": 3 * 8192 * 8,
        "loss mask": 8192,
    }


@given(st.data())
def test_no_layer_shrinks_when_a_size_grows(data: st.DataObject) -> None:
    names = ["tokens", "context", "hidden", "width", "heads", "kv_heads", "head_dim"]
    values = {name: data.draw(st.integers(1, 10**6)) for name in names}
    grown = data.draw(st.sampled_from(names))
    more = {**values, grown: values[grown] + data.draw(st.integers(1, 1000))}
    for layer in (acts.eager_layer, acts.compiled_layer, acts.layer_input, acts.layer_gradients):
        for d in (BF16, AUTOCAST, FP32):
            assert raw_bytes(layer(sizes(**values), d)) <= raw_bytes(layer(sizes(**more), d))


@given(small, small, small, small, small, small, small)
def test_a_layer_input_is_less_than_its_activations(
    tokens: int, context: int, hidden: int, width: int, heads: int, kv_heads: int, head_dim: int
) -> None:
    s = sizes(
        tokens=tokens,
        context=context,
        hidden=hidden,
        width=width,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
    )
    for d in (BF16, AUTOCAST, FP32):
        held = raw_bytes(acts.layer_input(s, d))
        assert held < raw_bytes(acts.compiled_layer(s, d))
        assert held < raw_bytes(acts.eager_layer(s, d))
