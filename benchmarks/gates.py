"""What the gates cost: `python -m benchmarks.gates [calls]`.

The processor's time of one decision, for calls that run: by the mode alone, by rules, with paths, with many rules.
Every command line is another one, so that nothing that was parsed before is found again; then the same line again.
Exits with 1 where an allowed command takes a millisecond or more.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence

import msgspec

from noria.core.content import Call
from noria.core.events import Allow
from noria.guard.gates import Gates
from noria.guard.rules import RuleKind, Rules
from noria.tools.registry import builtin
from noria.tools.toolbox import Toolbox
from noria.tools.workspace import Workspace

MOST = 1.0  # milliseconds for one allowed command

FEW: Sequence[tuple[RuleKind, str]] = (
    ("allow", "run_command(git *)"), ("allow", "run_command(make *)"), ("deny", "run_command(rm *)"),
    ("ask", "run_command(git push *)"),
)  # fmt: skip
PATHS: Sequence[tuple[RuleKind, str]] = (
    *FEW, ("deny", "read_file(.env)"), ("deny", "read_file(~/.ssh/**)"), ("deny", "write_file(*.lock)"),
    ("allow", "write_file(docs/**)"),
)  # fmt: skip
MANY: Sequence[tuple[RuleKind, str]] = (
    *PATHS, *(("deny", f"run_command(tool{n} * --force *)") for n in range(100)),
    *(("allow", f"run_command(other{n} *)") for n in range(100)),
)  # fmt: skip


def command(line: str) -> Callable[[int], Call]:
    """A call that runs the line, another one for every number."""
    return lambda n: Call(f"c{n}", "run_command", msgspec.json.encode({"command": line.replace("#", str(n))}).decode())


def write(n: int) -> Call:
    """A call that writes a file."""
    return Call(f"c{n}", "write_file", msgspec.json.encode({"path": f"docs/{n}.md", "content": "x"}).decode())


CASES: Sequence[tuple[str, Sequence[tuple[RuleKind, str]], Callable[[int], Call]]] = (
    ("reads only, no rules", (), command("git log -# | head")),
    ("reads only, few rules", FEW, command("git log -# | head")),
    ("allowed, few rules", FEW, command("git add a#")),
    ("allowed, rules of paths", PATHS, command("git add a# src/b")),
    (
        "allowed, a longer line",
        PATHS,
        command("cd src && make a# && git add a b c | head -# && bash -c 'make x; git fetch'"),
    ),
    ("allowed, 200 rules more", MANY, command("git commit -m 'a # b' && make")),
    ("the same line again", PATHS, command("git add a src/b")),
    ("write_file, allowed", PATHS, write),
)


def measured(rules: Sequence[tuple[RuleKind, str]], call: Callable[[int], Call], calls: int) -> float:
    """Milliseconds of the processor for one decision."""
    with tempfile.TemporaryDirectory() as folder:
        box = Toolbox(builtin(), Workspace(folder))
        made = Rules(box.workspace.root)
        for kind, text in rules:
            made.add(kind, text, "config.toml:1")
        os.mkdir(os.path.join(folder, "src"))
        gate = Gates(box.tools, box.claims, box.workspace.root, asked="person", rules=made)
        asked = [call(n) for n in range(calls + 20)]
        for each in asked[:20]:
            assert isinstance(gate.at_once(1, each), Allow), each
        begun = time.process_time()
        for each in asked[20:]:
            gate.at_once(1, each)
        return (time.process_time() - begun) / calls * 1_000


def main(words: list[str]) -> int:
    """Print the table; the status."""
    calls = int(words[0]) if words else 500
    worst = 0.0
    print(f"{'one decision':<28} ms of CPU")
    for title, rules, call in CASES:
        took = min(measured(rules, call, calls) for _ in range(3))
        worst = max(worst, took)
        print(f"{title:<28} {took:.3f}", flush=True)
    print(f"below {MOST:g} ms: {'yes' if worst < MOST else 'NO'}")
    return 0 if worst < MOST else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
