"""torch is an extra: the commands that run real code ask for it here, with one message."""

from __future__ import annotations

from membudget.errors import CannotMeasureError


def require_torch(command: str) -> None:
    """Import torch. CannotMeasureError, exit 3, when it is missing or broken."""
    try:
        import torch  # noqa: F401
    except (ImportError, OSError) as error:
        raise CannotMeasureError(
            f"{command} runs the real code and needs torch 2.6 or newer, which cannot be imported here ({error}): "
            f"pip install 'membudget[torch]'"
        ) from error
