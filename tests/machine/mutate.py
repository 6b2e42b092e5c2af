"""A mutation run over the machine, the transcript and recovery: small changes, each of which some check has to notice.

    python -m tests.machine.mutate [--module machine] [--least 90]

Conditions are negated, statements dropped, operands swapped, numbers moved by one, ids taken for the next one. A mutant
is killed by a golden journal, by a law of the simulation, or by the tests of the module. Prints the rate and what
survived; ends with status 1 below the least rate, or where a survivor is not in survivors.md.
"""

from __future__ import annotations

import argparse
import ast
import copy
import io
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from multiprocessing import get_context
from pathlib import Path
from time import perf_counter
from types import ModuleType
from typing import NamedTuple

from noria.core import machine, transcript
from noria.runtime import recovery

from .patching import Hung, bounded, by_golden, by_simulation, patched, source_of

MODULES: dict[str, ModuleType] = {"machine": machine, "transcript": transcript, "recovery": recovery}
TESTS = Path(__file__).parents[1]
OWN_TESTS = {
    "machine": ("machine/test_golden.py",),
    "transcript": ("core/test_transcript.py", "core/test_wire.py", "machine/test_golden.py"),
    "recovery": ("runtime/test_recovery.py",),
}
LIST = Path(__file__).with_name("survivors.md")
IDS = {"id", "effect", "serial", "row", "count", "seq"}


class Mutant(NamedTuple):
    """A change: in which module and function, at which line, of which kind, and its number among those of the module.
    `was` and `now` are the changed text."""

    module: str
    function: str
    line: int
    kind: str
    number: int
    was: str
    now: str

    @property
    def name(self) -> str:
        """How a survivor is listed: without numbers that move when lines do."""
        return f"{self.module}.{self.function}: {self.kind}: `{self.was}` -> `{self.now}`"


