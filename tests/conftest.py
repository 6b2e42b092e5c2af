"""What all tests share. In CI the same examples are tried each time, so that a change is judged by itself; elsewhere
Hypothesis goes on looking."""

from __future__ import annotations

import os

from hypothesis import settings

settings.register_profile("ci", derandomize=True, deadline=None)
settings.register_profile("here", deadline=None)
settings.load_profile("ci" if os.environ.get("CI") else "here")
