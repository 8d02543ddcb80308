"""What the drafter's layers hold for backward, tensor by tensor, counted from their operators.

Symbols: T loss tokens, S context, K = S + T keys, H hidden, I MLP width, n_q and n_kv widths of queries and
keys, n_h heads. Counted, not fitted; what a kernel or a compiler decides is why all of it is "modelled".
"""

from __future__ import annotations

from dataclasses import dataclass

from membudget.calculator.parameters import Group, Tensors
from membudget.config.models import Config
from membudget.dtypes import promote
from membudget.timeline import Dim


@dataclass(frozen=True, slots=True)
class Activation:
    """One line: tensors of one dtype that live and die together."""

    name: str
    tensors: tuple[Tensors, ...]
    dtype: str


@dataclass(frozen=True, slots=True)
class Sizes:
    """Sizes of a step, each with its name."""

    tokens: Dim
    context: Dim
    keys: Dim
    hidden: Dim
    captured: Dim
    intermediate: Dim
    queries: Dim
    key_values: Dim
    heads: Dim
    kv_heads: Dim
    head_dim: Dim

    @classmethod
    def of(cls, config: Config) -> Sizes:
        model, batch = config.model, config.batch
        return cls(
            tokens=Dim(batch.loss_tokens, "tokens"),
            context=Dim(batch.total_seq_len, "context"),
            keys=Dim(batch.total_seq_len + batch.loss_tokens, "(context + tokens)"),
            hidden=Dim(model.hidden_size, "hidden"),
            captured=Dim(len(model.target_layer_ids) * model.hidden_size, "(target layers x hidden)"),
            intermediate=Dim(model.intermediate_size, "intermediate"),
            queries=Dim(model.num_attention_heads * model.head_dim, "(heads x head_dim)"),
            key_values=Dim(model.num_key_value_heads * model.head_dim, "(kv heads x head_dim)"),
            heads=Dim(model.num_attention_heads, "heads"),
            kv_heads=Dim(model.num_key_value_heads, "kv heads"),
            head_dim=Dim(model.head_dim, "head_dim"),
        )


@dataclass(frozen=True, slots=True)
class Dtypes:
    """Dtypes of a step: what is stored, what matrix products run in, what the residual stream is in."""

    parameters: str
    compute: str
    residual: str
    """The noise embedding comes in the dtype of the frozen table, and every layer adds to it."""

    @classmethod
    def of(cls, config: Config) -> Dtypes:
        precision = config.precision
        return cls(precision.parameters, precision.compute, promote(precision.frozen, precision.compute))

    @property
    def context(self) -> str:
        """The norm after fc multiplies by its weight, in the parameters' dtype."""
        return promote(self.parameters, self.compute)

    @property
    def casts_weights(self) -> bool:
        """Whether autocast makes a copy of every matrix: half-precision products of fp32 parameters."""
        return self.parameters != self.compute


def eager_layer(s: Sizes, d: Dtypes) -> tuple[Activation, ...]:
    """Held per layer by eager PyTorch 2.13 and the Qwen3 layer of transformers.

    All bf16: 16TH + 10*T*n_q + 10*K*n_kv + 8TI + 4*T*n_h bytes, plus fp32 inverse RMS values. A published
    count has 12*T*n_q: the 2*T*n_q more are a copy of the attention's output before o_proj, which is not
    made, because flex and flash attention return it in the layout of the queries, [tokens, heads, dim].
    Autocast with an fp32 residual: 26TH + 10*T*n_q + 10*K*n_kv + 8TI + 4SH: each projection casts its input
    anew (autocast caches weights only). The published 16*T*n_q + 14*K*n_kv lets attention run in fp32;
    PyTorch 2.13 casts queries, keys and values for flex and for scaled_dot_product_attention.
    """
    return (
        *_norm("input_layernorm", (s.tokens, s.hidden), d.residual),
        *_projection_inputs("q, k, v", (s.tokens, s.hidden), 3, d, d.residual),
        *_context_casts(s, d),
        *_norm("q_norm", (s.tokens, s.queries), d.compute),
        *_norm("k_norm", (s.keys, s.key_values), d.compute),
        _one("queries, rotated", (s.tokens, s.queries), d.compute),
        _one("keys, rotated", (s.keys, s.key_values), d.compute),
        _one("values", (s.keys, s.key_values), d.compute),
        _one("attention output", (s.tokens, s.queries), d.compute),
        _one("attention log-sum-exp", (s.tokens, s.heads), "fp32"),
        *_norm("post_attention_layernorm", (s.tokens, s.hidden), d.residual),
        *_projection_inputs("gate, up", (s.tokens, s.hidden), 2, d, d.residual),
        _one("gate", (s.tokens, s.intermediate), d.compute),
        _one("silu(gate)", (s.tokens, s.intermediate), d.compute),
        _one("up", (s.tokens, s.intermediate), d.compute),
        _one("silu(gate) * up", (s.tokens, s.intermediate), d.compute),
        _statistics(s),
    )


