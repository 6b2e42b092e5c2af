"""The requests of the messages dialect: what is its own. What holds for every dialect is in test_dialects."""

from __future__ import annotations

import json
from typing import Any

import pytest

from noria.core.content import Image, Opaque, Reasoning, Reply, Result, Text
from noria.core.ports import ToolSpec
from noria.core.transcript import Note, Step
from noria.models import words
from noria.models.catalog import Profile, output_limit
from noria.models.messages import MessagesDialect
from noria.models.servers import profile_of
from noria.testing import check
from tests.models.bodies import CHAT, MESSAGES, PICTURE, PNG, Store, dialect, own, thinking
from tests.models.kit import TOOL, call, endpoint, history, ok, prompt, step

HEADERS = {"anthropic-version": "2023-06-01"}
MARK = b',"cache_control":{"type":"ephemeral"}'


def made(tools: tuple[ToolSpec, ...] = (TOOL,), **settings: Any) -> MessagesDialect:
    return MessagesDialect(endpoint(**{"dialect": "messages", **settings}), tools, Store())


def body(*entries: Any, calls: Any = "free", system: str = "You are noria.", **settings: Any) -> dict[str, Any]:
    return json.loads(made(**settings).body(system, history(*entries), calls))


def sent(*entries: Any, **settings: Any) -> list[dict[str, Any]]:
    """The messages, without cache marks."""
    found = body(*entries, **settings)["messages"]
    for message in found:
        for block in message["content"]:
            block.pop("cache_control", None)
    return found


def thought(*blocks: Any, model: str = MESSAGES, end: Any = "stop", results: tuple[Result, ...] = ()) -> Step:
    return Step(Reply(blocks, end, model), results)


TWO = step("Look.", (call("c1_0", args='{"path":"a"}'), ok("c1_0", "A")), (call("c1_1"), ok("c1_1", "B")))
ERROR = Result("c1_0", "error", (Text("ERROR: no"), PICTURE))


# -- address and headers -----------------------------------------------------------------------------------------


@pytest.mark.seed("X05")
@pytest.mark.parametrize(
    ("base", "url"),
    [
        ("https://api.anthropic.com", "https://api.anthropic.com/v1/messages"),
        ("https://api.anthropic.com/", "https://api.anthropic.com/v1/messages"),
        ("https://api.anthropic.com/v1", "https://api.anthropic.com/v1/messages"),
        ("https://api.anthropic.com/v1/", "https://api.anthropic.com/v1/messages"),
        ("https://api.anthropic.com/v1/messages", "https://api.anthropic.com/v1/messages"),
        ("https://gate/anthropic", "https://gate/anthropic/v1/messages"),
        ("https://gate/anthropic?team=a", "https://gate/anthropic/v1/messages?team=a"),
        ("https://gate/v2", "https://gate/v2/messages"),
    ],
)
def test_the_address(base: str, url: str) -> None:
    """A version that is there is not added twice."""
    assert made(base_url=base).url() == url


def test_the_headers() -> None:
    assert made(auth="x-api-key").headers() == [("x-api-key", "secret-key-123"), ("anthropic-version", "2023-06-01")]
    assert ("authorization", "Bearer secret-key-123") in made(auth="bearer").headers()
    assert ("anthropic-version", "2024-01-01") in made(headers={"Anthropic-Version": "2024-01-01"}).headers()[:2]


# -- fields ------------------------------------------------------------------------------------------------------


@pytest.mark.seed("W12")
def test_nothing_is_sent_that_was_not_set() -> None:
    go = prompt("go")
    assert body(go, tools=(), system="").keys() == {"model", "max_tokens", "stream", "messages"}
    assert body(go).keys() == {"model", "max_tokens", "stream", "messages", "system", "tools"}
    assert body(go, stream=False)["stream"] is False
    assert body(go, temperature=0.0)["temperature"] == 0.0
    assert body(go, tools=(), calls="forbidden").keys().isdisjoint({"tool_choice", "tools"})


def test_calls_are_forbidden_and_the_tools_stay() -> None:
    free, forbidden = body(prompt("go")), body(prompt("go"), calls="forbidden")
    assert "tool_choice" not in free and forbidden["tool_choice"] == {"type": "none"}
    assert free["tools"] == forbidden["tools"]


