from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from membudget.allocator import block_bytes
from membudget.calculator.optimizer import Share, master_weights, states, step_temporaries
from membudget.calculator.parameters import Tensors
from membudget.config.run import Optimizer
from membudget.dtypes import ITEMSIZE
from tests.allocator_events import torch_events

SHAPES = [(300, 200), (200, 500), (500, 300), (70,), (33,)]
TENSORS = [Tensors(f"p{i}", shape) for i, shape in enumerate(SHAPES)]
SCALARS = 64
"""Bytes of the Python numbers that the CPU turns into tensors."""

OPTIMIZERS = [("adamw", False), ("adam", False), ("sgd", False), ("sgd", True), ("muon", False)]
IMPLEMENTATIONS = ["foreach", "fused", "for_loop"]
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}


def real_optimizers(config: Optimizer, parameters: list[torch.nn.Parameter]) -> list[torch.optim.Optimizer]:
    how: dict[str, Any] = {
        "foreach": config.implementation == "foreach",
        "fused": config.implementation == "fused",
    }
    if config.name == "adamw":
        return [torch.optim.AdamW(parameters, **how)]
    if config.name == "adam":
        return [torch.optim.Adam(parameters, **how)]
    if config.name == "sgd":
        return [torch.optim.SGD(parameters, lr=0.1, momentum=0.9 if config.momentum else 0, **how)]
    return [
        torch.optim.Muon([p for p in parameters if p.ndim == 2]),
        torch.optim.AdamW([p for p in parameters if p.ndim != 2], **how),
    ]


def stepped(config: Optimizer, dtype: str) -> list[torch.optim.Optimizer]:
    """The real optimizers over SHAPES, after two steps."""
    parameters = [torch.nn.Parameter(torch.randn(shape).to(DTYPES[dtype])) for shape in SHAPES]
    optimizers = real_optimizers(config, parameters)
    for parameter in parameters:
        parameter.grad = torch.randn_like(parameter)
    for optimizer in optimizers * 2:
        optimizer.step()
    return optimizers


def raw_bytes(shares: tuple[Share, ...]) -> int:
    """Without the rounding to CUDA blocks, as the CPU allocates."""
    return sum(t.numel * t.count * ITEMSIZE[share.dtype] for share in shares for t in share.tensors)


def temporaries_peak(config: Optimizer, dtype: str) -> int:
    """What the CPU allocator sees a third step of the real optimizers allocate at most."""
    optimizers = stepped(config, dtype)
    total = peak = 0
    for nbytes in torch_events(lambda: [optimizer.step() for optimizer in optimizers]):
        total += nbytes
        peak = max(peak, total)
    return peak


@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize(("name", "momentum"), OPTIMIZERS)
def test_states_are_those_of_torch(name: Any, momentum: bool, implementation: Any, dtype: str) -> None:
    config = Optimizer(name=name, momentum=momentum, implementation=implementation)
    real = sum(
        value.untyped_storage().nbytes()
        for optimizer in stepped(config, dtype)
        for state in optimizer.state.values()
        for key, value in state.items()
        # The step counter counts when it lives beside its parameter, on a GPU: with fused=True.
        if isinstance(value, torch.Tensor) and (key != "step" or implementation == "fused")
    )
    assert raw_bytes(states(config, TENSORS, dtype)) == real


@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
@pytest.mark.parametrize("implementation", ["foreach", "fused"])
@pytest.mark.parametrize(("name", "momentum"), OPTIMIZERS[:4])
def test_temporaries_of_a_step_are_those_of_torch(name: Any, momentum: bool, implementation: Any, dtype: str) -> None:
    config = Optimizer(name=name, momentum=momentum, implementation=implementation)
    ours = raw_bytes(step_temporaries(config, TENSORS, dtype))
    assert ours <= temporaries_peak(config, dtype) <= ours + SCALARS


@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
def test_for_loop_temporaries_are_bounded_by_three_of_the_largest(dtype: str) -> None:
    config = Optimizer(name="adamw", implementation="for_loop")
    ours = raw_bytes(step_temporaries(config, TENSORS, dtype))
    assert 2 / 3 * ours <= temporaries_peak(config, dtype) <= ours


@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
def test_muon_temporaries_are_near_those_of_torch(dtype: str) -> None:
    config = Optimizer(name="muon")
    ours = raw_bytes(step_temporaries(config, TENSORS, dtype))
    assert temporaries_peak(config, dtype) == pytest.approx(ours, rel=0.01)


def test_eight_bit_states_by_hand() -> None:
    tensors = [Tensors("matrix", (100, 100), 2), Tensors("vector", (1000,))]
    shares = {s.name: s.nbytes for s in states(Optimizer(name="adamw8bit"), tensors, "bf16")}
    assert shares == {
        "8-bit moments": 4 * block_bytes(10_000),
        "8-bit moments: absmax": 4 * block_bytes(40 * 4),
        "moments of small tensors": 2 * block_bytes(4000),
        "8-bit code books": 2 * 1024,
    }
    small = states(Optimizer(name="adamw8bit"), [Tensors("vector", (4095,))], "bf16")
    assert [s.name for s in small] == ["moments of small tensors"]


def test_fused_step_counters_take_a_block_each() -> None:
    config = Optimizer(implementation="fused")
    counters = states(config, [Tensors("a", (5, 5), 3), Tensors("b", (7,))], "fp32")[-1]
    assert (counters.name, counters.nbytes) == ("AdamW step counters", 4 * 512)


def test_masters_are_fp32_copies() -> None:
    assert master_weights([Tensors("a", (128, 64), 3)]).nbytes == 3 * 128 * 64 * 4


shapes = st.lists(
    st.one_of(st.tuples(st.integers(1, 200), st.integers(1, 200)), st.tuples(st.integers(1, 5000))),
    min_size=1,
    max_size=6,
)


@given(
    shapes,
    st.sampled_from(["adamw", "adam", "sgd", "muon", "adamw8bit"]),
    st.sampled_from(IMPLEMENTATIONS),
    st.sampled_from(["fp32", "bf16"]),
)
def test_growing_a_tensor_never_shrinks_the_state(
    shapes: list[tuple[int, ...]], name: Any, implementation: Any, dtype: str
) -> None:
    config = Optimizer(name=name, implementation=implementation)
    before = [Tensors("p", shape) for shape in shapes]
    grown = [Tensors("p", (shapes[0][0] + 300, *shapes[0][1:])), *before[1:]]
    for function in (states, step_temporaries):
        small, large = (sum(s.nbytes for s in function(config, t, dtype)) for t in (before, grown))
        # Crossing the bound of small tensors turns 8 B per element into 2 B.
        crossed = before[0].numel < 4096 <= grown[0].numel
        assert small <= large or (name == "adamw8bit" and crossed)
