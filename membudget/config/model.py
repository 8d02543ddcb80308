"""The drafter that is trained and the frozen target model it learns from: shapes only."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from membudget.config.base import Count, LayerCount, Name, PositiveSize, Section

LayerId = Annotated[int, Field(ge=0, le=10_000)]


class Drafter(Section):
    """A DFlash drafter; field names as in a Hugging Face config.json and vllm-project/speculators."""

    kind: Literal["dflash"] = "dflash"
    """Architecture of the drafter. Default dflash, the only one so far."""

    hidden_size: Count
    """Width of the residual stream, that of the target model."""

    intermediate_size: Count
    """Width of the gated MLP."""

    num_hidden_layers: LayerCount
    """Number of draft layers (speculators: num_layers)."""

    num_attention_heads: Count
    """Query heads per layer."""

    num_key_value_heads: Count
    """Key and value heads per layer; must divide num_attention_heads."""

    head_dim: Count
    """Width of one head."""

    vocab_size: Count
    """Entries of the target model's vocabulary."""

    draft_vocab_size: Count | None = None
    """Entries of the draft vocabulary; logits and targets have this many. Default: vocab_size."""

    target_layer_ids: Annotated[tuple[LayerId, ...], Field(min_length=1, max_length=1000, strict=False)]
    """Layers of the target model whose hidden states the drafter reads."""

    frozen_tables: Annotated[
        tuple[Literal["embed_tokens", "lm_head", "verifier_lm_head"], ...], Field(strict=False)
    ] = ("embed_tokens", "lm_head", "verifier_lm_head")
    """Vocabulary-sized tables on the drafter's GPU, each a full copy. Default: all three, as speculators."""

    train_lm_head: bool = False
    """Whether the draft head is trained. Default false: DFlash trains neither head nor embedding."""

    @model_validator(mode="after")
    def _consistent(self) -> Drafter:
        if self.num_attention_heads % self.num_key_value_heads:
            raise ValueError(
                f"num_key_value_heads {self.num_key_value_heads} does not divide "
                f"num_attention_heads {self.num_attention_heads}"
            )
        if self.draft_vocab_size is not None and self.draft_vocab_size > self.vocab_size:
            raise ValueError(
                f"draft_vocab_size {self.draft_vocab_size:,} is larger than vocab_size {self.vocab_size:,}"
            )
        if len(set(self.target_layer_ids)) != len(self.target_layer_ids):
            raise ValueError("target_layer_ids names a layer twice")
        if len(set(self.frozen_tables)) != len(self.frozen_tables):
            raise ValueError("frozen_tables names a table twice")
        if "lm_head" not in self.frozen_tables and not self.train_lm_head:
            raise ValueError("frozen_tables leaves out lm_head, which computes the logits")
        return self

    @property
    def logits_size(self) -> int:
        """Entries of one row of logits."""
        return self.draft_vocab_size or self.vocab_size


class Target(Section):
    """The frozen target model whose hidden states are captured."""

    name: Name = "target"
    """What to call it in tables."""

    weights: PositiveSize
    """Bytes of its weights, all GPUs together."""

    hidden_size: Count
    """Width of its residual stream."""

    intermediate_size: Count
    """Width of its MLP."""

    num_hidden_layers: LayerCount
    """Number of its layers; they are spread over the target GPUs in contiguous runs."""
