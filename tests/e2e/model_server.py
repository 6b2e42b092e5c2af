"""The door of every end-to-end test is `noria.testing`; this is its old name, for tests that still use it."""

from __future__ import annotations

from noria.testing import ModelServer, Script, Turn, turns_so_far

__all__ = ["ModelServer", "Script", "Turn", "turns_so_far"]
