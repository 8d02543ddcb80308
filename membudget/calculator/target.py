"""The GPUs of the frozen target model: weights, captured hidden states, one layer's inference at a time.

No gradients and no optimizer. The shapes of the target's attention are not part of the configuration, so
one layer's transient is its residual, its norm and its MLP; attention's own is of the size of the residual.
"""

from __future__ import annotations

from membudget.calculator.items import Ledger
from membudget.calculator.overhead import workspace_bytes
from membudget.calculator.parameters import Tensors
from membudget.catalog.gpus import Gpu
from membudget.config.model import Target
from membudget.config.models import Config
from membudget.timeline import Dim, Recorder


def captured_layers(layer_ids: tuple[int, ...], *, num_layers: int, num_gpus: int, position: int) -> int:
    """How many of the layers are on the GPU at `position` when layers are spread in runs of ceil(L / k)."""
    run = -(-num_layers // num_gpus)
    return sum(1 for layer in layer_ids if layer // run == position)


def last_gpu(*, num_layers: int, num_gpus: int) -> int:
    """The position that holds the last layer; GPUs after it hold none."""
    return (num_layers - 1) // -(-num_layers // num_gpus)


def target_ledger(config: Config, target: Target, *, num_gpus: int, position: int, gpu: Gpu | None) -> Ledger:
    """One of `num_gpus` target GPUs: weights split evenly (assumed), S*H*2 B per captured layer."""
    ledger = Ledger(Recorder("load"))
    weights = target.weights
    share = -(-weights // num_gpus)
    ledger.recorder.allocate(
        "target weights",
        "frozen",
        share,
        formula="target weights / target GPUs",
        values=f"{weights:,} B / {num_gpus:,}",
        provenance="assumed",
    )
    nbytes, provenance = workspace_bytes(gpu)
    ledger.recorder.allocate("cuBLAS workspace", "workspace", nbytes, provenance=provenance)
    ledger.recorder.phase("capture hidden states")
    _capture(ledger, config, target, num_gpus=num_gpus, position=position)
    return ledger


def _capture(ledger: Ledger, config: Config, target: Target, *, num_gpus: int, position: int) -> None:
    context = Dim(config.batch.total_seq_len, "context")
    hidden = Dim(target.hidden_size, "hidden")
    width = Dim(target.intermediate_size, "intermediate")
    states = Tensors("hidden states", (context, hidden))
    count = captured_layers(
        config.model.target_layer_ids,
        num_layers=target.num_hidden_layers,
        num_gpus=num_gpus,
        position=position,
    )
    held = []
    if count:
        held.append(ledger.tensors("captured hidden states", "inputs", (states,), "bf16", times=count))
    last = last_gpu(num_layers=target.num_hidden_layers, num_gpus=num_gpus)
    if position <= last:
        transients = [
            ledger.tensors(name, "activations", (tensors,), "bf16", provenance="modelled")
            for name, tensors in (
                ("residual and its norm", Tensors("residual", (context, hidden), 2)),
                ("gate, up and their product", Tensors("mlp", (context, width), 3)),
            )
        ]
        ledger.free(transients)
    if position == last:
        held.append(ledger.tensors("last hidden states", "inputs", (states,), "bf16"))
    ledger.recorder.phase("hand over")
    ledger.free(held)
