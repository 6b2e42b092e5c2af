"""The chat dialect's requests: legal, byte-stable, each entry encoded once, nothing sent that was not asked for."""

from __future__ import annotations

import base64
import json
import re
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from noria.core.content import Image, Opaque, Reasoning, Reply, Result, Text, make_call
from noria.core.ports import ToolSpec
from noria.core.transcript import Note, Prompt, Step, Summary, Transcript, elide, withhold
from noria.models import words
from noria.models.catalog import Profile
from noria.models.chat import Chat
from tests.models.kit import TOOL, call, endpoint, history, messages, ok, prompt, step

PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\1\0\0\0\1" + b"x" * 4


class Store:
    """Attachments in memory."""

    def get(self, digest: str) -> bytes:
        return {"sha256:png": PNG}[digest]


PICTURE = Image("sha256:png", "image/png", len(PNG))


def chat(tools: tuple[ToolSpec, ...] = (TOOL,), **settings: Any) -> Chat:
    return Chat(endpoint(**settings), tools, Store())


def body(transcript: Transcript, system: str = "You are noria.", **settings: Any) -> dict[str, Any]:
    return msgspec.json.decode(chat(**settings).body(system, transcript, "free"))


def sent(*entries: Any, **settings: Any) -> list[dict[str, Any]]:
    """The messages after the system's."""
    return body(history(*entries), **settings)["messages"][1:]


def legal(found: list[dict[str, Any]]) -> None:
    """INV-H: every call answered once, straight after it, in order; ids unique; arguments objects; no blank text."""
    ids = [c["id"] for m in found for c in m.get("tool_calls", ())]
    assert len(ids) == len(set(ids))
    place, previous = 0, ""
    while place < len(found):
        message = found[place]
        place += 1
        assert message["role"] in ("system", "user", "assistant")
        assert message["role"] != previous
        previous = message["role"]
        content = message["content"]
        texts = [content] if isinstance(content, str) else [p.get("text", "x") for p in content or ()]
        assert all(t.strip() for t in texts) and (texts or message.get("tool_calls"))
        for one in message.get("tool_calls", ()):
            assert isinstance(json.loads(one["function"]["arguments"]), dict)
            assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", one["function"]["name"])
            answer = found[place]
            place += 1
            assert answer.keys() == {"role", "tool_call_id", "content"}
            assert answer["role"] == "tool" and answer["tool_call_id"] == one["id"]
            assert isinstance(answer["content"], str) and answer["content"].strip()
            previous = "tool"
        if message["role"] == "assistant":
            assert message.get("tool_calls") != []


TWO = step("", (call("c1_0", args='{"path":"a"}'), ok("c1_0", "A")), (call("c1_1"), ok("c1_1", "B")))


# -- the shape of messages ---------------------------------------------------------------------------------------


@pytest.mark.seed("B01", "B02", "B18", "B21", "W01", "W21")
def test_the_legal_sequence() -> None:
    """System, user, assistant with two calls, their results in call order, assistant; B18, B21: by construction."""
    found = body(history(prompt("go"), TWO, step("Done.")))["messages"]
    assert [m["role"] for m in found] == ["system", "user", "assistant", "tool", "tool", "assistant"]
    assert [m["tool_call_id"] for m in found if m["role"] == "tool"] == ["c1_0", "c1_1"]
    assert found[0] == {"role": "system", "content": "You are noria."}
    legal(found)


@pytest.mark.seed("B03", "B19", "W01")
def test_a_tool_message_has_three_fields() -> None:
    """B03, noria's form: role, id and content, nothing else."""
    assert sent(prompt("go"), TWO)[2] == {"role": "tool", "tool_call_id": "c1_0", "content": "A"}


@pytest.mark.seed("B04", "B22", "W07")
@pytest.mark.parametrize("text", ["", "  \n"])
def test_empty_content_is_null(text: str) -> None:
    found = sent(prompt("go"), Step(Reply((Text(text), call("c1_0"))), (ok("c1_0"),)))
    assert found[1]["content"] is None


@pytest.mark.seed("B05", "B07")
def test_a_call_as_it_is_written_back() -> None:
    one = msgspec.structs.replace(make_call("read_file", " "), id="c1_0")
    found = sent(prompt("go"), step("", (one, ok("c1_0"))))
    function = {"name": "read_file", "arguments": "{}"}
    assert found[1]["tool_calls"] == [{"id": "c1_0", "type": "function", "function": function}]


@pytest.mark.seed("B06", "B22")
def test_no_empty_list_of_calls() -> None:
    assert sent(prompt("go"), step("Hi"))[1] == {"role": "assistant", "content": "Hi"}


