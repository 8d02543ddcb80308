"""The GPU that trains the drafter: one step in a steady state, phase by phase, as a timeline."""

from __future__ import annotations

from collections.abc import Iterable

from membudget.calculator import activations as acts
from membudget.calculator.activations import Activation, Dtypes, Sizes
from membudget.calculator.drafter_parts import config_groups, layer_runs
from membudget.calculator.items import Ledger
from membudget.calculator.loss import LossSection
from membudget.calculator.loss_request import LossRequest
from membudget.calculator.optimizer import Share, master_weights, states, step_temporaries
from membudget.calculator.overhead import workspace_bytes
from membudget.calculator.parameters import (
    Group,
    Tensors,
    frozen_tables,
    logits_dim,
    vocabulary_buffers,
)
from membudget.catalog.gpus import Gpu
from membudget.config.models import Config
from membudget.timeline import Recorder

TRAINING_WORKSPACES = 2
"""One cuBLAS workspace for the thread that runs forward, one for the autograd thread that runs backward."""


class DrafterStep:
    """Records the step into `ledger`; `run` does it all."""

    def __init__(self, config: Config, gpu: Gpu | None) -> None:
        self.config = config
        self.gpu = gpu
        self.ledger = Ledger(Recorder("load"))
        self.sizes = Sizes.of(config)
        self.dtypes = Dtypes.of(config)
        self.layers = config.model.num_hidden_layers
        self.groups = config_groups(config)
        self.compiled = config.step.execution == "compiled"
        self.checkpointed = config.step.checkpointing == "layers"
        self.gradients_stay = config.step.gradients_cleared_to == "zero"
        self.request = LossRequest.of(config)
        self.loss = LossSection(self.ledger.recorder, self.request, head_gradient_exists=self.gradients_stay)
        self.gradients: list[int] = []
        self.runs: list[list[int]] = []
        """What each run of layers holds, in forward order."""
        self.cached_copies: list[int] = []
        """Weight copies that only autocast's cache holds, until its region ends."""

    def run(self) -> None:
        """The whole step, in order."""
        config = self.config
        self.load()
        self._phase("inputs")
        self._allocate(acts.batch_inputs(self.sizes, self.dtypes), "inputs", "exact")
        if self.request.labels == "data":
            labels = Tensors("labels", (self.sizes.tokens,))
            self._allocate([Activation("labels", (labels,), "int64")], "inputs", "exact")
        self._phase("targets")
        teacher = self.targets()
        self._phase("forward layers")
        self.forward_layers()
        if not config.loss.autocast:
            self.ledger.free(self.cached_copies)
        self._phase("loss forward")
        head = self._head_copy()
        self.loss.forward()
        if config.loss.autocast:
            self.ledger.free(self.cached_copies)
        if config.step.clear_gradients == "after_forward":
            self.zero_grad()
        self._phase("loss backward")
        self.loss.backward()
        self.ledger.free([*teacher, *head])
        self._keep_head_gradient()
        self._phase("backward layers")
        self.backward_layers()
        self._phase("optimizer step")
        self.optimizer_step()
        if config.step.clear_gradients == "before_forward":
            self.zero_grad()

    def load(self) -> None:
        """Everything that is there before the step begins."""
        config, ledger, dtype = self.config, self.ledger, self.dtypes.parameters
        nbytes, provenance = workspace_bytes(self.gpu)
        for _ in range(TRAINING_WORKSPACES):
            ledger.recorder.allocate("cuBLAS workspace", "workspace", nbytes, provenance=provenance)
        for group in self.groups:
            self._group(group, "parameters", self.layers)
        self._load_frozen()
        stored = "fp32" if config.precision.master_weights else dtype
        if config.precision.master_weights:
            ledger.share(master_weights(self._trained()), "optimizer")
        for share in states(config.optimizer, self._trained(), stored):
            ledger.share(share, "optimizer")
        if self.gradients_stay or config.step.clear_gradients == "after_forward":
            for group in self.groups:
                self.gradients.append(self._group(group, "gradients", self.layers))

    def targets(self) -> list[int]:
        """The teacher's logits; returned is what must live until the loss's backward is done."""
        if not self.request.needs_teacher:
            self.loss.targets()
            return []
        teacher = self._allocate([Activation("teacher hidden states", (self._row(),), self.dtypes.compute)])
        copy = self._weight_copy("verifier_lm_head", self.config.precision.frozen)
        self.loss.targets()
        self.ledger.free(copy)
        # A head inside the loss computes targets chunk by chunk, in forward and again in backward.
        if any(not group.needs_logits for group in self.request.groups):
            return teacher
        self.ledger.free(teacher)
        return []

    def forward_layers(self) -> None:
        """The layers and the norm before the head; what is left is what backward needs."""
        s, d = self.sizes, self.dtypes
        shared = acts.compiled_context_tensors(s, d) if self.compiled else acts.context_tensors(s, d)
        self.context = self._allocate(shared)
        self.cached_copies += self._copies([g for g in self.groups if g.name == "fc" and not self.compiled])
        per_layer = [group for group in self.groups if group.per_layer]
        for run in layer_runs(self.layers):
            held = acts.layer_input(s, d) if self.checkpointed else self._layer()
            handles = self._allocate(held, times=run)
            if self.checkpointed and self.compiled:
                self.ledger.free(self._copies(per_layer))
            elif self.checkpointed:
                self.cached_copies += self._copies(per_layer, run)
            else:
                handles += self._copies(per_layer, run)
            self.runs.append(handles)
        self.norm = self._allocate(acts.compiled_final_norm(s, d) if self.compiled else acts.final_norm(s, d))
        self.hidden = self._allocate([Activation("hidden states", (self._row(),), d.compute)])

    def backward_layers(self) -> None:
        """Through the final norm, the layers from the last to the first, and fc."""
        s, d = self.sizes, self.dtypes
        flowing = self._allocate([Activation("gradient of the residual", (self._row(),), d.residual)])
        self.loss.pass_gradient_on()
        self.ledger.free([*self.hidden, *self.norm])
        context = Tensors("context", (s.context, s.hidden))
        flowing += self._allocate([Activation("gradient of the context", (context,), d.context)])
        per_layer = [group for group in self.groups if group.per_layer]
        for run, held in zip(reversed(layer_runs(self.layers)), reversed(self.runs), strict=True):
            if run > 1:
                # Freed first: gradients come as activations go, so there is no moment with all of both.
                self.ledger.free(held)
                self._new_gradients(per_layer, run)
            else:
                self._backward_layer(per_layer, held)
        self._new_gradients([g for g in self.groups if not g.per_layer and g.name != "lm_head"], 1)
        self.ledger.free([*self.context, *flowing])
        self.loss.release()

    def optimizer_step(self) -> None:
        """The temporaries of `step()`."""
        config = self.config
        dtype = self.dtypes.parameters
        alive = []
        if config.precision.master_weights:
            dtype = "fp32"
            copies = Share("fp32 gradients for the masters", "trained parameters", self._trained(), dtype)
            alive.append(self.ledger.share(copies, "optimizer"))
        temporaries = step_temporaries(config.optimizer, self._trained(), dtype)
        alive += [self.ledger.share(share, "optimizer") for share in temporaries]
        self.ledger.free(alive)

    def zero_grad(self) -> None:
        """Gradients set to None are freed; zeroed ones stay."""
        if self.gradients_stay:
            return
        self._phase("zero_grad")
        self.ledger.free(self.gradients)
        self.gradients = []

    def _backward_layer(self, groups: list[Group], held: list[int]) -> None:
        recomputed: list[int] = []
        if self.checkpointed:
            recomputed = self._allocate(self._layer()) + self._copies(groups)
        self.ledger.free(self._allocate(acts.layer_gradients(self.sizes, self.dtypes)))
        self._new_gradients(groups, 1)
        self.ledger.free([*recomputed, *held])

    def _new_gradients(self, groups: Iterable[Group], times: int) -> None:
        """Gradients of these groups: they stay; or, added to those that were zeroed, live one at a time."""
        for group in groups:
            if not self.gradients_stay:
                self.gradients.append(self._group(group, "gradients", times))
                continue
            largest = max(group.tensors, key=lambda t: t.numel)
            single = Tensors(largest.name, largest.shape)
            name = f"new gradient in {group.name}"
            self.ledger.free([self.ledger.tensors(name, "gradients", (single,), self.dtypes.parameters)])

    def _keep_head_gradient(self) -> None:
        """The section's gradient of a trained head becomes one of the gradients, in the parameters' dtype."""
        head = [group for group in self.groups if group.name == "lm_head"]
        if self.gradients_stay or not head:
            return
        if self.dtypes.casts_weights:
            self._new_gradients(head, 1)  # A cast: both exist for a moment.
            self.loss.clear_gradients()
        else:
            self.loss.clear_gradients()
            self._new_gradients(head, 1)

    def _head_copy(self) -> list[int]:
        """The head's copy under autocast: not cached for a frozen head, but saved by its matrix product.

        Compiled code casts again in backward instead of keeping it.
        """
        trained = self.config.model.train_lm_head
        stored = self.dtypes.parameters if trained else self.config.precision.frozen
        copy = self._weight_copy("lm_head", stored)
        if self.compiled:
            self.ledger.free(copy)
            return []
        return copy

    def _weight_copy(self, name: str, stored: str) -> list[int]:
        compute = self.dtypes.compute
        if stored == compute:
            return []
        model = self.config.model
        rows = logits_dim(vocab_size=model.vocab_size, logits_size=model.logits_size)
        weight = Tensors(name, (rows, self.sizes.hidden))
        return self._allocate([Activation(f"{compute} copy of {name}", (weight,), compute)])

    def _load_frozen(self) -> None:
        model = self.config.model
        tables = [t for t in model.frozen_tables if not (t == "lm_head" and model.train_lm_head)]
        frozen = frozen_tables(
            hidden_size=model.hidden_size,
            vocab_size=model.vocab_size,
            logits_size=model.logits_size,
            tables=tables,
        )
        for tensors in frozen:
            self.ledger.tensors(tensors.name, "frozen", (tensors,), self.config.precision.frozen)
        for tensors, dtype in vocabulary_buffers(vocab_size=model.vocab_size, logits_size=model.logits_size):
            self.ledger.tensors(tensors.name, "frozen", (tensors,), dtype)

    def _trained(self) -> tuple[Tensors, ...]:
        return tuple(tensors for group in self.groups for tensors in group.repeated(self.layers))

    def _row(self) -> Tensors:
        return Tensors("hidden states", (self.sizes.tokens, self.sizes.hidden))

    def _layer(self) -> tuple[Activation, ...]:
        layer = acts.compiled_layer if self.compiled else acts.eager_layer
        return layer(self.sizes, self.dtypes)

    def _copies(self, groups: Iterable[Group], times: int = 1) -> list[int]:
        copies = [acts.weight_copies(group, self.dtypes) for group in groups]
        return self._allocate([copy for copy in copies if copy is not None], times=times)

    def _group(self, group: Group, category: str, layers: int) -> int:
        times = layers if group.per_layer else 1
        name = f"gradients of {group.name}" if category == "gradients" else group.name
        return self.ledger.tensors(name, category, group.tensors, self.dtypes.parameters, times=times)

    def _allocate(
        self,
        activations: Iterable[Activation],
        category: str = "activations",
        provenance: str = "modelled",
        times: int = 1,
    ) -> list[int]:
        return [
            self.ledger.tensors(a.name, category, a.tensors, a.dtype, times=times, provenance=provenance)
            for a in activations
        ]

    def _phase(self, name: str) -> None:
        self.ledger.recorder.phase(name)
