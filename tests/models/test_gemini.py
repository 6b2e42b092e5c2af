"""The requests of the gemini dialect: what is its own. What holds for every dialect is in test_dialects."""

from __future__ import annotations

import asyncio
import base64
import json
from typing import Any

import pytest

from noria.core.content import Image, Reasoning, Reply, Result, Text
from noria.core.ports import Answered, CallDelta, Failure, ToolSpec
from noria.core.transcript import Entry, Step
from noria.models import words
from noria.models.client import http_model
from noria.models.gemini import UNSIGNED, Gemini, function_name
from noria.models.profiles import Profile
from noria.models.retry import REASONING_ITEMS, from_status
from noria.models.servers import profile_of
from noria.models.transport import Transport
from noria.testing import ModelServer, Turn, check
from tests.models.bodies import CHAT, GEMINI, MESSAGES, PICTURE, PNG, Store, own, thinking
from tests.models.kit import TOOL, answered, call, endpoint, history, ok, prompt, step
from tests.models.test_client import request

THREE = "gemini:gemini-3-pro-preview"
MARK = {"thoughtSignature": "c2ln"}


def made(tools: tuple[ToolSpec, ...] = (TOOL,), learned: set[str] | None = None, **settings: Any) -> Gemini:
    return Gemini(endpoint(**{"dialect": "gemini", **settings}), tools, Store(), learned)


def body(*entries: Entry, calls: Any = "free", system: str = "You are noria.", **settings: Any) -> dict[str, Any]:
    return json.loads(made(**settings).body(system, history(*entries), calls))


def sent(*entries: Entry, **settings: Any) -> list[list[Any]]:
    """The contents: the parts of each, after its role."""
    return [[c["role"], *c["parts"]] for c in body(*entries, **settings)["contents"]]


def said(*blocks: Any, model: str = GEMINI, end: Any = "stop", results: tuple[Result, ...] = ()) -> Step:
    return Step(Reply(blocks, end, model), results)


GO = prompt("go")


# -- address and headers -----------------------------------------------------------------------------------------

GOOGLE = "https://generativelanguage.googleapis.com"
VERTEX = "https://aiplatform.googleapis.com/v1/projects/p/locations/global/publishers/google"


@pytest.mark.seed("X05")
@pytest.mark.parametrize(
    ("base", "model", "path"),
    [
        (GOOGLE, "gemini-3-pro", f"{GOOGLE}/v1beta/models/gemini-3-pro"),
        (f"{GOOGLE}/", "gemini-3-pro", f"{GOOGLE}/v1beta/models/gemini-3-pro"),
        (f"{GOOGLE}/v1beta", "gemini-3-pro", f"{GOOGLE}/v1beta/models/gemini-3-pro"),
        (f"{GOOGLE}/v1/", "gemini-3-pro", f"{GOOGLE}/v1/models/gemini-3-pro"),
        (f"{GOOGLE}/v1alpha/models", "gemini-3-pro", f"{GOOGLE}/v1alpha/models/gemini-3-pro"),
        (f"{GOOGLE}/v1beta/models/gemini-3-pro", "gemini-3-pro", f"{GOOGLE}/v1beta/models/gemini-3-pro"),
        (GOOGLE, "models/gemini-3-pro", f"{GOOGLE}/v1beta/models/gemini-3-pro"),
        (GOOGLE, "tunedModels/mine", f"{GOOGLE}/v1beta/tunedModels/mine"),
        (VERTEX, "gemini-3-pro", f"{VERTEX}/models/gemini-3-pro"),
        (
            VERTEX.removesuffix("/publishers/google"),
            "endpoints/12",
            f"{VERTEX.removesuffix('/publishers/google')}/endpoints/12",
        ),
        (GOOGLE, "a b?c", f"{GOOGLE}/v1beta/models/a%20b%3Fc"),
        ("https://gate/v1/account/google", "gemini-3-pro", "https://gate/v1/account/google/v1beta/models/gemini-3-pro"),
        ("http://v1/x", "m", "http://v1/x/v1beta/models/m"),
    ],
)
def test_the_address(base: str, model: str, path: str) -> None:
    """A version that is there is not added twice, nor what else is there; a stream of events is asked for."""
    assert made(base_url=base, model=model).url() == f"{path}:streamGenerateContent?alt=sse"
    assert made(base_url=base, model=model, stream=False).url() == f"{path}:generateContent"