@pytest.mark.parametrize(
    ("model", "limit"),
    [
        ("claude-sonnet-4-5", 64_000), ("claude-opus-4-5-20251101", 64_000), ("claude-opus-4-20250514", 32_000),
        ("claude-opus-4-1", 32_000), ("claude-3-5-haiku-latest", 8_192), ("claude-3-opus-20240229", 4_096),
        ("claude-3-7-sonnet-latest", 64_000), ("anthropic/claude-3-opus", 4_096),
        ("us.anthropic.claude-sonnet-4-5-v1:0", 64_000), ("some-other-model", 8_192),
    ],
)  # fmt: skip
def test_the_limit_that_the_dialect_demands(model: str, limit: int) -> None:
    """The catalogue's, for an unknown model 8,192; what is configured wins."""
    assert output_limit(model) == limit
    assert body(prompt("go"), model=model)["max_tokens"] == limit
    assert body(prompt("go"), model=model, max_output_tokens=99)["max_tokens"] == 99


# -- messages ----------------------------------------------------------------------------------------------------


@pytest.mark.seed("X07")
def test_results_come_first_and_join_what_is_said_next() -> None:
    found = sent(prompt("go"), TWO, prompt("one"), prompt("two"), step("Hi"))
    assert [m["role"] for m in found] == ["user", "assistant", "user", "assistant", "user"]
    assert [b["type"] for b in found[2]["content"]] == ["tool_result", "tool_result", "text", "text"]
    assert found[2]["content"][0] == {"type": "tool_result", "tool_use_id": "c1_0", "content": "A"}
    assert found[1]["content"][1]["input"] == {"path": "a"}
    assert found[-1]["content"] == [{"type": "text", "text": words.GO_ON}], "the user has the last word"


@pytest.mark.parametrize("status", ["error", "denied", "interrupted"])
def test_results_that_are_no_success_are_marked(status: Any) -> None:
    (block,) = sent(prompt("go"), step("", (call("c1_0"), Result("c1_0", status, (Text("why"),)))))[2]["content"]
    assert block["is_error"] is True
    (block,) = sent(prompt("go"), step("", (call("c1_0"), ok("c1_0"))))[2]["content"]
    assert "is_error" not in block


@pytest.mark.seed("X08")
@pytest.mark.case("A04")
def test_images_stand_in_the_result_but_beside_an_error_after_it() -> None:
    """X08: the result and its id stay in any case; an error may hold text alone, so its images follow all results."""
    pairs = ((call("c1_0"), ERROR), (call("c1_1"), Result("c1_1", "ok", (Text("B"), PICTURE))))
    blocks = sent(prompt("go"), step("", *pairs))[2]["content"]
    assert [b["type"] for b in blocks] == ["tool_result", "tool_result", "text", "image"]
    assert "shown below" in blocks[0]["content"] and blocks[0]["tool_use_id"] == "c1_0"
    assert [b["type"] for b in blocks[1]["content"]] == ["text", "image"]
    only = Step(Reply((call("c1_0"),)), (Result("c1_0", "ok", (PICTURE,)),))
    assert [b["type"] for b in sent(prompt("go"), only)[2]["content"][0]["content"]] == ["image"]


@pytest.mark.seed("X08")
@pytest.mark.parametrize(
    ("image", "profile", "says"),
    [
        (Image("sha256:png", "image/bmp"), Profile(), "gif, jpeg, png and webp"),
        (Image("sha256:gone", "image/png"), Profile(), "bytes are gone"),
        (Image("sha256:png", "image/png", withheld=True), Profile(), "could not process it"),
        (PICTURE, Profile(images=False), "takes no images"),
    ],
)
def test_an_image_that_is_not_sent_is_said(image: Image, profile: Profile, says: str) -> None:
    one = step("", (call("c1_0"), Result("c1_0", "ok", (image,))))
    found = sent(prompt("look", image), one, profile=profile)
    assert '"image"' not in json.dumps(found)
    assert says in json.dumps(found[0]) and says in found[2]["content"][0]["content"]


def test_ids_that_the_api_refuses_are_noria_s() -> None:
    one = step(
        "", (call("c1_0", wire_id="functions.grep:3"), ok("c1_0")), (call("c1_1", wire_id="toolu_A-1"), ok("c1_1"))
    )
    assert [b["id"] for b in sent(prompt("go"), one)[1]["content"]] == ["c1_0", "toolu_A-1"]


# -- thinking ----------------------------------------------------------------------------------------------------


def test_thinking_goes_back_to_its_own_model_unedited_and_in_place() -> None:
    mine, other = thinking(MESSAGES, "mine"), Reasoning("x", "messages:other", '{"type":"thinking"}')
    one = thought(mine, Text("a"), thinking(MESSAGES, "more"), call("c1_0"), results=(ok("c1_0"),))
    kinds = [b["type"] for b in sent(prompt("go"), one)[1]["content"]]
    assert kinds == ["thinking", "text", "thinking", "tool_use"]
    assert sent(prompt("go"), one)[1]["content"][0] == json.loads(mine.data)
    assert [b["type"] for b in sent(prompt("go"), thought(other, Text("a")))[1]["content"]] == ["text"]
    assert [b["type"] for b in sent(prompt("go"), one, model="other")[1]["content"]] == ["text", "tool_use"]


