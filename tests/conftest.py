"""Settings of the whole suite."""

from __future__ import annotations

import os

from hypothesis import settings

# Where a red run blocks others, the same examples run each time; elsewhere hypothesis looks for new ones.
settings.register_profile("ci", derandomize=True, deadline=None)
settings.register_profile("search", deadline=None)
settings.load_profile("ci" if os.environ.get("CI") else "search")