def test_the_query_stays() -> None:
    start = f"{GOOGLE}/v1beta/models/test-model:streamGenerateContent?"
    assert made(base_url=f"{GOOGLE}?team=a").url() == start + "team=a&alt=sse"
    assert made(base_url=f"{GOOGLE}?alt=sse").url() == start + "alt=sse"
    assert made(base_url=GOOGLE, auth="query").url() == start + "key=secret-key-123&alt=sse"


def test_the_headers() -> None:
    assert (profile_of("gemini", VERTEX, "gemini-3-pro").auth, profile_of("gemini", GOOGLE, "x").auth) == ("bearer", "")
    assert made(auth="x-goog-api-key").headers() == [("x-goog-api-key", "secret-key-123")]
    assert made(auth="bearer").headers() == [("authorization", "Bearer secret-key-123")]


# -- fields ------------------------------------------------------------------------------------------------------


@pytest.mark.seed("W12", "I01", "I05")
def test_nothing_is_sent_that_was_not_set() -> None:
    """I01, I05, noria's form: the contents, what was configured, the tools if there are any."""
    assert body(GO, tools=(), system=" ").keys() == {"contents"}
    assert list(body(GO)) == ["systemInstruction", "tools", "contents"]
    assert body(GO)["systemInstruction"] == {"parts": [{"text": "You are noria."}]}
    assert body(GO, temperature=0.0, max_output_tokens=9)["generationConfig"] == {
        "temperature": 0.0,
        "maxOutputTokens": 9,
    }
    assert body(GO, tools=(), calls="forbidden").keys().isdisjoint({"toolConfig", "tools"})


def test_calls_are_forbidden_and_the_tools_stay() -> None:
    free, forbidden = body(GO), body(GO, calls="forbidden")
    assert "toolConfig" not in free
    assert forbidden["toolConfig"] == {"functionCallingConfig": {"mode": "NONE"}}
    assert free["tools"] == forbidden["tools"]


def test_a_tool_s_schema_is_json_schema() -> None:
    """`parametersJsonSchema` takes what `parameters` refuses: unions, bounds, additionalProperties. How schemas are
    mended is in test_schemas."""
    schema = {
        "type": "object", "properties": {"a": {"anyOf": [{"$ref": "#/$defs/x"}, {"type": "null"}]}},
        "additionalProperties": False, "$defs": {"x": {"type": "integer", "exclusiveMinimum": 0}},
    }  # fmt: skip
    found = body(GO, tools=(ToolSpec("f", "F.", json.dumps(schema)),))
    (declared,) = found["tools"][0]["functionDeclarations"]
    either = [{"type": "integer", "exclusiveMinimum": 0}, {"type": "null"}]
    assert declared["parametersJsonSchema"] == {
        "type": "object", "properties": {"a": {"anyOf": either}}, "additionalProperties": False,
    }  # fmt: skip
    assert declared.keys() == {"name", "description", "parametersJsonSchema"} and not check("gemini", found)