class _Mutator(ast.NodeTransformer):
    """Makes the change of one number; with -1 none, but lists them all."""

    def __init__(self, module: str, number: int) -> None:
        self.module, self.number = module, number
        self.function: list[str] = []
        self.found: list[Mutant] = []

    def _change(self, node: ast.AST, kind: str, new: ast.AST) -> ast.AST:
        was, now = (" ".join(ast.unparse(n).split())[:90] for n in (node, new))
        line = getattr(node, "lineno", 0)
        mutant = Mutant(self.module, ".".join(self.function), line, kind, len(self.found), was, now)
        self.found.append(mutant)
        return ast.copy_location(new, node) if mutant.number == self.number else node

    def _inside(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> ast.AST:
        self.function.append(node.name)
        node.body = statements(self.visit(child) for child in node.body)
        self.function.pop()
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return self._inside(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        return self._inside(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        return self._inside(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        if node.value is not None and not self.function[-1][0].isupper():
            value = self.visit(node.value)
            assert isinstance(value, ast.expr)
            node.value = value
        return node

    def generic_visit(self, node: ast.AST) -> ast.AST:
        if not self.function or isinstance(node, ast.JoinedStr):  # what an error says is no rule
            return node
        for field, value in ast.iter_fields(node):
            if field in ("annotation", "returns", "decorator_list", "type_params"):
                continue
            if isinstance(value, list):
                setattr(node, field, [self.visit(v) if isinstance(v, ast.AST) else v for v in value])
            elif isinstance(value, ast.AST):
                setattr(node, field, self.visit(value))
        return node

    # -- the kinds of changes ------------------------------------------------------------------------------------

    def visit(self, node: ast.AST) -> ast.AST:
        if not self.function or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            return super().visit(node)
        if isinstance(node, ast.stmt) and _droppable(node):
            dropped = self._change(node, "dropped", ast.Pass())
            if dropped is not node:
                return dropped
        changed = self._expression(node)
        if changed is not node:
            return changed
        return super().visit(node)

    def _expression(self, node: ast.AST) -> ast.AST:
        new = node
        if isinstance(node, ast.If | ast.IfExp | ast.While | ast.comprehension):
            new = self._conditions(node)
        elif isinstance(node, ast.BoolOp):
            other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
            new = self._change(node, "swapped", ast.BoolOp(other, node.values))
        elif isinstance(node, ast.Compare):
            new = self._compare(node)
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub | ast.Mult | ast.FloorDiv):
            other_op = ast.Sub() if isinstance(node.op, ast.Add) else ast.Add()
            new = self._change(node, "swapped", ast.BinOp(node.left, other_op, node.right))
        elif isinstance(node, ast.Constant) and type(node.value) is int:
            new = self._change(node, "off by one", ast.Constant(node.value + 1))
        elif isinstance(node, ast.Attribute) and node.attr in IDS and isinstance(node.ctx, ast.Load):
            new = self._change(node, "wrong id", ast.BinOp(copy.deepcopy(node), ast.Mult(), ast.Constant(2)))
        return new

    def _conditions(self, node: ast.If | ast.IfExp | ast.While | ast.comprehension) -> ast.AST:
        if isinstance(node, ast.comprehension):
            for at, test in enumerate(node.ifs):
                node.ifs[at] = self._negated(test)
        else:
            node.test = self._negated(node.test)
        return node

    def _negated(self, test: ast.expr) -> ast.expr:
        new = self._change(test, "negated", ast.UnaryOp(ast.Not(), test))
        assert isinstance(new, ast.expr)
        return new

    def _compare(self, node: ast.Compare) -> ast.AST:
        swaps: dict[type[ast.cmpop], type[ast.cmpop]] = {
            ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
            ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
        }  # fmt: skip
        for at, op in enumerate(node.ops):
            other = [*node.ops[:at], swaps[type(op)](), *node.ops[at + 1 :]]
            new = self._change(node, "swapped", ast.Compare(node.left, other, node.comparators))
            if new is not node:
                return new
        return node


def statements(nodes: Iterable[ast.AST]) -> list[ast.stmt]:
    """The nodes, which are statements."""
    return [node for node in nodes if isinstance(node, ast.stmt)]


def _droppable(node: ast.stmt) -> bool:
    """A statement that does something: no text, no declaration, no `assert_never`, no bare way out of a match."""
    if isinstance(node, ast.Expr):
        return not isinstance(node.value, ast.Constant) and "assert_never" not in ast.unparse(node)
    return isinstance(node, ast.Assign | ast.AugAssign | ast.Return | ast.Raise | ast.Break | ast.Continue)


def mutants(module: str) -> list[Mutant]:
    """Every mutant of a module."""
    lister = _Mutator(module, -1)
    _all(lister, module)
    return lister.found


def _all(mutator: _Mutator, module: str) -> ast.Module:
    tree = ast.parse(source_of(MODULES[module]))
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    tree.body = statements(mutator.visit(node) if isinstance(node, kinds) else node for node in tree.body)
    return ast.fix_missing_locations(tree)


def kill(mutant: Mutant) -> tuple[Mutant, str]:
    """What kills a mutant (empty: nothing)."""
    tree = _all(_Mutator(mutant.module, mutant.number), mutant.module)
    with patched(MODULES[mutant.module], tree):
        return mutant, by_golden() or by_simulation() or by_tests(mutant.module)


def by_tests(module: str) -> str:
    """Whether the module's own tests fail."""
    import pytest

    paths = [str(TESTS / path) for path in OWN_TESTS[module]]
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        try:
            with bounded(60):
                status = pytest.main(["-x", "-q", "-p", "no:cacheprovider", *paths])
        except Hung:
            return "tests (hung)"
    return "tests" if status else ""


def listed() -> set[str]:
    """The survivors that survivors.md gives a reason for."""
    text = LIST.read_text(encoding="utf-8") if LIST.exists() else ""
    return {line[2:].strip() for line in text.splitlines() if line.startswith("- ")}


def rates(results: list[tuple[Mutant, str]]) -> Iterator[str]:
    """The lines of the table."""
    for module in MODULES:
        mine = [(m, by) for m, by in results if m.module == module]
        if mine:
            killed = Counter(by.split(" ")[0].rstrip(":") for _, by in mine if by)
            rate = 100 * sum(killed.values()) / len(mine)
            words = ", ".join(f"{n} by {by}" for by, n in killed.most_common())
            yield f"{module:12} {len(mine):4} mutants, {rate:5.1f} % killed ({words})"


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m tests.machine.mutate", description=__doc__)
    parser.add_argument("--module", action="append", choices=sorted(MODULES))
    parser.add_argument("--least", type=float, default=90)
    parser.add_argument("--cores", type=int, default=2)
    args = parser.parse_args()
    began = perf_counter()
    every = [m for module in args.module or MODULES for m in mutants(module)]
    with get_context("fork").Pool(args.cores, maxtasksperchild=50) as pool:
        results = list(pool.imap_unordered(kill, every, chunksize=1))
    survivors = sorted(m for m, by in results if not by)
    print(*rates(results), sep="\n")
    known = listed()
    for mutant in survivors:
        print(f"{'listed  ' if mutant.name in known else 'SURVIVES'} {mutant.name} (line {mutant.line})")
    unlisted = [m for m in survivors if m.name not in known]
    rate = 100 * (1 - len(survivors) / len(results))
    print(f"{len(results)} mutants, {rate:.1f} % killed, {len(unlisted)} survivors without a reason, "
          f"{perf_counter() - began:.0f} s")  # fmt: skip
    return 1 if rate < args.least or unlisted else 0


if __name__ == "__main__":
    sys.exit(main())