def test_thinking_at_the_end_is_left_out() -> None:
    found = sent(prompt("go"), thought(Text("a"), thinking(MESSAGES, "after")), prompt("x"))
    assert [b["type"] for b in found[1]["content"]] == ["text"]


def test_how_a_model_is_told_to_think() -> None:
    go = prompt("go")
    assert "thinking" not in body(go)
    adaptive = body(go, reasoning_effort="high", temperature=0.2)
    assert (adaptive["thinking"], adaptive["output_config"]) == ({"type": "adaptive"}, {"effort": "high"})
    assert "temperature" not in adaptive
    budget = body(go, reasoning_effort="medium", max_output_tokens=30_000, profile=Profile(thinking="budget"))
    assert budget["thinking"] == {"type": "enabled", "budget_tokens": 8_192} and "output_config" not in budget
    small = {"max_output_tokens": 4_000, "profile": Profile(thinking="budget")}
    assert body(go, reasoning_effort="high", **small)["thinking"]["budget_tokens"] == 2_000
    assert "thinking" not in body(
        go, reasoning_effort="high", max_output_tokens=1_500, profile=Profile(thinking="budget")
    )


def test_thinking_is_off_until_an_open_chain_of_calls_without_it_has_ended() -> None:
    """Machine rule 17: after a switch in a call step the API would refuse it."""
    mine = thought(thinking(MESSAGES, "a"), call("c1_0"), results=(ok("c1_0"),))
    foreign = thought(Text("b"), call("c2_0"), model=CHAT, results=(ok("c2_0"),))
    again = thought(Text("c"), call("c3_0"), results=(ok("c3_0"),))
    for profile in (Profile(), Profile(thinking="budget")):
        settings: dict[str, Any] = {"reasoning_effort": "high", "profile": profile}

        def thinks(*entries: Any, settings: dict[str, Any] = settings) -> bool:
            found = body(prompt("go"), *entries, **settings)
            assert not check("messages", found, headers=HEADERS, ignore=("messages-signatures",))
            return "thinking" in found

        assert thinks() and thinks(mine)
        assert not thinks(mine, foreign) and not thinks(foreign, again) and not thinks(foreign, prompt("steered"))
        for between in (prompt("first"), Note("mode", word="plan")):
            assert not thinks(foreign, between, prompt("steered")), "results stand in the last message as before"
        assert thinks(foreign, thought(Text("done"), model=CHAT), prompt("next"))
        assert thinks(again) == (profile.thinking == "adaptive"), "the model chose not to think: adaptive allows it"


# -- the provider's own tools, and paused replies ----------------------------------------------------------------

SEARCH = own(MESSAGES, type="server_tool_use", id="s1", name="web_search", input={})
FOUND = own(MESSAGES, type="web_search_tool_result", tool_use_id="s1", content=[])


def kinds(*entries: Any, **settings: Any) -> list[list[str]]:
    return [[b["type"] for b in m["content"]] for m in sent(*entries, **settings)]


def test_a_paused_reply_is_gone_on_with() -> None:
    paused = thought(Text("a"), SEARCH, end="paused")
    assert kinds(prompt("go"), paused) == [["text"], ["text", "server_tool_use"]]
    rest = thought(FOUND, Text("b"))
    assert kinds(prompt("go"), paused, rest, prompt("x")) == [
        ["text"], ["text", "server_tool_use", "web_search_tool_result", "text"], ["text"],
    ]  # fmt: skip


def test_a_paused_reply_that_is_answered_by_a_person_loses_its_open_search() -> None:
    paused = thought(Text("a"), SEARCH, end="paused")
    assert kinds(prompt("go"), paused, prompt("stop")) == [["text"], ["text"], ["text"]]
    assert kinds(prompt("go"), thought(SEARCH, end="paused"), prompt("stop"))[1] == ["text"]
    assert kinds(prompt("go"), thought(Text("a"), SEARCH, end="cut"), prompt("stop")) == [["text"], ["text"], ["text"]]


def test_another_model_does_not_go_on_with_it() -> None:
    paused = thought(Text("a"), SEARCH, end="paused")
    assert kinds(prompt("go"), paused, model="other") == [["text"], ["text"], ["text"]]
    assert sent(prompt("go"), paused, model="other")[-1]["content"][0]["text"] == words.GO_ON
    rest = thought(Text("b"), model=CHAT)
    assert kinds(prompt("go"), paused, rest, prompt("x")) == [["text"], ["text"], ["text"], ["text"], ["text"]]


