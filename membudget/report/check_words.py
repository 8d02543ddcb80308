"""What the formats of `check` say about one file, and about all of them."""

from __future__ import annotations

from collections.abc import Sequence

from membudget.calculator.result import GpuPlan, Plan
from membudget.errors import printable
from membudget.report.check_result import FileResult, largest_item
from membudget.report.words import gpu_label, plural
from membudget.units import format_both, format_gb, format_pair


def finding(plan: Plan) -> str:
    """Over the limit: expected, got, by how much, then where. Below it: total, limit, margin, then where."""
    gpu = plan.tightest
    limit, total = format_pair(gpu.limit_bytes, gpu.compared_bytes)
    if gpu.fits:
        words = f"{total} of {limit}, {format_both(gpu.margin_bytes)} left"
    else:
        words = f"expected at most {limit}, got {total}, over by {format_both(-gpu.margin_bytes)}"
    return f"{words}; {_where(plan, gpu)}"


def limit_origin(gpu: GpuPlan) -> str:
    """Which limit counts, and the other one."""
    if gpu.given_limit_bytes is None:
        return "limit: what torch sees"
    if gpu.given_limit_bytes <= gpu.capacity_bytes:
        return f"limit: the smallest given, torch sees {format_gb(gpu.capacity_bytes)}"
    return f"limit: what torch sees, {format_gb(gpu.given_limit_bytes)} given"


def totals_line(results: Sequence[FileResult]) -> str:
    """`6 files: 3 fit, 3 over the limit, 0 with errors`."""
    statuses = [result.status for result in results]
    fit, over, errors = (statuses.count(status) for status in ("fits", "over", "error"))
    return f"{plural(len(statuses), 'file')}: {fit} fit, {over} over the limit, {errors} with errors"


def _where(plan: Plan, gpu: GpuPlan) -> str:
    parts = [limit_origin(gpu), f"{gpu.compare} total of {gpu_label([gpu.index], gpu.role)}"]
    if gpu.peak.phase:
        parts.append(f"peak in {printable(gpu.peak.phase)}")
    item = largest_item(gpu)
    if item is not None:
        parts.append(f"largest item {printable(item.name)}, {format_gb(item.nbytes)}")
    others = sum(not other.fits for other in plan.gpus) - 1
    if others > 0:
        parts.append(f"{plural(others, 'more GPU')} over")
    return "; ".join(parts)
