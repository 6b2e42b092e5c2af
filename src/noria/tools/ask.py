"""`ask_user`: questions to a person, how an answer is read, what the model is told; `exit_plan`: a plan put to them.

Owns: the form of questions and answers. Must not know: who shows them, any mode. These calls are decided by a person
and never run: the answer is their result.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated

import msgspec

from noria.core.content import Call
from noria.core.ports import Claims
from noria.tools.result import ToolError, safe
from noria.tools.schema import tool

MOST = 10  # questions, and choices of one
NOBODY = "nobody can be asked here"
DECLINED = "The person skipped every question. Go on by your own judgement, and say what you assumed"


class Question(msgspec.Struct, frozen=True, omit_defaults=True):
    """options: the best first; their own words are always possible"""  # a model is told this

    question: str
    options: list[str] = []
    header: str = ""
    multiple: bool = False


@tool(read_only=True, interactive=True, claims=lambda args, workspace: Claims(everything=True))
async def ask_user(
    questions: Annotated[list[Question], msgspec.Meta(min_length=1, max_length=MOST), "1 to 10"],
) -> str:
    """Ask the person what only they can decide."""
    raise ToolError(f"{NOBODY}: decide by your own judgement, and say what you assumed")


@tool(read_only=True, interactive=True, claims=lambda args, workspace: Claims())
async def exit_plan(
    plan: Annotated[str, msgspec.Meta(min_length=1), "What would be changed, where, in which order, and how checked"],
) -> str:
    """Put the finished plan to the person; changes can be made once they approve it."""
    raise ToolError(f"{NOBODY}: give the plan as your answer")


class _Arguments(msgspec.Struct):
    questions: list[Question]


def questions(call: Call) -> list[Question]:
    """The questions of a call, none where they cannot be read."""
    try:
        return msgspec.json.decode(call.args, type=_Arguments).questions
    except msgspec.MsgspecError:
        return []


def shown(question: Question) -> list[str]:
    """The question as lines for a person: the choices numbered."""
    head = f"{question.header}: {question.question}" if question.header else question.question
    return [*head.splitlines(), *(f"  {n}. {option}" for n, option in enumerate(question.options, 1))]


def hint(question: Question) -> str:
    """What may be typed."""
    if not question.options:
        return "your answer; blank skips it"
    numbers = "numbers with commas between" if question.multiple else "a number"
    return f"{numbers}, or your own words; blank skips it"


def read(question: Question, line: str) -> str:
    """The answer that a typed line gives; empty where it is skipped. Raises ValueError with what to type instead."""
    line = line.strip()
    options = question.options
    if not options or not re.fullmatch(r"\d+(?:[\s,]+\d+)*[\s,]*", line):
        by_name = [o for o in options if o.casefold() == line.casefold()]
        return by_name[0] if by_name and line else line
    numbers = list(dict.fromkeys(int(n) for n in re.findall(r"\d+", line)))
    if len(numbers) > 1 and not question.multiple:
        raise ValueError("only one of them can be chosen")
    if wrong := [n for n in numbers if not 1 <= n <= len(options)]:
        raise ValueError(f"there is no choice {wrong[0]}: 1 to {len(options)}")
    return ", ".join(options[n - 1] for n in numbers)


def answered(asked: Sequence[Question], answers: Sequence[str]) -> str:
    """What the model is told: a line a question (`header: answer`); skipped ones are marked."""
    if not any(a.strip() for a in answers):
        return DECLINED
    if len(asked) == 1 and not asked[0].header:
        return safe(answers[0].strip())
    lines: list[str] = []
    for n, question in enumerate(asked):
        answer = answers[n].strip() if n < len(answers) else ""
        lines.append(f"{question.header or question.question}: {safe(answer) or '(skipped)'}")
    return "\n".join(lines)