def test_a_broken_call_goes_back_empty() -> None:
    broken = msgspec.structs.replace(make_call("read_file", "[not an object"), id="c1_0")
    found = sent(prompt("go"), step("", (broken, Result("c1_0", "error", (Text("ERROR: bad"),)))))
    assert found[1]["tool_calls"][0]["function"]["arguments"] == "{}"


@pytest.mark.parametrize(("name", "wire"), [("a.b/c", "a_b_c"), ("", "unnamed"), ("日本", "__"), ("x" * 90, "x" * 64)])
def test_names_that_a_provider_refuses_are_written_so_that_it_does_not(name: str, wire: str) -> None:
    found = sent(prompt("go"), step("", (call("c1_0", name), ok("c1_0"))))
    assert found[1]["tool_calls"][0]["function"]["name"] == wire


@pytest.mark.seed("X07")
def test_adjacent_user_sides_are_one_message() -> None:
    """X07, noria's form: prompts, notes and the summary side by side are sent as one user message."""
    found = sent(
        Summary("S"), prompt("one"), prompt("two"), Note("go_on"), step("Hi"), prompt("three"), Note("reminder", 3)
    )
    assert [m["role"] for m in found] == ["user", "assistant", "user"]
    assert [p in found[0]["content"] for p in ("S", "one", "two", "Go on exactly")] == [True] * 4
    assert found[2]["content"].startswith("three\n\n<note>")
    legal(found)


def test_two_replies_in_a_row_have_a_user_between_them() -> None:
    paused = Step(Reply((Text("first"),), "paused"))
    found = sent(prompt("go"), paused, step("second"))
    assert [m["role"] for m in found] == ["user", "assistant", "user", "assistant"]
    assert found[2]["content"] == words.GO_ON
    legal(found)


def test_a_reply_of_nothing_but_opaque_blocks_has_a_placeholder() -> None:
    found = sent(prompt("go"), Step(Reply((Opaque("{}"),), "paused")), prompt("x"))
    assert found[1] == {"role": "assistant", "content": words.NO_TEXT}


def test_a_bridge_where_user_after_tool_is_refused() -> None:
    entries = (prompt("go"), TWO, prompt("more"))
    assert [m["role"] for m in sent(*entries)][-2:] == ["tool", "user"]
    assert [m["role"] for m in sent(*entries, profile=Profile(bridge=True))][-3:] == ["tool", "assistant", "user"]


def test_memory_stands_before_the_text_in_its_marks() -> None:
    assert sent(prompt("go", memory="- uses pnpm"))[0]["content"] == "<memory>\n- uses pnpm\n</memory>\n\ngo"


def test_no_system_message_where_there_is_no_system_prompt() -> None:
    assert body(history(prompt("go")), system="")["messages"] == [{"role": "user", "content": "go"}]


def test_an_empty_prompt_is_sent_as_such() -> None:
    legal(sent(Prompt(()), step("x"), prompt(" ")))


def test_non_ascii_stays_and_lone_surrogates_do_no_harm() -> None:
    raw = chat().body("s", history(prompt("Grüße 那🌍 \ud800 end")), "free")
    assert "Grüße 那🌍".encode() in raw
    assert messages(raw)[1]["content"] == "Grüße 那🌍 \ufffd end"


# -- results -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [c for c in words.CODES if c])
def test_each_code_is_said_and_says_what_to_do(code: Any) -> None:
    status = {"cut": "error", "internal": "error", "limit": "denied", "unanswered": "denied"}.get(code, "interrupted")
    text = sent(prompt("go"), step("", (call("c1_0"), Result("c1_0", status, code=code))))[2]["content"]  # type: ignore[arg-type]
    assert len(text) > 60 and text.startswith("ERROR: ") == (status == "error")


@pytest.mark.case("B05")
def test_a_cut_call_is_told_to_come_in_smaller_parts() -> None:
    text = words.result_text(Result("c", "error", code="cut"))
    assert text.startswith("ERROR: ") and "output limit" in text and "smaller parts" in text


def test_an_unknown_outcome_names_its_file() -> None:
    text = words.result_text(Result("c", "interrupted", code="outcome_unknown", spill="/s/out.txt"))
    assert "/s/out.txt" in text and "before you repeat" in text.replace("\n", " ")
    assert "/s/out.txt" not in words.result_text(Result("c", "interrupted", code="not_started", spill="/s/out.txt"))


