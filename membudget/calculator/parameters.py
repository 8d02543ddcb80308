"""The tensors a DFlash drafter consists of: trained ones, frozen tables, buffers, all with shapes and counts.

Architecture: a Qwen3-style decoder whose keys and values also read the target's hidden states, projected
by `fc` (vllm-project/speculators, models/dflash/core.py and model_definitions.py). Not counted: biases
(the projections have none by default) and the rotary frequencies (head_dim / 2 numbers, 512 B).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import prod

from membudget.allocator import block_bytes
from membudget.dtypes import ITEMSIZE
from membudget.timeline import Dim


@dataclass(frozen=True, slots=True)
class Tensors:
    """`count` tensors of the same shape, each in a block of its own."""

    name: str
    shape: tuple[int, ...]
    count: int = 1

    @property
    def numel(self) -> int:
        """Elements of one of them."""
        return prod(self.shape)

    def block(self, dtype: str) -> tuple[int, int]:
        """(bytes of one block, number of blocks)."""
        return block_bytes(self.numel * ITEMSIZE[dtype]), self.count


@dataclass(frozen=True, slots=True)
class Group:
    """A line of the budget: tensors that belong together."""

    name: str
    tensors: tuple[Tensors, ...]
    per_layer: bool = False
    """Whether each layer has these tensors; `tensors` are those of one layer."""

    @property
    def numel(self) -> int:
        """Elements of the tensors above: of one layer, or of the model."""
        return sum(t.numel * t.count for t in self.tensors)

    def repeated(self, layers: int) -> tuple[Tensors, ...]:
        """All tensors of the model, those of every layer included."""
        times = layers if self.per_layer else 1
        return tuple(Tensors(t.name, t.shape, t.count * times) for t in self.tensors)


def trainable_groups(
    *,
    hidden_size: int,
    intermediate_size: int,
    num_attention_heads: int,
    num_key_value_heads: int,
    head_dim: int,
    num_target_layers: int,
    trained_head: Dim | None = None,
) -> tuple[Group, ...]:
    """Trained tensors of a DFlash drafter; those of a layer once, with `per_layer` set.

    fc [H, N_t*H]; per layer q [n_q, H], k and v [n_kv, H], o [H, n_q], gate and up [I, H], down [H, I],
    two norms [H] and two norms [head_dim]; two more norms [H]; `trained_head` rows of lm_head if any.
    """
    hidden = Dim(hidden_size, "hidden")
    width = Dim(intermediate_size, "intermediate")
    queries = Dim(num_attention_heads * head_dim, "(heads x head_dim)")
    keys = Dim(num_key_value_heads * head_dim, "(kv heads x head_dim)")
    captured = Dim(num_target_layers * hidden_size, "(target layers x hidden)")
    head = Dim(head_dim, "head_dim")
    groups = [
        Group("fc", (Tensors("fc", (hidden, captured)),)),
        Group(
            "attention projections",
            (Tensors("q_proj, o_proj", (queries, hidden), 2), Tensors("k_proj, v_proj", (keys, hidden), 2)),
            per_layer=True,
        ),
        Group("MLP projections", (Tensors("gate, up, down", (width, hidden), 3),), per_layer=True),
        Group(
            "layer norms",
            (Tensors("layernorms", (hidden,), 2), Tensors("q_norm, k_norm", (head,), 2)),
            per_layer=True,
        ),
        Group("norms", (Tensors("hidden_norm, norm", (hidden,), 2),)),
    ]
    if trained_head is not None:
        groups.append(Group("lm_head", (Tensors("lm_head", (trained_head, hidden)),)))
    return tuple(groups)


def parameter_count(groups: Iterable[Group], *, num_hidden_layers: int) -> int:
    """Trained elements: P = N_t*H^2 + 2H + L*(2*H*n_q + 2*H*n_kv + 3*H*I + 2H + 2*head_dim) (+ V_d*H)."""
    return sum(group.numel * (num_hidden_layers if group.per_layer else 1) for group in groups)


def frozen_tables(
    *,
    hidden_size: int,
    vocab_size: int,
    logits_size: int,
    tables: Iterable[str],
) -> tuple[Tensors, ...]:
    """Frozen tensors resident on the training GPU, each a full copy: embed_tokens [V, H], heads [V_d, H].

    The teacher's head brings its norm [H]. speculators keeps all three tables (models/dflash/core.py);
    SpecForge keeps embed_tokens and lm_head. Two names that share one storage must be listed once.
    """
    hidden = Dim(hidden_size, "hidden")
    vocab = Dim(vocab_size, "vocab")
    rows = logits_dim(vocab_size=vocab_size, logits_size=logits_size)
    frozen = []
    for name in tables:
        frozen.append(Tensors(name, (vocab if name == "embed_tokens" else rows, hidden)))
        if name == "verifier_lm_head":
            frozen.append(Tensors("verifier_norm", (hidden,)))
    return tuple(frozen)


def logits_dim(*, vocab_size: int, logits_size: int) -> Dim:
    """Entries of one row of logits, named for the vocabulary they belong to."""
    return Dim(logits_size, "vocab" if logits_size == vocab_size else "draft vocab")


def vocabulary_buffers(*, vocab_size: int, logits_size: int) -> tuple[tuple[Tensors, str], ...]:
    """The maps between the vocabularies and their dtypes: t2d bool [V], d2t int64 [V_d]; none if equal."""
    if logits_size == vocab_size:
        return ()
    return (
        (Tensors("t2d", (Dim(vocab_size, "vocab"),)), "bool"),
        (Tensors("d2t", (Dim(logits_size, "draft vocab"),)), "int64"),
    )
