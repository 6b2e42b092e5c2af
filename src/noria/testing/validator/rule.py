"""What a rule of an API is. It knows no API.

A rule is a row: what an API refuses, where that is written, how to see it in a request, and what the API answers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import msgspec

from noria.testing.request import Dialect, Request


class Problem(msgspec.Struct, frozen=True):
    """What is wrong with a request, in the API's own words. `param`, `code` and `kind` where its error has them."""

    message: str
    param: str | None = None
    code: str | None = None
    kind: str | None = None


Check: TypeAlias = Callable[[Request], Problem | None]
"""Looks at a request; it never raises, whatever the body is."""


class Rule(msgspec.Struct, frozen=True):
    """A row of the table. `what` must hold. `source`: a page of the API's reference, or a public report of its refusal.
    `profile`: the kind of server that refuses this; empty where all of this dialect do. `status`: what it answers."""

    id: str
    dialect: Dialect
    what: str
    source: str
    check: Check
    profile: str = ""
    status: int = 400


class Table:
    """The rules of a dialect, in the order in which they are tried.

    A check joins by `@table.rule(source)`: its name is the rule's id, its docstring says what must hold.
    """

    def __init__(self, dialect: Dialect) -> None:
        self.dialect: Dialect = dialect
        self.rules: list[Rule] = []

    def rule(self, source: str, *, profile: str = "", status: int = 400) -> Callable[[Check], Check]:
        """Makes a function a row."""

        def add(check: Check) -> Check:
            name = check.__name__.replace("_", "-")
            what = " ".join((check.__doc__ or "").split())
            self.rules.append(Rule(f"{self.dialect}-{name}", self.dialect, what, source, check, profile, status))
            return check

        return add


class Violation(msgspec.Struct, frozen=True):
    """A request that broke a rule. `number`: the request's, from 0."""

    rule: Rule
    problem: Problem
    number: int = 0

    def __str__(self) -> str:
        return f"request {self.number}: {self.rule.id}: {self.problem.message}"