def test_elided_results_are_one_line() -> None:
    full = step("", (call("c1_0"), ok("c1_0", "long " * 999, spill="/s/1.txt")), (call("c1_1"), ok("c1_1", "x")))
    found = sent(prompt("go"), elide(full))
    assert "/s/1.txt" in found[2]["content"] and "\n" not in found[2]["content"] and "long" not in found[2]["content"]
    assert "Make the call again" in found[3]["content"]


def test_an_elided_prompt_shows_its_head() -> None:
    text = sent(elide(prompt("head " * 30 + "x" * 9_000)))[0]["content"]
    assert text.startswith("head ") and len(text) < 600 and "left out" in text


@pytest.mark.parametrize(
    ("result", "text"),
    [
        (Result("c", "ok"), "(no output)"),
        (Result("c", "ok", (Text(" \n\x85"),)), "(no output)"),
        (Result("c", "error", (Text("\n"),)), "ERROR: (no output)"),
        (Result("c", "error", (Text("no such file"),)), "ERROR: no such file"),
        (Result("c", "error", (Text("ERROR: no such file"),)), "ERROR: no such file"),
        (Result("c", "denied", (Text("Refused. Do not retry."),)), "Refused. Do not retry."),
        (Result("c", "ok", (Text("a"), Text("b"))), "ab"),
    ],
)
def test_texts_of_results(result: Result, text: str) -> None:
    assert words.result_text(result) == text


@pytest.mark.parametrize("kind", ["reminder", "go_on", "conclude", "uncompacted", "mode", "upgraded"])
def test_each_note_is_marked_and_says_something(kind: Any) -> None:
    text = sent(prompt("go"), Note(kind, 3, "plan" if kind == "mode" else "max_steps"))[0]["content"]
    assert text.startswith("go\n\n<note>\n") and text.endswith("\n</note>") and len(text) > 60
    assert kind != "reminder" or "3 steps" in text
    assert kind != "conclude" or "limit on steps" in text
    assert kind != "mode" or "plan" in text


# -- images ------------------------------------------------------------------------------------------------------

URL = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{base64.b64encode(PNG).decode()}"}}


def test_an_image_in_a_prompt() -> None:
    assert sent(prompt("look", PICTURE))[0]["content"] == [{"type": "text", "text": "look"}, URL]


def test_text_beside_an_image_is_still_one_message() -> None:
    found = sent(prompt("one"), prompt("look", PICTURE), prompt("three"))
    assert [p.get("text", "img") for p in found[0]["content"]] == ["one", "look", "img", "three"]
    legal(found)


@pytest.mark.seed("X08")
def test_an_image_in_a_result_leaves_a_placeholder_and_follows() -> None:
    """The result and its id stay; the image follows in the user message after all results of the step."""
    shown = step("", (call("c1_0"), Result("c1_0", "ok", (Text("a chart"), PICTURE))), (call("c1_1"), ok("c1_1")))
    found = sent(prompt("go"), shown, prompt("and?"))
    assert [m["role"] for m in found] == ["user", "assistant", "tool", "tool", "user"]
    assert (
        found[2]["tool_call_id"] == "c1_0"
        and "a chart" in found[2]["content"]
        and "[image (image/png" in found[2]["content"]
    )
    assert found[4]["content"][1] == URL and found[4]["content"][2]["text"] == "and?"
    legal(found)


@pytest.mark.seed("X08")
@pytest.mark.parametrize("why", ["withheld", "no images", "gone", "elided"])
def test_an_image_that_is_not_sent_is_said(why: str) -> None:
    picture = Image("sha256:gone", "image/png") if why == "gone" else PICTURE
    profile = Profile(images=why != "no images")
    shown = step("", (call("c1_0"), Result("c1_0", "ok", (picture,))))
    entries = [prompt("look", picture), shown]
    entries = (
        [withhold(e) for e in entries]
        if why == "withheld"
        else [elide(e) for e in entries]
        if why == "elided"
        else entries
    )
    found = sent(*entries, profile=profile)
    text = json.dumps(found)
    assert "image_url" not in text and ("left out" in text or "withheld" in text)
    legal(found)


# -- reasoning ---------------------------------------------------------------------------------------------------


def test_reasoning_goes_back_only_by_profile_and_only_to_its_model() -> None:
    thought = Step(Reply((Reasoning("mine", "chat:test-model"), Reasoning("foreign", "other"), Text("Hi"))))
    assert "reasoning" not in json.dumps(sent(prompt("go"), thought))
    found = sent(prompt("go"), thought, profile=Profile(reasoning="reasoning_content"))
    assert found[1]["reasoning_content"] == "mine"


