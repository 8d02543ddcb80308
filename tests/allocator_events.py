"""The allocator's own events of a torch program, and the engine's, in a form that can be compared.

An event is a signed number of bytes. The order inside a run of frees is not compared: C++ destroys temporaries
of one expression in an order of its own.
"""

from __future__ import annotations

from membudget.probe.cpu_events import torch_events
from membudget.sequence import canonical
from membudget.sequence import signed_bytes as timeline_events

__all__ = ["canonical", "explain_difference", "timeline_events", "torch_events"]


def explain_difference(torch_side: list[int], sized_side: list[int]) -> str:
    """The first place where two canonical sequences part, with what surrounds it."""
    shorter = min(len(torch_side), len(sized_side))
    index = next((i for i in range(shorter) if torch_side[i] != sized_side[i]), shorter)
    low = max(0, index - 6)
    return (
        f"event {index} of {len(torch_side)} (allocator) and {len(sized_side)} (engine)\n"
        f"  allocator: {torch_side[low : index + 6]}\n  engine:    {sized_side[low : index + 6]}"
    )
