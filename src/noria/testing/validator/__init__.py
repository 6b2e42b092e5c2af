"""The table of what each real API refuses in a request. It knows which file has which dialect's rows, nothing else."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from noria.testing.faults import error_body
from noria.testing.issued import Issued
from noria.testing.request import Dialect, Request
from noria.testing.validator import (
    answer_schemas,
    chat,
    chat_options,
    chat_values,
    gemini,
    gemini_values,
    messages,
    messages_options,
    messages_values,
    responses,
    responses_values,
)
from noria.testing.validator.rule import Check, Problem, Rule, Violation

RULES: tuple[Rule, ...] = (
    *chat_values.TABLE.rules, *chat.TABLE.rules, *chat_options.TABLE.rules,
    *responses_values.TABLE.rules, *responses.TABLE.rules,
    *messages_values.TABLE.rules, *messages_options.TABLE.rules, *messages.TABLE.rules,
    *gemini_values.TABLE.rules, *gemini.TABLE.rules,
    *(rule for table in answer_schemas.TABLES for rule in table.rules),
)  # fmt: skip
"""Every row, by dialect; the order in which they are tried."""

_BY_NAME = ("newer", "no-prefill", "signed", "thinking-budget")
PROFILES: tuple[str, ...] = (*sorted({r.profile for r in RULES if r.profile}), *_BY_NAME)
"""The kinds of servers: those that rows name, and four that a row otherwise knows by the model's name."""

__all__ = ["PROFILES", "RULES", "Check", "Problem", "Rule", "Violation", "check", "refusal", "validate"]


def validate(request: Request, *, ignore: Collection[str] = ()) -> list[Violation]:
    """The rules that a request breaks, in the order of the table. `ignore`: ids of rules that are left out."""
    found: list[Violation] = []
    for rule in RULES:
        if rule.dialect != request.dialect or rule.id in ignore:
            continue
        if rule.profile and rule.profile not in request.profiles:
            continue
        if (problem := rule.check(request)) is not None:
            found.append(Violation(rule, problem, request.number))
    return found


def check(
    dialect: Dialect, body: Mapping[str, Any], *, headers: Mapping[str, str] | None = None, model: str | None = None,
    profiles: Collection[str] = (), ignore: Collection[str] = (), issued: Issued | None = None,
) -> list[Violation]:  # fmt: skip
    """The rules that a body breaks, without a server. `headers`: for messages, `anthropic-version` is expected."""
    lower = {name.lower(): value for name, value in (headers or {}).items()}
    request = Request(body, dialect, headers=lower, model=model, issued=issued, profiles=frozenset(profiles))
    return validate(request, ignore=ignore)


def refusal(violation: Violation, profiles: Collection[str] = ()) -> tuple[int, dict[str, Any]]:
    """Status and body with which the API answers a request that broke a rule."""
    rule, problem = violation.rule, violation.problem
    if rule.dialect == "chat" and "mistral" in profiles:
        body = {"object": "error", "message": problem.message, "type": problem.kind or "invalid_request_error"}
        return rule.status, {**body, "param": problem.param, "code": problem.code}
    kind = problem.kind or ("invalid_request_error" if rule.dialect in ("chat", "responses") else None)
    param, code = problem.param, problem.code
    return rule.status, error_body(rule.dialect, rule.status, problem.message, param=param, code=code, kind=kind)