def compiled_layer(s: Sizes, d: Dtypes) -> tuple[Activation, ...]:
    """What a min-cut partitioner must keep per layer: 12TH + 6*T*n_q + 6*K*n_kv + 4TI + 4*T*n_h bytes under
    autocast with an fp32 residual, 8TH instead of 12TH in bf16.

    What matrix products and attention read or write is expensive to compute again; casts, rotation and
    silu * up are not. So: the residual at each norm (its backward needs it), the normed inputs of the
    projections (for the weights' gradients), queries and keys before their norm and after rotation, values,
    attention's output and log-sum-exp, gate and up (silu * up is recomputed from them).
    A fit to a published pair of measurements (vllm-project/speculators PR 992: H 4096, I 12288, 8192 tokens
    and as much context, 5 layers) is T*(14H + 8n_q + 8n_kv + 4I), 6.04 GB there; this count gives 5.54 GB,
    8 % less, which is 1.5 % of the measured peak of 33.0 GB.
    """
    return (
        _one("residual at the norms", (s.tokens, s.hidden), d.residual, 2),
        _one("normed inputs of projections", (s.tokens, s.hidden), d.compute, 2),
        _one("queries before norm and rotated", (s.tokens, s.queries), d.compute, 2),
        _one("keys before norm and rotated", (s.keys, s.key_values), d.compute, 2),
        _one("values", (s.keys, s.key_values), d.compute),
        _one("attention output", (s.tokens, s.queries), d.compute),
        _one("attention log-sum-exp", (s.tokens, s.heads), "fp32"),
        _one("gate and up", (s.tokens, s.intermediate), d.compute, 2),
    )


def layer_input(s: Sizes, d: Dtypes) -> tuple[Activation, ...]:
    """All that a checkpointed layer holds: the residual it starts from (the context is shared by all)."""
    return (_one("checkpointed layer input", (s.tokens, s.hidden), d.residual),)


def layer_gradients(s: Sizes, d: Dtypes) -> tuple[Activation, ...]:
    """Alive for a moment in a layer's backward, beyond what it holds: the gradients of gate and up, while the
    gradient of their product replaces the product, and that of down_proj's weight, the first to be ready.
    The largest moment of a layer while I >= 3H; below that the fp32 gradients of a norm may be larger."""
    return (
        _one("gradients of gate and up", (s.tokens, s.intermediate), d.compute, 2),
        _one("gradient of down_proj", (s.hidden, s.intermediate), d.compute),
    )


def context_tensors(s: Sizes, d: Dtypes) -> tuple[Activation, ...]:
    """Held once for all layers: what hidden_norm keeps of fc's output, and its result, the keys' context."""
    return (
        *_norm("hidden_norm", (s.context, s.hidden), d.compute),
        _one("context", (s.context, s.hidden), d.context),
        _one("rotary cos and sin", (s.keys, s.head_dim), d.residual, 2),
    )


def compiled_context_tensors(s: Sizes, d: Dtypes) -> tuple[Activation, ...]:
    """The same under torch.compile: fc's output, from which its norm is recomputed, and the context."""
    return (
        _one("fc output", (s.context, s.hidden), d.compute),
        _one("context", (s.context, s.hidden), d.compute),
        _one("rotary cos and sin", (s.keys, s.head_dim), d.residual, 2),
    )


def final_norm(s: Sizes, d: Dtypes) -> tuple[Activation, ...]:
    """What the norm before the head keeps in eager mode, 4TH and the residual's TH."""
    return _norm("final norm", (s.tokens, s.hidden), d.residual)


def compiled_final_norm(s: Sizes, d: Dtypes) -> tuple[Activation, ...]:
    """Under torch.compile the norm's input only."""
    return (_one("final norm input", (s.tokens, s.hidden), d.residual),)


def batch_inputs(s: Sizes, d: Dtypes) -> tuple[Activation, ...]:
    """The batch on the GPU: captured hidden states, the target's last ones, ids and positions, the mask."""
    return (
        _one("captured hidden states", (s.context, s.captured), d.compute),
        _one("target's last hidden states", (s.context, s.hidden), d.compute),
        Activation("ids, positions, document ids", (Tensors("ids", (s.context,), 3),), "int64"),
        _one("loss mask", (s.context,), "bool"),
    )


def weight_copies(group: Group, d: Dtypes) -> Activation | None:
    """The half-precision copies autocast makes of a group's matrices, held from forward to backward."""
    matrices = tuple(t for t in group.tensors if len(t.shape) == 2)
    if not matrices or not d.casts_weights:
        return None
    return Activation(f"{d.compute} copies of {group.name}", matrices, d.compute)


def _one(name: str, shape: tuple[int, ...], dtype: str, count: int = 1) -> Activation:
    return Activation(name, (Tensors(name, shape, count),), dtype)


def _norm(name: str, shape: tuple[Dim, Dim], dtype: str) -> tuple[Activation, ...]:
    """Qwen3RMSNorm on an input of this dtype keeps it in fp32 (a copy, unless it is fp32) and normalised."""
    return (
        _one(f"{name}: fp32 input", shape, "fp32"),
        _one(f"{name}: normalised", shape, dtype),
    )


def _projection_inputs(
    name: str, shape: tuple[Dim, Dim], consumers: int, d: Dtypes, normed: str
) -> tuple[Activation, ...]:
    """The norm's output as projections hold it: shared in the compute dtype, or cast by each of them."""
    shared = promote(d.parameters, normed) == d.compute
    return (_one(f"input of {name}", shape, d.compute, 1 if shared else consumers),)


def _context_casts(s: Sizes, d: Dtypes) -> tuple[Activation, ...]:
    """k_proj and v_proj each cast the context under autocast; otherwise they share it with all layers."""
    if d.context == d.compute:
        return ()
    return (_one("context cast for k and v", (s.context, s.hidden), d.compute, 2),)


def _statistics(s: Sizes) -> Activation:
    """The inverse root mean squares of the four norms, one fp32 number per row."""
    rows = (
        Tensors("layernorms", (s.tokens,), 2),
        Tensors("q_norm", (s.tokens, s.heads)),
        Tensors("k_norm", (s.keys, s.kv_heads)),
    )
    return Activation("inverse RMS of the norms", rows, "fp32")