@pytest.mark.parametrize(
    ("name", "wire"), [("a-b_c", "a-b_c"), ("1st", "_1st"), ("-x", "_-x"), ("9" * 64, "_" + "9" * 63)]
)
def test_names_begin_with_a_letter_or_an_underscore(name: str, wire: str) -> None:
    assert function_name(name) == wire
    dialect = made((ToolSpec(name, "F.", "{}"),))
    one = step("", (call("c1_0", name), ok("c1_0")))
    found = json.loads(dialect.body("s", history(GO, one), "free"))
    assert found["tools"][0]["functionDeclarations"][0]["name"] == wire
    assert found["contents"][1]["parts"][0]["functionCall"]["name"] == wire
    assert found["contents"][2]["parts"][0]["functionResponse"]["name"] == wire
    deltas: list[Any] = []
    decoder = dialect.decoder(1, deltas.append)
    made_ = {"candidates": [{"content": {"parts": [{"functionCall": {"name": wire}}]}, "finishReason": "STOP"}]}
    decoder.whole(json.dumps(made_).encode())
    answer = decoder.result()
    assert answered(answer).reply.calls[0].name == name
    assert CallDelta(1, 0, name) in deltas


@pytest.mark.parametrize(
    ("model", "effort", "config"),
    [
        ("gemini-3-pro-preview", "low", {"thinkingLevel": "LOW"}),
        ("gemini-3.5-flash", "minimal", {"thinkingLevel": "MINIMAL"}),
        ("gemini-flash-latest", "max", {"thinkingLevel": "HIGH"}),
        ("gemini-4-neon", "none", {"thinkingLevel": "MINIMAL"}),
        ("google/gemini-3-pro", "Medium", {"thinkingLevel": "MEDIUM"}),
        ("gemini-2.5-flash", "low", {"thinkingBudget": 1_024}), ("gemini-2.5-pro", "medium", {"thinkingBudget": 8_192}),
        ("models/gemini-2.5-flash-lite", "xhigh", {"thinkingBudget": 24_576}),
        ("gemini-2.5-flash", "none", {"thinkingBudget": 0}), ("gemini-2.0-flash", "odd", {"thinkingBudget": 8_192}),
    ],
)  # fmt: skip
def test_how_much_a_model_is_told_to_think(model: str, effort: str, config: dict[str, Any]) -> None:
    """Only where it is configured: Gemini 3 takes a level, models before it a number of tokens; both are refused."""
    assert "generationConfig" not in body(GO, model=model)
    found = body(GO, model=model, reasoning_effort=effort)
    assert found["generationConfig"] == {"thinkingConfig": {**config, "includeThoughts": True}}
    assert not check("gemini", found, model=model)


def test_names_that_become_one_are_told_apart() -> None:
    tools = tuple(ToolSpec(name, "F.", "{}") for name in ("1st", "_1st", "9" * 64, "9" * 63 + "8"))
    found = body(GO, tools=tools)
    names = [f["name"] for f in found["tools"][0]["functionDeclarations"]]
    assert len(set(names)) == 4 and names[1] == "_1st" and not check("gemini", found)


def test_a_profile_says_what_else_is_sent() -> None:
    found = body(GO, profile=Profile(extra={"safetySettings": []}, omit=["temperature"]), temperature=0.5)
    assert found["safetySettings"] == [] and "generationConfig" not in found
    extra = {"tools": [{"googleSearch": {}}], "generationConfig": {"topP": 0.5}, "toolConfig": {"retrievalConfig": {}}}
    found = body(GO, profile=Profile(extra=extra), temperature=0.5, calls="forbidden")
    assert [next(iter(tool)) for tool in found["tools"]] == ["functionDeclarations", "googleSearch"]
    assert found["generationConfig"] == {"temperature": 0.5, "topP": 0.5}
    assert found["toolConfig"] == {"retrievalConfig": {}, "functionCallingConfig": {"mode": "NONE"}}
    assert body(GO, profile=Profile(extra=extra))["toolConfig"] == {"retrievalConfig": {}}


def test_a_profile_says_how_to_tell_it() -> None:
    found = body(GO, model="mine", reasoning_effort="high", profile=Profile(thinking="budget"))
    assert found["generationConfig"]["thinkingConfig"]["thinkingBudget"] == 24_576


