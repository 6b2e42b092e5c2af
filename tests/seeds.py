"""Which test shows which line of the seed documents and which public bug report: read from the markers of the tests.

`python -m tests.seeds` prints docs/seeds.md. Owns: the ids of closed issues. Must not know: what the lines say.
"""

from __future__ import annotations

import ast
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parent.parent

LINES = {
    "A": 36, "B": 22, "C": 28, "D": 28, "E": 20, "F": 8, "G": 22, "H": 23, "I": 23, "J": 16, "K": 32, "L": 22, "M": 9,
    "N": 18, "O": 8, "P": 16, "Q": 21, "R": 8, "S": 5, "T": 8, "U": 10, "V": 7, "W": 21, "X": 22, "Z": 46,
}  # fmt: skip

SHOWN = """
A01 A02 A04-A12 A15 A18 A19 A22 A23 A25-A36 B01-B10 B18-B22 C23-C27 D01 D02 D04 D06-D08 D13-D15 D23-D28 F01-F08 I22
J01-J10 L01 L02 L05 L07 N01-N03 N09 N18 Q01-Q04 R01-R04 R08 V01-V06 W01-W08 W10-W14 W18 W20 W21 X01 X02 X06 X07 X09
X13 X14 X16-X18 X20-X22 Z01-Z07 Z11-Z18 Z24 Z38 Z39 Z41 Z42
C07 C08 D05 D09-D12 E01 E05 I06-I12 J05 N04-N07 Q13-Q19 U01 U10 X05 X08 Z08-Z10
I01-I23 J01-J16 K13-K15 X15 X19 Q20 Z05-Z10 Z26 Z27
C01-C05 C09 D01-D28 E01-E20 F01-F08 S04 S05 X10-X13 Z07 Z14-Z16 Z20-Z22 Z29-Z31 Z42
G01-G22 H01-H17 H19-H23 S01-S03 D03 D12 C05 C06 X13 X19 Z28-Z30 Z34-Z36 Z43 L06
"""
"""The lines of closed issues: each needs a test."""

CASES = "A01 A02 A03 A04 A06 B01-B05 C01-C06 D01-D07 E01-E06 F01 F04 I01-I05 J03 K01 K02 L01 L02"
"""The bug reports of closed issues."""


def expand(text: str) -> list[str]:
    """The ids in `text`, ranges spelled out."""
    ids: list[str] = []
    for word in text.split():
        match = re.fullmatch(r"([A-Z])(\d\d)(?:-[A-Z](\d\d))?", word)
        if match is None:
            raise ValueError(f"not an id or a range of ids: {word}")
        first, last = int(match[2]), int(match[3] or match[2])
        ids += [f"{match[1]}{n:02d}" for n in range(first, last + 1)]
    return ids


def markers() -> dict[str, dict[str, list[str]]]:
    """`{"seed": {id: [test, ...]}, "case": {...}}`, from the decorators of the tests and their classes and modules."""
    found: dict[str, dict[str, list[str]]] = {"seed": {}, "case": {}}
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        where = path.relative_to(ROOT).as_posix()
        module = [n.value for n in tree.body if isinstance(n, ast.Assign) and _is_pytestmark(n)]
        for kind, ids in _marks([e for m in module for e in (m.elts if isinstance(m, ast.List | ast.Tuple) else [m])]):
            for each in ids:
                found[kind].setdefault(each, []).append(where)
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                for kind, ids in _marks(node.decorator_list):
                    for each in ids:
                        found[kind].setdefault(each, []).append(f"{where}::{node.name}")
    return found


def _is_pytestmark(node: ast.Assign) -> bool:
    return any(isinstance(t, ast.Name) and t.id == "pytestmark" for t in node.targets)


def _marks(decorators: list[ast.expr]) -> list[tuple[str, list[str]]]:
    marks: list[tuple[str, list[str]]] = []
    for node in decorators:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("seed", "case"):
            ids = [a.value for a in node.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
            marks.append((node.func.attr, ids))
    return marks


def missing() -> list[str]:
    """The ids of closed issues that no test names."""
    found = markers()
    lines = [i for i in expand(SHOWN) if i not in found["seed"]]
    return lines + [f"case {i}" for i in expand(CASES) if i not in found["case"]]


def document() -> str:
    """The text of docs/seeds.md."""
    found = markers()
    closed = set(expand(SHOWN))
    out = [
        "# Lines and the tests that show them",
        "",
        "Made from the tests' markers by `make docs`. Where a line's own form differs from noria's, the test says so.",
        "",
        "| line | shown by |",
        "|---|---|",
    ]
    for letter, count in LINES.items():
        for n in range(1, count + 1):
            each = f"{letter}{n:02d}"
            out.append(f"| {each} | {_tests(found['seed'].get(each), each in closed)} |")
    out += ["", "| case | shown by |", "|---|---|"]
    for each in sorted(set(expand(CASES)) | set(found["case"])):
        out.append(f"| {each} | {_tests(found['case'].get(each), each in expand(CASES))} |")
    return "\n".join(out) + "\n"


def _tests(names: list[str] | None, closed: bool) -> str:
    if not names:
        return "**missing**" if closed else "not yet: an open issue"
    shown = ", ".join(f"`{n.removeprefix('tests/')}`" for n in names[:3])
    return shown + (f" and {len(names) - 3} more" if len(names) > 3 else "")


if __name__ == "__main__":
    print(document(), end="")
