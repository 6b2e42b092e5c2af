"""The same patches by noria and by codex's own program: the same trees, but where a difference was decided on (decision
record 0019). Needs the binary of the npm package `@openai/codex`: NORIA_CODEX names it, or PATH has it."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.tools.helpers import Bench

CODEX = os.environ.get("NORIA_CODEX") or shutil.which("codex") or ""
WORDS = ("a", "b", "c", "d", "  a", "\tb", "", "", "x = 'y'", "x – y", "}", "def f():", "    return 1", "*** a", "@@ b")
FUZZ = ("", "", "", "", " ", "\t")

needs = pytest.mark.skipif(not CODEX, reason="codex (npm @openai/codex) is not here to compare with")


class Case:
    """A tree and a patch of it, made from a number. Left out is what noria does otherwise on purpose: files that do not
    end with a line end or are no UTF-8, adding over a file with CRLF, moving a file to itself, additions alone
    below an anchor, and hunks whose only old lines are blank."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.files = {f"f{n}": self.text() for n in range(self.dice.randint(1, 3))}
        self.patch = "\n".join(["*** Begin Patch", *self.sections(), "*** End Patch"])
        for name, text in self.files.items():
            if f"*** Add File: {name}\n" in self.patch:
                self.files[name] = text.replace("\r", "")

    def text(self) -> str:
        lines = [self.dice.choice(WORDS) for _ in range(self.dice.randint(0, 9))]
        end = "\r\n" if self.dice.random() < 0.2 else "\n"
        return "".join(f"{line}{end}" for line in lines)

    def sections(self) -> list[str]:
        made: list[str] = []
        for _ in range(self.dice.randint(1, 3)):
            name = self.dice.choice([*self.files, *self.files, "new", "dir/new"])
            kind = self.dice.random()
            if kind < 0.15:
                made += [
                    f"*** Add File: {name}",
                    *(f"+{self.dice.choice(WORDS)}" for _ in range(self.dice.randint(0, 3))),
                ]
            elif kind < 0.25:
                made.append(f"*** Delete File: {name}")
            else:
                made.append(f"*** Update File: {name}")
                if self.dice.random() < 0.15:
                    others = [other for other in self.files if other != name]
                    made.append(f"*** Move to: {self.dice.choice(['moved', 'dir/moved', *others])}")
                made += self.hunks(self.files.get(name, "a\n"))
        return made

    def hunks(self, text: str) -> list[str]:
        lines = text.replace("\r\n", "\n").split("\n")[:-1]
        made: list[str] = []
        at = 0
        for _ in range(self.dice.randint(1, 2)):
            if at > len(lines):
                break
            first = self.dice.randint(at, len(lines))
            last = min(len(lines), first + self.dice.randint(0, 4))
            anchor = self.dice.choice(lines[at:first]) if last > first > at and self.dice.random() < 0.3 else None
            part: list[str] = []
            for line in lines[first:last]:
                if self.dice.random() < 0.25:
                    part.append(f"+{self.dice.choice(WORDS)}")
                mark = " " if self.dice.random() < 0.6 else "-"
                part.append(f"{mark}{self.fuzzy(line)}" if line or self.dice.random() < 0.7 else "")
            if self.dice.random() < 0.4 or first == last:
                part.append(f"+{self.dice.choice(WORDS)}")
            if any(line[:1] in " -" and line[1:] for line in part):
                made.append("@@" if anchor is None else f"@@ {self.fuzzy(anchor)}")
                made += part
                if (last == len(lines) and self.dice.random() < 0.3) or self.dice.random() < 0.03:
                    made.append("*** End of File")
            else:
                made += ["@@", *(line for line in part if line.startswith("+")), "+x"]
            at = last
        return made

    def fuzzy(self, line: str) -> str:
        """The line as a model might write it: sometimes other blanks or quotes around it, seldom something else."""
        if self.dice.random() < 0.03:
            return self.dice.choice(WORDS)
        if self.dice.random() < 0.85:
            return line
        return self.dice.choice(FUZZ) + line.replace("–", "-").strip() + self.dice.choice(FUZZ)


def tree(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def both(
    tmp_path: Path, files: dict[str, str], patch: str
) -> tuple[dict[str, bytes] | None, dict[str, bytes] | None, str]:
    """The trees that codex and noria make (None: it failed), and what noria said."""
    theirs = tmp_path / "theirs"
    theirs.mkdir(parents=True)
    bench = Bench(tmp_path)
    for name, text in files.items():
        bench.file(name, text.encode())
        (theirs / name).write_bytes(text.encode())
    command = [CODEX, "--codex-run-as-apply-patch", patch]
    done = subprocess.run(command, cwd=theirs, capture_output=True, timeout=60, check=False)
    result = bench.do("apply_patch", patch=patch)
    found = tree(bench.root) if result.status == "ok" else None
    assert found is not None or tree(bench.root) == {name: text.encode() for name, text in files.items()}
    expected = tree(theirs) if done.returncode == 0 else None
    shutil.rmtree(tmp_path, ignore_errors=True)
    return expected, found, result.text


@needs
@pytest.mark.parametrize("block", range(8))
def test_generated_patches_give_the_same_trees(tmp_path: Path, block: int) -> None:
    whole = 0
    for seed in range(block * 40, block * 40 + 40):
        case = Case(seed)
        expected, found, told = both(tmp_path / str(seed), case.files, case.patch)
        assert found == expected, f"{case.files}\n{case.patch}\n{told}"
        whole += expected is not None
    assert whole >= 8  # most say something