# -- contents ----------------------------------------------------------------------------------------------------


@pytest.mark.seed("X07")
def test_responses_come_first_in_call_order_and_join_what_is_said_next() -> None:
    two = step("Look.", (call("c1_0", args='{"path":"a"}'), ok("c1_0", "A")), (call("c1_1", "now"), ok("c1_1", "B")))
    found = sent(GO, two, prompt("one"), prompt("two"), step("Hi"))
    assert found == [
        ["user", {"text": "go"}],
        ["model", {"text": "Look."}, {"functionCall": {"name": "read_file", "args": {"path": "a"}}},
         {"functionCall": {"name": "now", "args": {}}}],
        ["user", {"functionResponse": {"name": "read_file", "response": {"output": "A"}}},
         {"functionResponse": {"name": "now", "response": {"output": "B"}}}, {"text": "one"}, {"text": "two"}],
        ["model", {"text": "Hi"}],
        ["user", {"text": words.GO_ON}],
    ]  # fmt: skip


@pytest.mark.parametrize("status", ["error", "denied", "interrupted"])
def test_results_that_are_no_success_are_errors(status: Any) -> None:
    one = step("", (call("c1_0"), Result("c1_0", status, (Text("why"),))))
    assert list(sent(GO, one)[2][1]["functionResponse"]["response"]) == ["error"]


@pytest.mark.seed("X08")
@pytest.mark.case("A04")
def test_images_of_results_follow_all_responses() -> None:
    """X08: the result and its id stay; a response takes text."""
    pairs = (
        (call("c1_0"), Result("c1_0", "ok", (Text("A"), PICTURE))),
        (call("c1_1"), Result("c1_1", "ok", (PICTURE,))),
    )
    (_, *parts) = sent(GO, step("", *pairs))[2]
    assert [next(iter(p)) for p in parts] == ["functionResponse"] * 2 + ["text", "inlineData"] * 2
    assert "shown below" in parts[0]["functionResponse"]["response"]["output"]
    assert parts[3]["inlineData"]["mimeType"] == "image/png" and base64.b64decode(parts[3]["inlineData"]["data"]) == PNG


@pytest.mark.seed("X08")
@pytest.mark.parametrize(
    ("image", "profile", "says"),
    [
        (Image("sha256:png", "image/gif"), Profile(), "heic, heif, jpeg, pdf, png and webp"),
        (Image("sha256:gone", "image/png"), Profile(), "bytes are gone"),
        (Image("sha256:png", "image/png", withheld=True), Profile(), "could not process it"),
        (PICTURE, Profile(images=False), "takes no images"),
    ],
)
def test_an_image_that_is_not_sent_is_said(image: Image, profile: Profile, says: str) -> None:
    one = step("", (call("c1_0"), Result("c1_0", "ok", (image,))))
    found = sent(prompt("look", image), one, profile=profile)
    assert "inlineData" not in json.dumps(found)
    assert says in json.dumps(found[0]) and says in json.dumps(found[2])


def test_ids_go_where_google_gave_them() -> None:
    """Where it did not, and for calls of another provider, order pairs them. An id that comes twice is sent once."""
    pairs = (
        (call("c1_0", wire_id="8hd0"), ok("c1_0")),
        (call("c1_1", wire_id="8hd0"), ok("c1_1")),
        (call("c1_2"), ok("c1_2")),
    )
    mine = step("", *pairs, model="gemini:any")
    for made_, answer in zip(sent(GO, mine)[1][1:], sent(GO, mine)[2][1:], strict=True):
        assert made_["functionCall"].get("id") == answer["functionResponse"].get("id")
    assert [p["functionCall"].get("id") for p in sent(GO, mine)[1][1:]] == ["8hd0", "c1_1", None]
    assert not check("gemini", body(GO, mine))
    other = step("", *pairs, model=CHAT)
    assert "id" not in sent(GO, other)[1][1]["functionCall"] and "id" not in sent(GO, other)[2][1]["functionResponse"]


