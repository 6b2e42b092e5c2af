"""What a server refuses by name is left out from then on: once more without it, remembered, and said where it fails."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from noria.core.content import Reasoning, Reply, Text
from noria.core.ports import Answered, Failure, ToolSpec
from noria.core.transcript import Step, Transcript
from noria.models.catalog import Profile
from noria.models.client import http_model
from noria.models.transport import Transport
from noria.testing import ModelServer, Request, Status
from tests.models.bodies import GEMINI, MESSAGES, RESPONSES, own, thinking
from tests.models.kit import TOOL, endpoint, failed, history, prompt
from tests.models.test_client import request

GO = history(prompt("go"))
KEYS = {"chat": "bearer", "responses": "bearer", "messages": "x-api-key", "gemini": "x-goog-api-key"}


def refusing(*names: str, words: Callable[[str], str] | None = None, shape: str = "openai") -> Callable[[Request], Any]:
    """A server that refuses requests with any of these parameters, in the words of its kind."""

    def fault(asked: Request) -> Status | None:
        name = next((n for n in names if n in asked or _inside(asked, n)), "")
        if not name:
            return None
        said = words(name) if words else f"Unsupported parameter: '{name}' is not supported with this model."
        match shape:
            case "openai":
                error = {
                    "message": said,
                    "type": "invalid_request_error",
                    "param": name,
                    "code": "unsupported_parameter",
                }
                return Status(400, body={"error": error})
            case "anthropic":
                error = {"type": "invalid_request_error", "message": f"{name}: Extra inputs are not permitted"}
                return Status(400, body={"type": "error", "error": error})
            case _:
                detail = [{"type": "extra_forbidden", "loc": ["body", name], "msg": "Extra inputs are not permitted"}]
                return Status(422, body={"detail": detail})

    return fault


def _inside(asked: Request, name: str) -> bool:
    return name in ("cache_control", "strict") and f'"{name}"' in json.dumps(asked)


class Seen(list[Request]):
    """The requests, the answers that came of them."""

    answers: list[Answered | Failure]


def ask(
    dialect: str,
    faults: Any,
    times: int = 1,
    transcript: Transcript = GO,
    rest: bool = False,
    tools: tuple[ToolSpec, ...] = (TOOL,),
    output: str = "",
    **settings: Any,
) -> Seen:
    """Ask so many times in one session; with `rest`, by a model that is made anew between."""
    with ModelServer([{"text": "Hi"}], faults, follow="order", validate=False) as server:
        where = endpoint(server.base_url(dialect), dialect=dialect, auth=KEYS[dialect], **settings)  # type: ignore[arg-type]

        async def run() -> list[Answered | Failure]:
            transport = Transport({})
            model = http_model(where, tools=tools, transport=transport, output=output)
            found: list[Answered | Failure] = []
            for _ in range(times):
                found.append(await model.reply(request(transcript), lambda _: None))
                if rest:
                    model = http_model(where, tools=tools, transport=transport)
            await model.aclose()
            return found

        answers = asyncio.run(run())
        seen = Seen(server.requests)
        seen.answers = answers
        return seen


CASES = [
    ("chat", "temperature", "openai"), ("chat", "reasoning_effort", "openai"), ("chat", "stream_options", "openai"),
    ("chat", "stream_options", "pydantic"), ("chat", "max_tokens", "openai"), ("chat", "tool_choice", "openai"),
    ("responses", "temperature", "openai"), ("responses", "reasoning", "openai"), ("responses", "include", "openai"),
    ("responses", "max_output_tokens", "pydantic"), ("responses", "store", "openai"), ("responses", "strict", "openai"),
    ("messages", "temperature", "anthropic"), ("messages", "cache_control", "anthropic"),
    ("messages", "thinking", "anthropic"), ("messages", "output_config", "anthropic"),
]  # fmt: skip


@pytest.mark.case("I05")
@pytest.mark.parametrize(("dialect", "name", "shape"), CASES)
def test_an_optional_parameter_that_is_refused_is_left_out(dialect: str, name: str, shape: str) -> None:
    """One more request without it, and none with it afterwards, also by a model that is made anew."""
    settings: dict[str, Any] = {"max_output_tokens": 5_000}
    settings |= {"reasoning_effort": "low"} if name in ("thinking", "output_config") else {"temperature": 0.5}
    settings |= {"reasoning_effort": "low"} if dialect != "messages" else {}
    for rest in (False, True):
        seen = ask(dialect, refusing(name, shape=shape), times=3, rest=rest, **settings)
        assert [isinstance(a, Answered) for a in seen.answers] == [True] * 3
        assert [name in r or _inside(r, name) for r in seen] == [True, False, False, False]
        assert seen.answers[0].usage.requests == 2, "the refused request is counted"
        assert seen[1].keys() >= seen[0].keys() - {name, "output_config"}, "nothing else is left out"


@pytest.mark.case("I05")
@pytest.mark.parametrize(
    ("named", "refuses"),
    [("max_tokens", "max_completion_tokens"), ("max_completion_tokens", "max_tokens")],
)
def test_an_output_limit_by_its_other_name(named: str, refuses: str) -> None:
    """Newer models say which name they want; the limit is kept under that."""
    says = f"Unsupported parameter: '{refuses}' is not supported with this model. Use '{named}' instead."
    profile = Profile(output_parameter=refuses)
    seen = ask("chat", refusing(refuses, words=lambda _: says), times=2, max_output_tokens=99, profile=profile)
    assert [(r.get("max_tokens"), r.get("max_completion_tokens")) for r in seen] == (
        [(99, None), (None, 99), (None, 99)] if refuses == "max_tokens" else [(None, 99), (99, None), (99, None)]
    )
    assert all(isinstance(a, Answered) for a in seen.answers)


@pytest.mark.case("I05")
@pytest.mark.parametrize(
    "kind", ["refuses max_tokens", "refuses max_completion_tokens", "refuses both at once", "takes any"]
)
@pytest.mark.parametrize("named", ["max_tokens", "max_completion_tokens"])
def test_four_kinds_of_servers(kind: str, named: str) -> None:
    """With the right name configured no request is refused; both are never sent; with the wrong one, one is."""

    def fault(asked: Request) -> Status | None:
        both = "max_tokens" in asked and "max_completion_tokens" in asked
        wrong = kind.removeprefix("refuses ")
        if (kind == "refuses both at once" and both) or wrong in asked:
            return Status(400, message=f"Unrecognized request argument supplied: {wrong}")
        return None

    seen = ask("chat", fault, times=2, max_output_tokens=99, profile=Profile(output_parameter=named))
    assert all(isinstance(a, Answered) for a in seen.answers)
    assert len(seen) == (3 if kind == f"refuses {named}" else 2)


@pytest.mark.case("I05")
def test_one_more_request_for_each_parameter_and_the_words_are_shown() -> None:
    """noria's form: a parameter costs one more request; what is no optional parameter, or refused for another reason,
    is a failure with the server's words."""
    seen = ask("chat", refusing("temperature", "stream_options"), times=2, temperature=0.5)
    assert [isinstance(a, Answered) for a in seen.answers] == [True, True]
    assert [("temperature" in r, "stream_options" in r) for r in seen] == [
        (True, True),
        (False, True),
        *[(False,) * 2] * 2,
    ]
    for name in ("model", "messages", "tools"):
        seen = ask("chat", refusing(name))
        failure = failed(seen.answers[0])
        assert len(seen) == 1 and failure.culprit == name and failure.kind == "bad_request"
        assert f"Unsupported parameter: '{name}' is not supported with this model." in failure.detail


