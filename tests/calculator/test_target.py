from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from membudget.calculator.plan import make_plan
from membudget.calculator.target import captured_layers, last_gpu
from tests.calculator.configs import incident

STATES = 8192 * 5120 * 2
"""Bytes of one captured layer: context x hidden x 2 B."""


def test_captured_layers_of_the_incident() -> None:
    ids = (1, 16, 31, 46, 61)
    found = [captured_layers(ids, num_layers=64, num_gpus=6, position=p) for p in range(6)]
    assert found == [1, 1, 1, 0, 1, 1]  # 11 layers a GPU: 0-10, 11-21, 22-32, 33-43, 44-54, 55-63


@given(st.integers(1, 200), st.integers(1, 16), st.data())
def test_every_layer_is_on_one_gpu(layers: int, gpus: int, data: st.DataObject) -> None:
    ids = tuple(data.draw(st.sets(st.integers(0, layers - 1), min_size=1)))
    found = [captured_layers(ids, num_layers=layers, num_gpus=gpus, position=p) for p in range(gpus)]
    assert sum(found) == len(ids)
    last = last_gpu(num_layers=layers, num_gpus=gpus)
    assert captured_layers((layers - 1,), num_layers=layers, num_gpus=gpus, position=last) == 1


def test_target_gpus_hold_weights_states_and_no_gradients() -> None:
    plan = make_plan(incident(), name="x")
    targets = [gpu for gpu in plan.gpus if gpu.role == "target"]
    assert [gpu.index for gpu in targets] == [0, 1, 2, 3, 4, 5]
    for gpu in targets:
        names = {a.name: a.nbytes for a in gpu.timeline.allocations}
        assert names["target weights"] == 9_260_000_000
        assert names["cuBLAS workspace"] == 33_554_432
        assert not {a.category for a in gpu.timeline.allocations} & {"gradients", "optimizer"}
        assert gpu.fits
    held = [{a.name: a.nbytes for a in g.timeline.allocations if a.category == "inputs"} for g in targets]
    assert held == [
        {"captured hidden states": STATES},
        {"captured hidden states": STATES},
        {"captured hidden states": STATES},
        {},
        {"captured hidden states": STATES},
        {"captured hidden states": STATES, "last hidden states": STATES},
    ]


def test_peak_of_a_target_gpu_by_hand() -> None:
    gpu = make_plan(incident(), name="x").gpus[0]
    transients = 2 * STATES + 3 * 8192 * 17408 * 2
    assert gpu.allocated_bytes == 9_260_000_000 + 33_554_432 + STATES + transients
    assert gpu.peak.phase == "capture hidden states"