def test_a_broken_call_goes_without_its_arguments() -> None:
    one = step("", (call("c1_0", raw="[1"), Result("c1_0", "error", (Text("ERROR: no object"),))))
    assert sent(GO, one)[1][1]["functionCall"]["args"] == {}


# -- thoughts and signatures -------------------------------------------------------------------------------------


def test_signatures_go_back_on_the_parts_they_came_with() -> None:
    last = own(GEMINI, text="", thoughtSignature="bGFzdA==")
    first = said(
        thinking(GEMINI, "hm"), own(GEMINI, **MARK), call("c1_0"), call("c1_1"), results=(ok("c1_0"), ok("c1_1"))
    )
    second = said(Text("a"), own(GEMINI, **MARK), Text(" "), own(GEMINI, **MARK), Text("b"), last)
    found = sent(GO, first, second)
    assert found[1] == [
        "model", {"text": "hm", "thought": True}, {"functionCall": {"name": "read_file", "args": {}}, **MARK},
        {"functionCall": {"name": "read_file", "args": {}}},
    ]  # fmt: skip
    assert found[3] == [
        "model", {"text": "a"}, {"text": " ", **MARK}, {"text": "b", **MARK},
        {"text": "", "thoughtSignature": "bGFzdA=="},
    ]  # fmt: skip


@pytest.mark.case("A06")
def test_what_another_model_thought_stays_with_it() -> None:
    """Also another of Google's; a mark without its part, and what stood beside the parts, goes nowhere."""
    blocks = (
        Reasoning("hm", "gemini:other"),
        own("gemini:other", **MARK),
        Text("a"),
        own("gemini:other", executableCode={}),
    )
    assert sent(GO, said(*blocks, model="gemini:other"))[1] == ["model", {"text": "a"}]
    mine = said(
        Text("a"), own(GEMINI, groundingMetadata={"thoughtSignature": 1}), own(GEMINI, new=1), own(GEMINI, **MARK)
    )
    assert sent(GO, mine)[1] == ["model", {"text": "a"}, {"new": 1}]
    moved = said(own(GEMINI, **MARK), own(GEMINI, executableCode={"code": "1"}), Text("a"))
    assert sent(GO, moved)[1] == ["model", {"executableCode": {"code": "1"}}, {"text": "a"}]
    assert sent(GO, said(own("messages:x", type="server_tool_use"), end="paused", model="messages:x"))[1] == [
        "model", {"text": words.NO_TEXT},
    ]  # fmt: skip


@pytest.mark.case("A06")
@pytest.mark.parametrize(
    ("model", "signed"),
    [
        ("gemini-3-pro-preview", True), ("gemini-3.5-flash", True), ("gemini-4-neon", True),
        ("gemini-pro-latest", True), ("models/gemini-3-flash", True), ("gemini-2.5-pro", False),
        ("gemini-2.0-flash-001", False), ("gemini-1.5-pro", False),
        ("gemini-pro", False), ("gemma-3-27b-it", False), ("scripted", False),
    ],
)  # fmt: skip
def test_calls_of_another_model_have_the_signature_that_stands_for_none(model: str, signed: bool) -> None:
    """Gemini 3 refuses a step whose first call has no signature; the documented one is taken, on that call alone."""
    two = (ok("c1_0"), ok("c1_1"))
    other = said(Text("a"), call("c1_0"), call("c1_1"), model=MESSAGES, results=two)
    near = said(own("gemini:o", **MARK), call("c1_0"), call("c1_1"), model="gemini:o", results=two)
    for reply in (other, near):
        found = body(GO, reply, model=model)
        calls = [p for p in found["contents"][1]["parts"] if "functionCall" in p]
        assert [p.get("thoughtSignature") for p in calls] == [UNSIGNED if signed else None, None]
        assert not check("gemini", found, model=model)