@pytest.mark.case("I05")
def test_what_is_learned_is_bounded() -> None:
    """A server that refuses something else each time is not asked for ever."""
    names = iter(("temperature", "stream_options", "reasoning_effort", "tool_choice", "max_tokens", *["model"] * 99))

    def fault(asked: Request) -> Status:
        return Status(400, message=f"Unrecognized request argument supplied: {next(names)}")

    seen = ask("chat", fault, times=3, temperature=0.5, reasoning_effort="low", max_output_tokens=9)
    assert all(failed(a).kind == "bad_request" for a in seen.answers)
    assert len(seen) == 5 + 1 + 1


def test_a_limit_above_the_model_s_becomes_the_model_s() -> None:
    """The messages dialect must send one, and the catalogue may not know the model."""

    def fault(asked: Request) -> Status | None:
        if asked["max_tokens"] <= 4_096:
            return None
        says = "which is the maximum allowed number of output tokens for this model"
        return Status(400, message=f"max_tokens: {asked['max_tokens']} > 4096, {says}")

    for rest in (False, True):
        seen = ask("messages", fault, times=2, rest=rest)
        assert [r["max_tokens"] for r in seen] == [8_192, 4_096, 4_096]
        assert all(isinstance(a, Answered) for a in seen.answers)


@pytest.mark.case("A06")
@pytest.mark.parametrize(
    ("dialect", "model", "words"),
    [
        ("messages", MESSAGES, "messages.1.content.0: Invalid `signature` in `thinking` block"),
        ("responses", RESPONSES, "The encrypted content gAAA...xyz could not be verified. Reason: ..."),
        ("responses", RESPONSES, "Item 'rs_4' of type 'reasoning' was provided without its required following item."),
    ],
)
def test_reasoning_that_the_server_cannot_read_is_left_out(dialect: str, model: str, words: str) -> None:
    """Another key or organisation behind the same name: what was thought is lost, the session is not."""
    past = Step(Reply((thinking(model, "plan"), Text("Hi")), model=model))
    transcript = history(prompt("go"), past, prompt("and"))

    def fault(asked: Request) -> Status | None:
        return Status(400, message=words) if '"plan"' in json.dumps(asked) or "gAAA4" in json.dumps(asked) else None

    seen = ask(dialect, fault, times=2, transcript=transcript)
    assert all(isinstance(a, Answered) for a in seen.answers)
    assert len(seen) == 3 and "Hi" in json.dumps(seen[1])


