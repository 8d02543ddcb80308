"""The whole configuration, one field per section of the file."""

from __future__ import annotations

from pydantic import model_validator

from membudget.config.base import Name, Section
from membudget.config.libraries import dtype_refusal
from membudget.config.loss import Loss
from membudget.config.model import Drafter, Target
from membudget.config.run import Batch, Budget, Hardware, Optimizer, Parallel, Precision, Step

MAX_ELEMENTS = 10**15
"""Elements of one tensor; in bf16 they are 2 PB, far from any GPU."""


class Config(Section):
    """One training run."""

    name: Name | None = None
    """What to call the run. Default: the file's name."""

    model: Drafter
    """The drafter that is trained."""

    target: Target | None = None
    """The frozen target model; needed when a GPU has the role target."""

    precision: Precision = Precision()
    """Dtypes. Default: everything in bf16."""

    optimizer: Optimizer = Optimizer()
    """What updates the parameters. Default: AdamW, foreach."""

    batch: Batch
    """Tokens per step."""

    loss: Loss
    """The terms of the loss and how each is computed."""

    step: Step = Step()
    """What is kept alive, when gradients are cleared, checkpointing, eager or compiled."""

    hardware: Hardware
    """GPUs by role."""

    parallel: Parallel = Parallel()
    """Degrees of parallelism."""

    budget: Budget = Budget()
    """The limit, and which total is compared with it."""

    @model_validator(mode="after")
    def _sizes_make_sense(self) -> Config:
        tokens = {"max_anchors x block_size": self.batch.loss_tokens, "total_seq_len": self.batch.total_seq_len}
        widths = {
            "vocab_size": self.model.vocab_size,
            "hidden_size x layers": self.model.hidden_size * len(self.model.target_layer_ids),
            "intermediate_size": self.model.intermediate_size,
            "heads x head_dim": self.model.num_attention_heads * self.model.head_dim,
        }
        name, rows = max(tokens.items(), key=lambda item: item[1])
        width_name, width = max(widths.items(), key=lambda item: item[1])
        if rows * width > MAX_ELEMENTS:
            raise ValueError(
                f"{name} {rows:,} x {width_name} {width:,} is {rows * width:,} elements; "
                f"more than {MAX_ELEMENTS:,} are not priced"
            )
        return self

    @model_validator(mode="after")
    def _methods_take_the_dtype(self) -> Config:
        for _, term in self.loss.terms():
            if text := dtype_refusal(term.method, self.precision.compute):
                raise ValueError(text)
        return self

    @model_validator(mode="after")
    def _target_has_a_model(self) -> Config:
        has_target_gpu = any(group.role == "target" for group in self.hardware.groups)
        if has_target_gpu and self.target is None:
            raise ValueError('a GPU has the role target: add a section "target" with the model it holds')
        if self.target is not None:
            too_high = [i for i in self.model.target_layer_ids if i >= self.target.num_hidden_layers]
            if too_high:
                raise ValueError(
                    f"target_layer_ids names layer {too_high[0]}, but the target has layers 0 to "
                    f"{self.target.num_hidden_layers - 1}"
                )
        return self
