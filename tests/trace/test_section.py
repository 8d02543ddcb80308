"""Traces of configured losses: equal to the engine's, event for event, and to the CPU allocator."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest

from membudget.calculator.loss import FOLDED_FROM, section_timeline
from membudget.calculator.loss_request import LossRequest, with_method
from membudget.calculator.loss_run import run_section
from membudget.config.load import find_config, load_config, profile_names
from membudget.config.loss import CHUNKING_METHODS, Loss
from membudget.errors import UsageError
from membudget.losses.section import torch_section
from membudget.sequence import canonical, signed_bytes
from membudget.trace.section import trace_config, trace_section
from tests.allocator_events import explain_difference, torch_events
from tests.trace.comparing import without_scalars

TERMS = ("cross_entropy", "kl", "reverse_kl", "jsd", "tv", "kl_topk", "cap", "cross_entropy kl cap")
LIBRARY_METHODS = ("torch_linear_cross_entropy", "liger", "cut_cross_entropy")
METHODS = (
    "whole",
    "chunked",
    "chunked_slices",
    "chunked_checkpoint",
    "grad_in_forward",
    "fused_head",
    "fused_head_grad_in_forward",
    "cpu",
    "compiled",
    "fused_kernel",
)


def request_of(terms: str, method: str, dtype: str = "bf16", softmax_dtype: str = "native") -> LossRequest:
    loss = Loss.model_validate({term: {"softmax_dtype": softmax_dtype} for term in terms.split()})
    return with_method(LossRequest(tuple(loss.terms()), 40, 3000, 64, logits_dtype=dtype), method, 16)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("terms", TERMS)
def test_equals_the_engine(terms: str, method: str) -> None:
    """In CUDA's blocks; dtypes, heads and what is kept take turns."""
    variants = ((dtype, softmax) for dtype, softmax in product(("bf16", "fp16", "fp32"), ("native", "fp32")))
    for number, (dtype, softmax) in enumerate(variants):
        request = request_of(terms, method, dtype, softmax)
        request = replace(request, train_head=number % 2 == 1, keep=("both", "none", "logits", "targets")[number % 4])
        engine = canonical(signed_bytes(run_section(request).until("backward")))
        timeline, _ = trace_section(request)
        traced = canonical(signed_bytes(timeline))
        assert traced == engine, f"{request}\n{explain_difference(engine, traced)}"


@pytest.mark.parametrize("method", sorted(set(METHODS) - {"cpu"}))
@pytest.mark.parametrize("terms", TERMS)
def test_equals_the_cpu_allocator(terms: str, method: str) -> None:
    """Sizes as requested; the host's tensors of `cpu` and fp16's fused softmax are what the CPU has differently."""
    request = request_of(terms, method, softmax_dtype="fp32")
    real = torch_section(request)

    def step() -> None:
        for _, phase in real.phases()[:3]:
            phase()

    allocator = without_scalars(torch_events(step))
    timeline, _ = trace_section(request, lambda nbytes: nbytes)
    traced = without_scalars(signed_bytes(timeline))
    assert traced == allocator, explain_difference(allocator, traced)


@pytest.mark.parametrize("profile", profile_names())
def test_every_profile_equals_its_plan_at_full_size(profile: str) -> None:
    request = LossRequest.of(load_config(find_config(profile)))
    trace = trace_config(profile, request)
    plan = section_timeline(request).until("backward")
    assert trace.equals_plan
    assert trace.peak.nbytes == trace.plan_peak_bytes == plan.peak().nbytes
    assert trace.peak.phase == plan.peak().phase


def test_the_temporaries_of_kl_are_the_peak_of_ddtree() -> None:
    trace = trace_config("ddtree", LossRequest.of(load_config(find_config("ddtree"))))
    assert trace.peak.nbytes == 85_438_465_024
    own = [each for each in trace.at_peak if each.name.startswith("kl ")]
    assert sorted(each.name for each in own) == ["kl log_softmax", "kl negative", "kl product", "kl softmax"]
    assert sum(each.nbytes for each in own) == 4 * 12_205_424_640
    assert any(note.startswith("at the peak kl owns 48.82 GB") for note in trace.notes)
    assert all(each.line for each in own)


@pytest.mark.parametrize("method", METHODS)
def test_findings_of_the_programs_loops(method: str) -> None:
    """Summed chunks hold what the whole holds; what checkpoints or computes gradients in forward does not."""
    kinds = {finding.kind for finding in trace_config("", request_of("kl", method)).findings}
    if method in ("chunked", "chunked_slices"):
        assert kinds == {"loop_holds"}
    else:
        assert kinds == ({"loop_frees"} if method in CHUNKING_METHODS else set())


@pytest.mark.parametrize("method", LIBRARY_METHODS)
def test_methods_of_libraries_run_their_priced_programs(method: str) -> None:
    trace = trace_config("", request_of("cross_entropy", method))
    assert trace.equals_plan
    assert {each.provenance for each in trace.timeline.allocations} == {"exact", "modelled"}


def test_a_difference_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The plan of another section is not equal, and the report says so."""
    request = request_of("kl", "whole")
    for name, function in (("section_timeline", section_timeline), ("run_section", run_section)):
        other = function(replace(request, tokens=41))
        with monkeypatch.context() as patched:
            patched.setattr(f"membudget.trace.section.{name}", lambda _, other=other: other)
            assert trace_config("", request).equals_plan is False


def test_long_loops_are_compared_chunk_by_chunk() -> None:
    """plan folds them; the trace runs each."""
    request = with_method(replace(request_of("kl", "whole"), tokens=100), "fused_head", 5)
    assert request.num_chunks >= FOLDED_FROM
    assert trace_config("", request).equals_plan


def test_too_many_chunks_are_refused() -> None:
    request = with_method(replace(request_of("kl", "whole"), tokens=5000), "fused_head", 1)
    with pytest.raises(UsageError, match="5,000 chunks"):
        trace_config("", request)