TAG = "messages.1.content.0: Input tag '%s' found using 'type' does not match any of the expected tags: 'text', ..."
GOOGLE = "Invalid JSON payload received. Unknown name \"%s\" at 'contents[1].parts[0]': Cannot find field."
OWN = [
    ("messages", own(MESSAGES, type="fallback", to={"model": "m"}), TAG % "fallback", ""),
    ("messages", own(MESSAGES, type="compaction", content="so far"), "Unsupported content block type: compaction", ""),
    ("messages", thinking(MESSAGES, "plan"), TAG % "thinking", ""),
    ("responses", own(RESPONSES, type="search_results", results=[]), "Invalid value: 'search_results'. Supported "
     "values are: 'message', 'reasoning' and 'function_call'.", "input[1].type"),
    ("gemini", own(GEMINI, toolCall={"toolType": "GOOGLE_SEARCH"}), GOOGLE % "toolCall", ""),
]  # fmt: skip


@pytest.mark.case("A06")
@pytest.mark.parametrize(("dialect", "block", "words", "param"), OWN)
def test_blocks_of_its_own_that_a_server_does_not_take_back_are_left_out(
    dialect: str, block: Any, words: str, param: str
) -> None:
    """Another server behind the same name, or a setting that is gone: their meaning is lost, the session is not."""
    name = {"messages": MESSAGES, "responses": RESPONSES, "gemini": GEMINI}[dialect]
    transcript = history(prompt("go"), Step(Reply((block, Text("Hi")), model=name)), prompt("and"))
    kind = json.loads(block.data)
    mark = kind.get("type") or next(iter(kind))

    def fault(asked: Request) -> Status | None:
        error = {"message": words, "type": "invalid_request_error", "param": param or None}
        return Status(400, body={"error": error}) if f'"{mark}"' in json.dumps(asked) else None

    seen = ask(dialect, fault, times=2, transcript=transcript)
    assert all(isinstance(a, Answered) for a in seen.answers)
    assert len(seen) == 3 and "Hi" in json.dumps(seen[1])


@pytest.mark.case("A06")
@pytest.mark.parametrize(
    ("dialect", "model", "words"),
    [
        ("messages", MESSAGES, "The `content[].thinking` in the thinking mode must be passed back to the API."),
        ("messages", MESSAGES, "thinking is enabled but reasoning_content is missing in assistant tool call message"),
        ("responses", RESPONSES, "The `reasoning_content` in the thinking mode must be passed back to the API."),
    ],
)
def test_thinking_that_a_server_wants_back_goes_back(dialect: str, model: str, words: str) -> None:
    """Though it is not signed: once it was asked for."""
    past = Step(Reply((Reasoning("plan", model), Text("Hi")), model=model))

    def fault(asked: Request) -> Status | None:
        return None if '"plan"' in json.dumps(asked) else Status(400, message=words)

    seen = ask(dialect, fault, times=2, transcript=history(prompt("go"), past, prompt("and")))
    assert all(isinstance(a, Answered) for a in seen.answers) and len(seen) == 3


def test_a_part_that_is_everybody_s_stays() -> None:
    """What a refusal says of text, tools or images teaches nothing of the provider's own blocks."""
    seen = ask("messages", lambda _: Status(400, message=TAG % "tool_result"))
    assert len(seen) == 1 and failed(seen.answers[0]).kind == "bad_request"


def test_thinking_that_the_server_refuses_where_it_stands_is_switched_off() -> None:
    words = "messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found `text`."
    seen = ask("messages", lambda r: Status(400, message=words) if "thinking" in r else None, reasoning_effort="high")
    assert len(seen) == 2 and isinstance(seen.answers[0], Answered)