# -- ids ---------------------------------------------------------------------------------------------------------


@pytest.mark.case("A03")
def test_ids_on_the_wire_are_unique_and_agree() -> None:
    """The provider's where it can be used: repeated in a reply or in a later one, empty or odd, it is replaced."""
    first = step("", (call("c1_0", wire_id="grep:3"), ok("c1_0")), (call("c1_1", wire_id="grep:3"), ok("c1_1")))
    second = step("", (call("c2_0", wire_id="grep:3"), ok("c2_0")), (call("c2_1", wire_id=""), ok("c2_1")))
    third = step("", (call("c3_0", wire_id="has blank"), ok("c3_0")), (call("c3_1", wire_id="x" * 65), ok("c3_1")))
    fourth = step("", (call("c4_0", wire_id="c5_0"), ok("c4_0")))
    fifth = step("", (call("c5_0"), ok("c5_0")))
    found = sent(prompt("go"), first, second, third, fourth, fifth)
    ids = [c["id"] for m in found for c in m.get("tool_calls", ())]
    assert ids == ["grep:3", "c1_1", "c2_0", "c2_1", "c3_0", "c3_1", "c5_0", "c5_0_1"]
    legal(found)


# -- body fields -------------------------------------------------------------------------------------------------


@pytest.mark.seed("I01", "I02", "I03", "I04", "I05", "I23", "W12")
def test_nothing_is_sent_that_was_not_set() -> None:
    """I01, I02, noria's form: temperature and output limit only where they are set; a stream asks for usage."""
    go = history(prompt("go"))
    assert body(go, tools=()).keys() == {"messages", "model", "stream", "stream_options"}
    assert body(go)["stream_options"] == {"include_usage": True} and body(go)["tool_choice"] == "auto"
    assert body(go, tools=(), stream=False).keys() == {"messages", "model", "stream"}
    assert body(go).keys() == {"messages", "model", "stream", "stream_options", "tools", "tool_choice"}
    full = body(go, max_output_tokens=99, temperature=0.0, reasoning_effort="high")
    assert (full["max_tokens"], full["temperature"], full["reasoning_effort"]) == (99, 0.0, "high")
    assert (
        body(go, max_output_tokens=9, profile=Profile(output_parameter="max_completion_tokens"))[
            "max_completion_tokens"
        ]
        == 9
    )
    assert not full.keys() & {"top_p", "seed", "presence_penalty", "frequency_penalty"}


@pytest.mark.seed("W18", "W12")
def test_a_tool_is_never_forced() -> None:
    one, none = chat(), chat(tools=())
    go = history(prompt("go"))
    assert msgspec.json.decode(one.body("s", go, "free"))["tool_choice"] == "auto"
    assert msgspec.json.decode(one.body("s", go, "forbidden"))["tool_choice"] == "none"
    assert "tool_choice" not in msgspec.json.decode(none.body("s", go, "forbidden"))


def test_a_tool_as_it_is_offered() -> None:
    tool = body(history(prompt("go")))["tools"][0]
    assert tool == {
        "type": "function",
        "function": {"name": "read_file", "description": "Read a file.", "parameters": json.loads(TOOL.schema)},
    }


@pytest.mark.seed("I22")
def test_a_fallback_has_the_same_body_with_another_model() -> None:
    go = history(prompt("go"), TWO)
    first, second = chat(), chat(name="other", model="other-model")
    assert second.body("s", go, "free") == first.body("s", go, "free").replace(b'"test-model"', b'"other-model"')


# -- encode once, stable bytes -----------------------------------------------------------------------------------


def test_a_longer_history_begins_with_the_same_bytes() -> None:
    """The provider's cache: system, tools and all entries before keep their bytes from step to step."""
    dialect = chat()
    entries: list[Any] = [prompt("go")]
    previous = b""
    for k in range(200):
        raw = dialect.body("You are noria.", history(*entries), "forbidden" if k % 7 == 0 else "free")
        head = raw[: raw.index(b'],"model"')].rstrip(b'"}')
        assert raw.startswith(previous)
        legal(messages(raw)[1:])
        previous = head
        entries.append(step(f"Step {k}.", (call(f"c{k}_0"), ok(f"c{k}_0", f"result {k}"))))