# -- cache marks -------------------------------------------------------------------------------------------------


def marks(found: dict[str, Any]) -> list[str]:
    """Where the marks stand."""
    places = [f"tools {k}" for k, tool in enumerate(found.get("tools", ())) if "cache_control" in tool]
    places += ["system" for block in found.get("system", ()) if "cache_control" in block]
    for k, message in enumerate(found["messages"]):
        places += [f"{k}.{j}" for j, block in enumerate(message["content"]) if "cache_control" in block]
    return places


def test_the_marks_are_four_and_two_of_them_move() -> None:
    """After the tools, after the system prompt, at the ends of the last two user messages: the earlier of them is the
    end of the request before, so that the cache is found again whatever came in between."""
    other = ToolSpec("b", "B.", '{"type":"object"}')
    entries: list[Any] = [prompt("go")]
    assert marks(body(*entries, tools=(TOOL, other))) == ["tools 1", "system", "0.0"]
    entries.append(TWO)
    assert marks(body(*entries)) == ["tools 0", "system", "0.0", "2.1"]
    entries += [prompt("steer", PICTURE), step("", (call("c2_0"), ok("c2_0")))]
    assert marks(body(*entries)) == ["tools 0", "system", "2.3", "4.0"]
    assert marks(body(*entries, tools=(), system="")) == ["2.3", "4.0"]


def test_only_the_marks_of_earlier_messages_change() -> None:
    """The bytes of an entry stay the same; a mark is put between them when a request is joined."""
    dialect = made()
    again = step("", (call("c2_0"), ok("c2_0")))
    first = dialect.body("s", history(prompt("go")), "free")
    second = dialect.body("s", history(prompt("go"), TWO), "free")
    third = dialect.body("s", history(prompt("go"), TWO, again), "free")
    assert second.startswith(first.removesuffix(b"]}]}")), "the mark that ended the first is the earlier one now"
    assert b'"text":"go","cache_control"' in second and b'"text":"go"}' in third
    assert third.replace(MARK, b"").startswith(second.replace(MARK, b"").removesuffix(b"]}]}"))


def test_an_image_of_any_size_is_sent_as_it_is() -> None:
    import base64

    (_, image) = sent(prompt("look", PICTURE))[0]["content"]
    assert base64.b64decode(image["source"]["data"]) == PNG


HELD = Opaque('{"container":"container_1"}', MESSAGES)


def test_the_provider_s_code_goes_on_in_its_container() -> None:
    """The one that was named last, by this model; never a block of the message."""
    said = step("done")
    ran = Step(Reply((Text("ran"), HELD), "stop", MESSAGES))
    found = body(prompt("x"), ran, prompt("y"), said, prompt("z"))
    assert found["container"] == "container_1" and "container_1" not in str(found["messages"])
    later = Step(Reply((Text("ran"), Opaque('{"container":"container_2"}', MESSAGES)), "stop", MESSAGES))
    assert body(prompt("x"), ran, prompt("y"), later, prompt("z"))["container"] == "container_2"
    other = Step(
        Reply((Text("ran"), Opaque('{"container":"container_3"}', "messages:other")), "stop", "messages:other")
    )
    assert "container" not in body(prompt("x"), other, prompt("y"))
    assert "container" not in body(prompt("x"), said, prompt("y"))


def test_a_container_that_is_gone_is_not_named_again_in_this_session() -> None:
    known: set[str] = set()
    spoken = MessagesDialect(endpoint(dialect="messages"), (TOOL,), None, known)
    history_ = history(prompt("x"), Step(Reply((Text("ran"), HELD), "stop", MESSAGES)), prompt("y"))
    assert "container" in json.loads(spoken.body("", history_, "free"))
    assert spoken.learn("container", "container: container_1 has expired")
    assert "container" not in json.loads(spoken.body("", history_, "free")) and not known


def test_what_is_cited_stays_away_where_it_is_refused() -> None:
    spoken = made()
    cited = (Opaque('{"citations":[{"url":"u","file_id":null}]}', MESSAGES), Text("Hi"))
    history_ = history(prompt("x"), Step(Reply(cited, "stop", MESSAGES)), prompt("y"))
    blocks = json.loads(spoken.body("", history_, "free"))["messages"][1]["content"]
    assert blocks == [{"type": "text", "text": "Hi", "citations": [{"url": "u", "file_id": None}]}]
    where = "messages.1.content.0.citations.0.file_id"
    assert spoken.learn(where, f"{where}: Extra inputs are not permitted")
    blocks = json.loads(spoken.body("", history_, "free"))["messages"][1]["content"]
    assert blocks == [{"type": "text", "text": "Hi"}]


