"""How the run is set up: precision, optimizer, batch, step, hardware, parallelism, budget."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from membudget.config.base import Count, Name, PositiveSize, Section, Size
from membudget.errors import UsageError

FloatName = Literal["fp32", "bf16", "fp16"]

MAX_LOSS_TOKENS = 10**12
"""Loss tokens of one step; one row of logits takes more than a byte, so this is beyond any GPU."""


class Precision(Section):
    """Dtypes of what is stored and of what is computed."""

    parameters: FloatName = "bf16"
    """Dtype of the trainable parameters and of their gradients. Default bf16."""

    frozen: FloatName = "bf16"
    """Dtype of the frozen tables. Default bf16; speculators since v0.7 keeps them in fp32."""

    autocast: Literal["bf16", "fp16"] | None = None
    """Dtype of an autocast region around the forward pass. Default: none, the parameters' dtype computes."""

    master_weights: bool = False
    """Whether the optimizer keeps fp32 copies of half-precision parameters. Default false."""

    @model_validator(mode="after")
    def _masters_of_halves(self) -> Precision:
        if self.master_weights and self.parameters == "fp32":
            raise ValueError("master_weights are fp32 copies of parameters, which are fp32 already")
        return self

    @property
    def compute(self) -> str:
        """Dtype in which matrix products run, and so that of activations and logits."""
        return self.autocast or self.parameters


class Optimizer(Section):
    """What updates the parameters, and what it keeps for each of them."""

    name: Literal["adamw", "adam", "sgd", "muon", "adamw8bit"] = "adamw"
    """Algorithm. Default adamw. muon keeps momentum for matrices and uses adamw for vectors."""

    momentum: bool = False
    """Whether sgd keeps a momentum buffer. Default false."""

    implementation: Literal["foreach", "fused", "for_loop"] = "foreach"
    """How the step runs, which decides its temporaries. Default foreach, what PyTorch chooses on CUDA."""

    @model_validator(mode="after")
    def _momentum_is_of_sgd(self) -> Optimizer:
        if self.momentum and self.name != "sgd":
            raise ValueError(f"momentum is a setting of sgd; {self.name} always keeps its own")
        return self


class Batch(Section):
    """How many tokens one step sees."""

    total_seq_len: Count
    """Packed length: context tokens per step (speculators: total_seq_len)."""

    max_anchors: Count
    """Anchor positions per step."""

    block_size: Count
    """Tokens drafted per anchor; the loss sees max_anchors x block_size tokens."""

    @model_validator(mode="after")
    def _loss_tokens_are_plausible(self) -> Batch:
        if self.loss_tokens > MAX_LOSS_TOKENS:
            raise ValueError(
                f"max_anchors {self.max_anchors:,} x block_size {self.block_size:,} is {self.loss_tokens:,} "
                f"loss tokens; a step with more than {MAX_LOSS_TOKENS:,} is not priced"
            )
        return self

    @property
    def loss_tokens(self) -> int:
        return self.max_anchors * self.block_size


class Step(Section):
    """What the training loop does around the tensors."""

    keep: Literal["none", "logits", "targets", "both"] = "both"
    """What the caller still refers to during backward. Default both, as plain code does."""

    clear_gradients: Literal["before_forward", "after_forward"] = "before_forward"
    """When zero_grad runs; after_forward leaves the last step's gradients alive through the forward pass."""

    gradients_cleared_to: Literal["none", "zero"] = "none"
    """Whether cleared gradients are freed or filled with zeros. Default none, as PyTorch does."""

    checkpointing: Literal["none", "layers"] = "none"
    """Activation checkpointing of the draft layers. Default none."""

    execution: Literal["eager", "compiled"] = "eager"
    """Whether the drafter's forward pass is compiled. Default eager."""


class GpuGroup(Section):
    """GPUs that play the same role."""

    role: Literal["target", "drafter"]
    """target: holds a share of the frozen target model; drafter: trains."""

    indices: Annotated[tuple[Annotated[int, Field(ge=0, le=4095)], ...], Field(min_length=1, strict=False)]
    """Indices of the GPUs, as nvidia-smi numbers them."""

    gpu: Name | None = None
    """Name in the catalogue (`membudget gpus`). Give this or memory."""

    memory: PositiveSize | None = None
    """What torch sees as the GPU's total memory, for a GPU that is not in the catalogue."""

    @field_validator("gpu")
    @classmethod
    def _known_gpu(cls, key: str | None) -> str | None:
        from membudget.catalog.gpus import find_gpu

        try:
            return key if key is None else find_gpu(key).key
        except UsageError as error:
            raise ValueError(str(error)) from None

    @model_validator(mode="after")
    def _one_source_of_memory(self) -> GpuGroup:
        if (self.gpu is None) == (self.memory is None):
            raise ValueError('give either "gpu", a name from `membudget gpus`, or "memory", such as "95 GiB"')
        return self


class Hardware(Section):
    """The GPUs by role."""

    groups: Annotated[tuple[GpuGroup, ...], Field(min_length=1, max_length=64, strict=False)]
    """Groups of GPUs; exactly one GPU has the role drafter."""

    @model_validator(mode="after")
    def _roles(self) -> Hardware:
        seen: set[int] = set()
        for index in (index for group in self.groups for index in group.indices):
            if index in seen:
                raise ValueError(f"GPU {index} is named twice; a GPU has one role")
            seen.add(index)
        drafters = [index for group in self.groups if group.role == "drafter" for index in group.indices]
        if len(drafters) != 1:
            raise ValueError(f"exactly one GPU trains the drafter, here {len(drafters)}")
        return self


class Parallel(Section):
    """Degrees of parallelism of the drafter. More than one GPU per drafter is not priced yet."""

    dp_shard: Annotated[int, Field(ge=1, le=1)] = 1
    """Ranks that shard parameters, gradients and optimizer state. Only 1 so far."""

    tp: Annotated[int, Field(ge=1, le=1)] = 1
    """Ranks that split each matrix. Only 1 so far."""


class Budget(Section):
    """The limit, and what is compared with it."""

    limit: PositiveSize | None = None
    """The most a GPU may use. Default: what torch sees on that GPU, which also counts when it is smaller."""

    compare: Literal["allocated", "reserved", "device"] = "device"
    """Which total is compared with the limit; equal passes. Default device, what nvidia-smi shows."""

    cuda_context: Size = 512 * 2**20
    """CUDA context and modules, outside the allocator. Default 512 MiB, assumed: 450 to 600 MiB is usual."""
