"""The process that agents are started from: `python runner.py PEERS.PY`, a JSON line for each run, in and out.

It is as small as can be: the kernel counts the peak memory of a program from that of the process that started it, so
that no agent can be seen to need less than this one (about 21 MB). Must not import anything of noria.
"""

from __future__ import annotations

import importlib.util
import json
import sys


def main(peers: str) -> None:
    """In: the agent's table, the server's port, steps, number. Out: the runner's figures, the server's rows."""
    sys.dont_write_bytecode = True
    spec = importlib.util.spec_from_file_location("peers", peers)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for line in sys.stdin:
        agent, port, steps, number = json.loads(line)
        found = module.one(agent, port, steps, 1, number)
        rows = module.call(port, f"/runs/{agent['name']}-{number}")["rows"]
        print(json.dumps([found, rows]), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
