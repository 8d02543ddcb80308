"""What differs between a CPU and a GPU, said of sequences of events: a GPU's derived from the CPU's.

Written against the documented rules and not with the engine's code, so that the two can be compared:
- a GPU hands out blocks of 512 bytes;
- a CPU alone copies mixed inputs of an elementwise operator, counts Python numbers, and gathers through fp32;
- a softmax from fp16 to fp32 copies nothing on a GPU, and its gradient is fp16 at once;
- a term on the host leaves the GPU nothing but the loss, and the gradient of the logits.
"""

from __future__ import annotations

import re

from membudget.calculator.loss_request import LossRequest
from membudget.calculator.loss_run import run_section
from membudget.config.loss import CrossEntropy
from membudget.sequence import canonical, signed_bytes
from membudget.timeline import Allocation, Timeline
from tests.allocator_events import explain_difference

CPU_ALONE = re.compile(r"(^|.* )(number|fp32 buffer|(bf16|fp16|fp32|fp64) copy)$")
"""Names of what only a CPU allocates."""


def is_on_device(request: LossRequest) -> bool:
    return not any(term.method == "cpu" for _, term in request.terms)


def is_on_host(request: LossRequest) -> bool:
    return all(term.method == "cpu" for _, term in request.terms)


def difference_on_device(request: LossRequest) -> str:
    """Empty when the engine's GPU is the one that follows from its CPU; no term may be on the host."""
    derived = canonical(_cuda_events(run_section(request, device="cpu"), fused_terms(request)))
    engine = canonical(signed_bytes(run_section(request, device="cuda")))
    return "" if derived == engine else f"derived, not measured: {explain_difference(derived, engine)}"


def fused_terms(request: LossRequest) -> set[str]:
    """Terms that take a softmax with dtype fp32 straight from fp16: kl_topk casts itself, upcast logits are fp32."""
    if request.logits_dtype != "fp16":
        return set()
    return {
        name
        for name, term in request.terms
        if (term.softmax_dtype == "fp32" or request.autocast)
        and name != "kl_topk"
        and not (isinstance(term, CrossEntropy) and (term.upcast or request.autocast))
    }


def _fused_pattern(terms: set[str]) -> re.Pattern[str]:
    """Names of the copies that these terms do not make on a GPU; cap casts its mask, too, but by no softmax."""
    return re.compile(rf"({'|'.join(sorted(terms)) or 'no term'}) fp32 copy of (?!cap equal).*")


def _block_bytes(allocation: Allocation) -> int:
    return -(-allocation.nbytes // 512) * 512


def _cuda_events(cpu: Timeline, fused_terms: set[str]) -> list[int]:
    """Signed bytes of the GPU's events."""
    fused = _fused_pattern(fused_terms)
    events: list[tuple[int, int]] = []
    replaced: Allocation | None = None
    for allocation in cpu.allocations:
        name, born = allocation.name, allocation.born
        if CPU_ALONE.match(name) or fused.fullmatch(name):
            continue
        if fused.fullmatch(name.removeprefix("gradient of ")):
            replaced = allocation
            continue
        if replaced is not None:
            assert (allocation.shape, allocation.dtype) == (replaced.shape, "fp16"), "the cast follows its gradient"
            born, replaced = replaced.born, None
        nbytes = _block_bytes(allocation)
        events.append((born, nbytes))
        if allocation.dies is not None:
            events.append((allocation.dies, -nbytes))
    return [nbytes for _, nbytes in sorted(events)]


def difference_beside_host(request: LossRequest) -> str:
    """Empty when what is named after terms on the GPU is allocated in the same order; some terms are on the host.

    Lives are not compared: nobody can say by its name on which side of the border a tensor that belongs to no term is.
    """
    on_device = {name for name, term in request.terms if term.method != "cpu"}
    fused = _fused_pattern(fused_terms(request))

    def births(timeline: Timeline) -> list[int]:
        named = (a for a in timeline.allocations if on_device & set(a.name.split()))
        counted = (a for a in named if not fused.fullmatch(a.name.removeprefix("gradient of ")))
        return [_block_bytes(a) for a in counted if not CPU_ALONE.match(a.name)]

    derived, engine = (births(run_section(request, device=device)) for device in ("cpu", "cuda"))
    return "" if derived == engine else f"derived, not measured: {explain_difference(derived, engine)}"


def difference_on_host(request: LossRequest) -> str:
    """Empty when the host's work leaves the GPU what it should; every term is on the host.

    Scalars are the loss and the seed of the backward pass. Token weights bring a divisor, which stays on the GPU: a
    quotient, and its gradient.
    """
    expected = {"logits", "gradient of logits", "gradient of hidden states"}
    expected |= {"targets"} if request.section_plan.targets_in_full else set()
    expected |= {"gradient of head weight"} if request.train_head else set()
    allocations = run_section(request, device="cuda").allocations
    found = sorted(allocation.name for allocation in allocations if allocation.shape)
    num_scalars = len(allocations) - len(found)
    if found == sorted(expected) and num_scalars == (4 if request.token_weights else 2):
        return ""
    return f"expected {sorted(expected)}\n   found {found} and {num_scalars} scalars"
