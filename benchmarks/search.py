"""grep and glob over a large tree, beside ripgrep itself: what noria adds to a search, as ratios.

    python -m benchmarks.search [FILES]       9,000 files unless said otherwise

A tree is made in a temporary folder. Each question is asked of the tool (from the call to its result), of ripgrep as
the tool asks it (in order of paths, so in one thread), and of ripgrep at its fastest (any order, all threads). The
median of several rounds, taken in turn.
"""

from __future__ import annotations

import asyncio
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable

import msgspec

from noria.core.content import make_call
from noria.tools import ripgrep
from noria.tools.environ import environment
from noria.tools.process import Processes
from noria.tools.registry import builtin
from noria.tools.toolbox import Toolbox
from noria.tools.workspace import Workspace

ROUNDS = 7
QUESTIONS = (
    ("a rare word", {"pattern": "needle_[0-9]+_rare"}, ["-l"]),
    ("a word in every file, names", {"pattern": "import"}, ["-l"]),
    ("a word in every file, its lines", {"pattern": "import", "mode": "content"}, ["-n"]),
    ("a word in every file, counts", {"pattern": "import", "mode": "count"}, ["-c"]),
    ("in one type of file", {"pattern": "def [a-z]+", "glob": "*.py"}, ["-l", "-tpy"]),
)


def tree(root: pathlib.Path, files: int) -> int:
    """Make the tree; its size in bytes."""
    body = "".join(f"import module_{n}\n\ndef function_{n}(value):\n    return value + {n}\n\n" for n in range(40))
    size = 0
    for number in range(files):
        folder = root / f"part{number % 30:02}" / f"deep{number % 7}"
        folder.mkdir(parents=True, exist_ok=True)
        text = body + (f"needle_{number}_rare\n" if number % 1_000 == 7 else "")
        kind = (".py", ".js", ".md")[number % 3]
        (folder / f"file{number:05}{kind}").write_text(text)
        size += len(text)
    (root / ".gitignore").write_text("part29/\n")
    return size


async def asked(box: Toolbox, number: int, arguments: dict[str, str]) -> str:
    """One call, from its making to its result."""
    call = msgspec.structs.replace(make_call("grep", msgspec.json.encode(arguments).decode()), id=f"c{number}")
    result = await (await box.prepare(number, call)).run()
    return result.text


async def plainly(root: pathlib.Path, words: list[str]) -> None:
    """ripgrep by itself, its output thrown away."""
    process = await asyncio.create_subprocess_exec(
        ripgrep.program(), "--no-config", "--hidden", "--no-require-git", *words, "./", cwd=root,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    await process.wait()


async def measured(root: pathlib.Path) -> None:
    """Print the table."""
    box = Toolbox(builtin(), Workspace(str(root)), Processes(environment()))
    print(f"{'':34} {'tool':>8} {'rg, same order':>15} {'rg, fastest':>12} {'ratio':>7} {'to fastest':>11}")
    try:
        for what, arguments, words in QUESTIONS:
            pattern = ["-e", arguments["pattern"]]
            ways: dict[str, Callable[[int], Awaitable[object]]] = {
                "tool": lambda n, a=arguments: asked(box, n, a),
                "same": lambda n, w=words, p=pattern: plainly(root, ["--sort=path", *w, *p]),
                "fastest": lambda n, w=words, p=pattern: plainly(root, [*w, *p]),
            }
            took: dict[str, list[float]] = {name: [] for name in ways}
            for number in range(ROUNDS + 1):
                for name, way in ways.items():
                    begun = time.perf_counter()
                    await way(number)
                    if number:  # the first round is for the cache
                        took[name].append(time.perf_counter() - begun)
            tool, same, fastest = (1_000 * statistics.median(took[name]) for name in ways)
            print(f"{what:34} {tool:6.1f}ms {same:13.1f}ms {fastest:10.1f}ms {tool / same:7.2f} {tool / fastest:11.2f}")
    finally:
        await box.close()


def main() -> int:
    """Make the tree and measure; the exit status."""
    if not ripgrep.program():
        print(ripgrep.missing(), file=sys.stderr)
        return 1
    files = int(sys.argv[1]) if len(sys.argv) > 1 else 9_000
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(os.path.realpath(folder))
        size = tree(root, files)
        print(f"{files:,} files, {size / 1e6:.0f} MB; medians of {ROUNDS} rounds")
        asyncio.run(measured(root))
    return 0


if __name__ == "__main__":
    sys.exit(main())