def test_each_entry_is_encoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    dialect = chat()
    seen: list[int] = []
    encode = dialect._entry
    monkeypatch.setattr(dialect._history, "_encode", lambda e: seen.append(id(e)) or encode(e))
    transcript = history(prompt("go"))
    for k in range(300):
        dialect.body("s", transcript, "free")
        dialect.body("s", transcript, "forbidden")
        dialect.ask("s", transcript, "summarise")
        entry = step(f"{k}", (call(f"c{k}_0"), ok(f"c{k}_0")))
        transcript = transcript.append(entry, transcript.origin(0))
    dialect.body("s", transcript, "free")
    assert len(seen) == len(set(seen)) == 301


def test_a_replaced_history_is_noticed() -> None:
    """Compacted, elided, shortened, lengthened: always what a fresh dialect would send."""
    entries = [
        prompt("go"),
        *(step(f"{k}", (call(f"c{k}_0", wire_id="w"), ok(f"c{k}_0", f"r{k}"))) for k in range(100)),
    ]
    dialect = chat()
    dialect.body("s", history(*entries), "free")
    views = [
        [Summary("so far"), *entries[60:]],
        [entries[0], *map(elide, entries[1:90]), *entries[90:]],
        entries[:50],
        entries,
        [entries[0]],
        [Summary("new"), entries[0], *entries[99:], prompt("next")],
    ]
    for view in views:
        raw = dialect.body("s", history(*view), "free")
        fresh = chat().body("s", history(*view), "free")
        legal(messages(raw)[1:])
        assert re.sub(rb'"(id|tool_call_id)":"[^"]*"', b"", raw) == re.sub(rb'"(id|tool_call_id)":"[^"]*"', b"", fresh)


def test_asking_about_a_history_keeps_its_prefix() -> None:
    """The summary request: the same bytes up to the instruction, the same tools, calls forbidden."""
    dialect = chat()
    for entries in ([prompt("go"), TWO], [prompt("go")], [prompt("look", PICTURE)], [prompt("go"), step("Hi")]):
        transcript = history(*entries)
        raw, asked = dialect.body("s", transcript, "free"), dialect.ask("s", transcript, "Summarise.")
        kept = raw[: raw.index(b'],"model"')].rstrip(b'"}]')
        assert asked.startswith(kept)
        found = messages(asked)
        assert found[-1]["role"] == "user" and "Summarise." in json.dumps(found[-1]["content"])
        legal(found[1:])
        decoded = msgspec.json.decode(asked)
        assert decoded["tool_choice"] == "none" and decoded["tools"] == msgspec.json.decode(raw)["tools"]
        assert dialect.body("s", transcript, "free") == raw


texts = st.text(max_size=8)
WITHHELD = Image("sha256:png", "image/png", withheld=True)
pictures: st.SearchStrategy[tuple[Image, ...]] = st.sampled_from(
    [(), (PICTURE,), (Image("sha256:gone", "image/png"),), (WITHHELD, PICTURE)]
)


@st.composite
def histories(draw: st.DrawFn) -> list[Any]:
    """Any legal transcript."""
    entries: list[Any] = [draw(st.sampled_from([Summary("s"), prompt("go")]))]
    for k in range(draw(st.integers(0, 8))):
        match draw(st.integers(0, 3)):
            case 0:
                entries.append(prompt(draw(texts), *draw(pictures), memory=draw(st.sampled_from(["", "m"]))))
            case 1:
                entries.append(Note(draw(st.sampled_from(["go_on", "reminder", "conclude"])), 3))
            case 2:
                entries.append(
                    step(draw(texts.filter(str.strip)), end=draw(st.sampled_from(["stop", "cut", "paused"])))
                )
            case _:
                pairs = []
                for j in range(draw(st.integers(1, 3))):
                    number = f"c{k}_{j}"
                    content = (Text(draw(texts)), *draw(pictures))
                    result = Result(number, draw(st.sampled_from(["ok", "error", "denied"])), content)
                    pairs.append((call(number, draw(texts), wire_id=draw(st.sampled_from(["", "w", "v"]))), result))
                entries.append(step(draw(texts), *pairs))
        if draw(st.integers(0, 9)) == 0:
            entries[-1] = elide(entries[-1])
    return entries


@given(histories(), st.booleans(), st.integers(0, 8))
def test_every_legal_history_is_a_legal_request(entries: list[Any], bridge: bool, before: int) -> None:
    """A law: whatever the transcript holds, and whatever was sent before, the request is legal."""
    dialect = chat(profile=Profile(bridge=bridge))
    dialect.body("s", history(*entries[: before + 1]), "free")
    raw = dialect.body("s", history(*entries), "free")
    legal(messages(raw)[1:])
    assert raw == dialect.body("s", history(*entries), "free")
    legal(messages(dialect.ask("s", history(*entries), "sum"))[1:])