def test_its_own_signature_is_never_replaced() -> None:
    mine = said(own(THREE, **MARK), call("c1_0"), call("c1_1"), model=THREE, results=(ok("c1_0"), ok("c1_1")))
    found = sent(GO, mine, model="gemini-3-pro-preview")[1]
    assert [p.get("thoughtSignature") for p in found[1:]] == ["c2ln", None]


# -- what is refused ---------------------------------------------------------------------------------------------


@pytest.mark.seed("X15")
@pytest.mark.case("I05")
@pytest.mark.parametrize(
    ("culprit", "gone"),
    [
        ("thinkingLevel", "thinkingConfig"), ("thinking_level", "thinkingConfig"), ("Thinking level", "thinkingConfig"),
        ("Thinking", "thinkingConfig"), ("generation_config.thinking_config", "thinkingConfig"),
        ("includeThoughts", "thinkingConfig"), ("maxOutputTokens", "maxOutputTokens"), ("temperature", "temperature"),
    ],
)  # fmt: skip
def test_a_field_that_is_refused_by_name_is_left_out(culprit: str, gone: str) -> None:
    dialect = made(temperature=0.5, max_output_tokens=9, reasoning_effort="low")
    before = json.loads(dialect.body("s", history(GO), "free"))["generationConfig"]
    assert dialect.learn(culprit, "") and not dialect.learn(culprit, "")
    after = json.loads(dialect.body("s", history(GO), "free"))["generationConfig"]
    assert before.keys() - after.keys() == {gone}
    assert not dialect.learn("contents", "") and not dialect.learn("somethingElse", "")


@pytest.mark.case("I05")
def test_an_output_limit_outside_of_the_range_becomes_its_end() -> None:
    words_ = (
        "Unable to submit request because it has a maxOutputTokens value of 999999 but the supported range is from 1 "
        "(inclusive) to 65537 (exclusive). Update the value and try again."
    )
    failure = from_status(400, {}, json.dumps({"error": {"code": 400, "message": words_}}).encode(), GOOGLE)
    dialect = made(max_output_tokens=999_999)
    assert dialect.learn(failure.culprit, failure.detail)
    assert json.loads(dialect.body("s", history(GO), "free"))["generationConfig"] == {"maxOutputTokens": 65_536}


def test_a_model_that_demands_signatures_is_learned() -> None:
    """By whatever name it goes; every session at that server knows it from then on. Its own signatures stay."""
    learned: set[str] = set()
    entries = (GO, said(call("c1_0"), model=CHAT, results=(ok("c1_0"),)),
               said(own(GEMINI, **MARK), call("c2_0"), results=(ok("c2_0"),)))  # fmt: skip
    dialect = made(learned=learned)
    dialect.body("s", history(*entries), "free")
    assert dialect.learn(REASONING_ITEMS, "Function call is missing a thought_signature in functionCall parts.")
    for one in (dialect, made(learned=learned)):
        contents = json.loads(one.body("s", history(*entries), "free"))["contents"]
        assert [contents[k]["parts"][0]["thoughtSignature"] for k in (1, 3)] == [UNSIGNED, "c2ln"]


def test_signatures_that_cannot_be_read_are_left_out() -> None:
    """Another key or project behind the same name: once, for this session; calls, texts and other parts stay."""
    learned: set[str] = set()
    mine = said(Reasoning("hm", THREE), own(THREE, executableCode={"code": "1"}), own(THREE, **MARK), Text("a"),
                own(THREE, text="", thoughtSignature="eA=="), own(THREE, **MARK), call("c1_0"), model=THREE,
                results=(ok("c1_0"),))  # fmt: skip
    dialect = made(learned=learned, model="gemini-3-pro-preview")
    dialect.body("s", history(GO, mine), "free")
    assert dialect.learn(REASONING_ITEMS, "Corrupted thought signature.")
    raw = dialect.body("s", history(GO, mine), "free")
    assert json.loads(raw)["contents"][1]["parts"] == [
        {"executableCode": {"code": "1"}}, {"text": "a"},
        {"functionCall": {"name": "read_file", "args": {}}, "thoughtSignature": UNSIGNED},
    ]  # fmt: skip
    assert not learned and not dialect.learn(REASONING_ITEMS, "Corrupted thought signature.")