@pytest.mark.parametrize("name", ["chat", "responses", "messages", "gemini"])
def test_the_server_s_own_tools_stand_with_noria_s(name: str) -> None:
    """One list, noria's after them, so that the provider's cache is marked after all."""
    search = {"type": "web_search_20250305", "name": "web_search"}
    spoken = dialect(name, profile=Profile(extra={"tools": [search]}))
    text = spoken.body("You are noria.", history(prompt("x")), "free")
    assert text.count(b'"tools":') == 1
    first, *rest = json.loads(text)["tools"]
    assert search in (first, *rest) and len(rest) == 1
    if name != "gemini":
        assert first == search
    assert name != "messages" or rest[0]["cache_control"] == {"type": "ephemeral"}


# -- images that it does not take --------------------------------------------------------------------------------


class Large:
    """A store with a wide image, and any bytes for what is large."""

    def get(self, digest: str) -> bytes:
        return PNG[:16] + (8_001).to_bytes(4) + PNG[20:] if digest == "sha256:wide" else PNG


@pytest.mark.seed("X08")
@pytest.mark.case("A04")
def test_an_image_that_the_api_would_refuse_is_told_instead() -> None:
    """X08: the result and its id stay. One that fits goes along beside those that do not."""
    large = Image("sha256:large", "image/png", (5 << 20) * 3 // 4 + 1)
    pictures = (large, Image("sha256:wide", "image/png", 24), Image("sha256:small", "image/png", len(PNG)))
    look = step("", (call("c1_0"), Result("c1_0", "ok", pictures)))
    told = MessagesDialect(endpoint(dialect="messages"), (TOOL,), Large()).body("", history(prompt("x"), look), "free")
    result = json.loads(told)["messages"][2]["content"][0]
    assert [part["type"] for part in result["content"]] == ["text", "image"]
    assert (
        "left out: this model takes no more than 3,932,160 bytes: make a smaller copy" in result["content"][0]["text"]
    )
    assert "no more than 8000 pixels on a side" in result["content"][0]["text"]


# -- thinking that nobody signs ----------------------------------------------------------------------------------

OPEN = Profile(reasoning="reasoning_content")
"""A server that wants all thinking back, and signs none (DeepSeek)."""


@pytest.mark.case("A06")
def test_thinking_that_is_not_signed_goes_back_where_the_server_wants_it() -> None:
    """To its own model, in its place, and a space in what another model said; to a server that checks signatures,
    none."""
    mine = thought(Reasoning("plan", MESSAGES), Text("Look."), call("c1_0"), results=(ok("c1_0"),))
    other = thought(Reasoning("theirs", CHAT), call("c2_0"), model=CHAT, results=(ok("c2_0"),))
    found = sent(prompt("go"), mine, other, prompt("x"), profile=OPEN)
    plan, blank = ({"type": "thinking", "thinking": said, "signature": ""} for said in ("plan", words.NO_THOUGHT))
    assert found[1]["content"][0] == plan and [b["type"] for b in found[1]["content"]][1:] == ["text", "tool_use"]
    assert found[3]["content"][0] == blank and [b["type"] for b in found[3]["content"]][1:] == ["tool_use"]
    for profile in (Profile(), profile_of("messages", "https://api.anthropic.com", "claude-opus-5")):
        assert "thinking" not in json.dumps(sent(prompt("go"), mine, other, prompt("x"), profile=profile))


def test_signed_thinking_goes_back_as_it_came_there_too() -> None:
    one = thought(thinking(MESSAGES, "plan"), Reasoning("more", MESSAGES), Text("Hi"))
    found = sent(prompt("go"), one, prompt("x"), profile=OPEN)[1]["content"]
    assert [(b["type"], b.get("signature")) for b in found] == [("thinking", "c2ln4"), ("thinking", ""), ("text", None)]


def test_thinking_stays_on_there_though_another_model_made_calls() -> None:
    """It is not refused: a space stands for what was not thought."""
    other = thought(call("c1_0"), model=CHAT, results=(ok("c1_0"),))
    assert "thinking" in body(prompt("go"), other, reasoning_effort="low", profile=OPEN)
    assert "thinking" not in body(prompt("go"), other, reasoning_effort="low")


@pytest.mark.parametrize("url", ["https://api.deepseek.com/anthropic", "https://api.kimi.com/coding"])
def test_servers_that_want_it(url: str) -> None:
    assert profile_of("messages", url, "any").reasoning
