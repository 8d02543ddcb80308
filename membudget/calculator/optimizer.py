"""What an optimizer keeps for each parameter, and what its step allocates for a moment.

States follow torch.optim 2.13 and bitsandbytes. Everything is a list of shares: tensors of one dtype under
one name. Left out: scalars on the host (the default `step` of Adam), the norms of gradient clipping
(a few KiB) and the second gradient tensor that weight decay in SGD or L2 in Adam would make.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from membudget.calculator.parameters import Tensors
from membudget.config.run import Optimizer
from membudget.dtypes import ITEMSIZE
from membudget.timeline import Dim

SMALL_8BIT = 4096
"""bitsandbytes keeps tensors with fewer elements in fp32 (min_8bit_size of its optimizers)."""

BLOCK_8BIT = 256
"""Elements that share one fp32 absmax in a blockwise 8-bit state (2048 in old bitsandbytes: less memory)."""

QUANTILES_8BIT = 256
"""Entries of each of the two fp32 code books that all 8-bit states share."""


@dataclass(frozen=True, slots=True)
class Share:
    """Tensors of one dtype that are one line of the budget."""

    name: str
    what: str
    """What the elements are, for the formula: `trained parameters x 4 B`."""
    tensors: tuple[Tensors, ...]
    dtype: str
    provenance: str = "exact"

    @property
    def nbytes(self) -> int:
        """Bytes of all blocks, each rounded to 512 B."""
        return sum(block * count for block, count in (t.block(self.dtype) for t in self.tensors))


def states(optimizer: Optimizer, tensors: Sequence[Tensors], dtype: str) -> tuple[Share, ...]:
    """Persistent state on the GPU for parameters (or their masters) of this dtype.

    adamw, adam: two moments in that dtype; their `step` is a tensor on the GPU (4 B, a 512 B block each)
    only when fused. sgd: nothing, or one momentum buffer. muon: one momentum buffer for matrices, adamw for
    the rest. adamw8bit: two bytes per element, two fp32 per 256 elements, small tensors in fp32.
    """
    everything = tuple(tensors)
    if optimizer.name in ("adamw", "adam"):
        return _adam_states(optimizer, everything, dtype, "trained parameters")
    if optimizer.name == "sgd":
        momentum = Share("momentum", "trained parameters", everything, dtype)
        return (momentum,) if optimizer.momentum else ()
    if optimizer.name == "adamw8bit":
        return _adam_8bit_states(everything)
    matrices, vectors = _split(everything)
    return (
        Share("Muon momentum", "parameters in matrices", matrices, dtype),
        *_adam_states(optimizer, vectors, dtype, "parameters in vectors"),
    )


def master_weights(tensors: Iterable[Tensors]) -> Share:
    """fp32 copies of half-precision parameters, updated in their place."""
    return Share("fp32 master weights", "trained parameters", tuple(tensors), "fp32")


def step_temporaries(optimizer: Optimizer, tensors: Sequence[Tensors], dtype: str) -> tuple[Share, ...]:
    """What is alive for a moment inside `step()`, for parameters (or their masters) of this dtype.

    adamw, adam foreach: the square roots of all second moments at once, one more copy of the parameters.
    for_loop: root and quotient of one tensor while the previous quotient still has a name, bounded by three
    of the largest. fused, adamw8bit, sgd without weight decay: nothing. muon: see `_muon_temporaries`.
    """
    everything = tuple(tensors)
    if optimizer.name in ("adamw", "adam"):
        return _adam_temporaries(optimizer, everything, dtype, "trained parameters")
    if optimizer.name != "muon":
        return ()
    matrices, vectors = _split(everything)
    # The two optimizers step one after the other, so only the larger of their temporaries counts.
    muon = _muon_temporaries(matrices, dtype)
    adam = _adam_temporaries(optimizer, vectors, dtype, "parameters in vectors")
    return max(muon, adam, key=lambda shares: sum(share.nbytes for share in shares))


def _split(tensors: tuple[Tensors, ...]) -> tuple[tuple[Tensors, ...], tuple[Tensors, ...]]:
    return tuple(t for t in tensors if len(t.shape) == 2), tuple(t for t in tensors if len(t.shape) != 2)


def _adam_states(optimizer: Optimizer, tensors: tuple[Tensors, ...], dtype: str, what: str) -> tuple[Share, ...]:
    name = "AdamW" if optimizer.name == "muon" else {"adamw": "AdamW", "adam": "Adam"}[optimizer.name]
    moments = (
        Share(f"{name} first moment", what, tensors, dtype),
        Share(f"{name} second moment", what, tensors, dtype),
    )
    if optimizer.implementation != "fused":
        return moments
    count = sum(t.count for t in tensors)
    return (*moments, Share(f"{name} step counters", "tensors", (Tensors("step", (), count),), "fp32"))


def _adam_8bit_states(tensors: tuple[Tensors, ...]) -> tuple[Share, ...]:
    large = tuple(t for t in tensors if t.numel >= SMALL_8BIT)
    small = tuple(Tensors(t.name, t.shape, 2 * t.count) for t in tensors if t.numel < SMALL_8BIT)
    codes = tuple(Tensors(t.name, t.shape, 2 * t.count) for t in large)
    scales = tuple(Tensors(t.name, (Dim(-(-t.numel // BLOCK_8BIT), "blocks of 256"),), 2 * t.count) for t in large)
    books = (Tensors("code books", (QUANTILES_8BIT,), 2),)
    shares = (
        Share("8-bit moments", "2 x parameters in large tensors", codes, "uint8", "modelled"),
        Share("8-bit moments: absmax", "2 x blocks of 256 parameters", scales, "fp32", "modelled"),
        Share("moments of small tensors", "2 x parameters in small tensors", small, "fp32", "modelled"),
        Share("8-bit code books", "2 x 256", books if large else (), "fp32", "modelled"),
    )
    return tuple(share for share in shares if share.tensors)


def _adam_temporaries(optimizer: Optimizer, tensors: tuple[Tensors, ...], dtype: str, what: str) -> tuple[Share, ...]:
    if optimizer.implementation == "fused" or not tensors:
        return ()
    if optimizer.implementation == "foreach":
        return (Share("square roots of the second moments", what, tensors, dtype),)
    largest = max(tensors, key=lambda t: t.numel)
    roots = Tensors(largest.name, largest.shape, 3)
    return (Share("root and quotients of one tensor", "3 x the largest tensor", (roots,), dtype, "modelled"),)


def _muon_temporaries(matrices: tuple[Tensors, ...], dtype: str) -> tuple[Share, ...]:
    """torch.optim.Muon, one matrix at a time: the update in the gradient's dtype, held by its caller, the
    bf16 matrix before and after an iteration, two square products of its shorter side."""
    if not matrices:
        return ()

    def cost(tensors: Tensors) -> int:
        short = min(tensors.shape)
        return tensors.numel * (ITEMSIZE[dtype] + 4) + 4 * short * short

    largest = max(matrices, key=cost)
    update = Tensors(largest.name, largest.shape)
    iterates = Tensors(largest.name, largest.shape, 2)
    squares = Tensors("gram", (min(largest.shape),) * 2, 2)
    return (
        Share("Muon update", "the largest matrix", (update,), dtype, "modelled"),
        Share("Muon iterates", "2 x the largest matrix", (iterates,), "bf16", "modelled"),
        Share("Muon square products", "2 x its shorter side squared", (squares,), "bf16", "modelled"),
    )