# -- at a server -------------------------------------------------------------------------------------------------

HI: list[Turn] = [{"text": "Hi"}] * 9


def asked(
    server: ModelServer, *entries: Entry, times: int = 1, query: str = "", **settings: Any
) -> list[Answered | Failure]:
    """The answers to so many requests of one session, each by a model that is made anew."""

    async def run() -> list[Answered | Failure]:
        transport = Transport({})
        where = endpoint(server.base_url("gemini") + query, dialect="gemini", auth="x-goog-api-key", **settings)
        found: list[Answered | Failure] = []
        for _ in range(times):
            model = http_model(where, tools=(TOOL,), transport=transport)
            found.append(await model.reply(request(history(*entries)), lambda _: None))
        await transport.aclose()
        return found

    return asyncio.run(run())


@pytest.mark.seed("X15", "J05")
@pytest.mark.parametrize(
    "settings", [{"stream": True}, {"stream": False}, {"stream": True, "query": "?alt=json"}], ids=str
)
def test_a_reply_is_the_same_streamed_whole_and_as_an_array(settings: dict[str, Any]) -> None:
    turn: Turn = {"thinking": "hm", "text": "I look.", "calls": [["read_file", {"path": "ü"}], ["read_file", {}]]}
    with ModelServer([turn], key="secret-key-123") as server:
        (answer,) = asked(server, GO, model="gemini-3-pro", **settings)
        (got,) = server.requests
    reply = answered(answer).reply
    assert [type(b).__name__ for b in reply.blocks] == ["Reasoning", "Text", "Opaque", "Call", "Call"]
    assert [(c.name, json.loads(c.args)) for c in reply.calls] == [("read_file", {"path": "ü"}), ("read_file", {})]
    assert len({c.wire_id for c in reply.calls}) == 2 and reply.text == "I look."
    assert answered(answer).usage.tokens > 1_000
    assert got.path.endswith("streamGenerateContent" if settings["stream"] else "generateContent")


@pytest.mark.case("A06", "I05")
def test_what_the_server_demands_is_learned_once() -> None:
    """A model by another name that demands signatures, and one that takes no level: one more request each, then never
    again."""
    foreign = (GO, said(call("c1_0"), model=CHAT, results=(ok("c1_0"),)))
    with ModelServer(HI, profiles=["signed"], follow="order") as server:
        assert [answered(a).reply.text for a in asked(server, *foreign, times=2)] == ["Hi"] * 2
        assert [UNSIGNED in r.raw.decode() for r in server.requests] == [False, True, True]
    with ModelServer(HI, profiles=["thinking-budget"], follow="order") as server:
        found = asked(server, GO, times=2, model="gemini-x", reasoning_effort="low")
        assert [answered(a).reply.text for a in found] == ["Hi"] * 2
        assert ["thinkingConfig" in r.raw.decode() for r in server.requests] == [True, False, False]


@pytest.mark.case("A06")
def test_signatures_of_another_project_are_left_out_in_one_more_request() -> None:
    mine = said(own(THREE, thoughtSignature="b3RoZXI="), call("c1_0"), model=THREE, results=(ok("c1_0"),))
    with ModelServer(HI, follow="order") as server:
        (answer,) = asked(server, GO, mine, model="gemini-3-pro-preview")
        assert answered(answer).reply.text == "Hi" and answered(answer).usage.requests == 2
        assert [v.rule.id for v in server.violations] == ["gemini-signatures"]
        assert UNSIGNED in server.requests[1].raw.decode()
