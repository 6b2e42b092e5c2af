"""Whether commands of a test's noria are in a sandbox: where bubblewrap works they are, as people have it; elsewhere
they are in none, so that what noria says of that is in no test's output but the sandbox's own."""

from __future__ import annotations

import subprocess
from functools import lru_cache

from noria.guard import sandbox_bwrap


@lru_cache(maxsize=1)
def boxed() -> dict[str, str]:
    """The variables that a test's noria gets for it."""
    program = sandbox_bwrap.program()
    if program:
        words = [program, "--ro-bind", "/", "/", "--proc", "/proc", "--unshare-pid", "--unshare-net", "true"]
        if subprocess.run(words, capture_output=True, timeout=30, check=False).returncode == 0:
            return {}
    return {"NORIA_SANDBOX": "off"}
