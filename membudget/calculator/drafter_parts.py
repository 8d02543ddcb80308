"""What a drafter consists of: its trained tensors, and its layers in runs that are recorded together."""

from __future__ import annotations

from membudget.calculator.parameters import Group, logits_dim, trainable_groups
from membudget.config.models import Config

UNFOLDED_LAYERS = 32
"""Up to so many layers are recorded one by one. Of more, the first and the last are, and those between as
one block: from layer to layer what is alive changes by the same amount, so the peak is at the first or last."""


def layer_runs(num_layers: int) -> list[int]:
    """Lengths of the runs of layers that are recorded together, in forward order."""
    return [1] * num_layers if num_layers <= UNFOLDED_LAYERS else [1, num_layers - 2, 1]


def config_groups(config: Config) -> tuple[Group, ...]:
    """The trained tensors of this configuration."""
    model = config.model
    head = logits_dim(vocab_size=model.vocab_size, logits_size=model.logits_size)
    return trainable_groups(
        hidden_size=model.hidden_size,
        intermediate_size=model.intermediate_size,
        num_attention_heads=model.num_attention_heads,
        num_key_value_heads=model.num_key_value_heads,
        head_dim=model.head_dim,
        num_target_layers=len(model.target_layer_ids),
        trained_head=head if model.train_lm_head else None,
    )
