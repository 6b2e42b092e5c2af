"""Fixtures of the tool tests."""

from __future__ import annotations

import os
from itertools import count

import pytest

_count = count()


@pytest.fixture
def nap() -> str:
    """A number of seconds that no other test, and no other run of the tests, sleeps for: by it processes are found."""
    return f"3{os.getpid():07d}.{next(_count):05d}"
