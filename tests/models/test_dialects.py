"""What holds for the requests of every dialect: golden bodies, legal requests, stable bytes, encoded once."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from noria.core.content import Opaque, Reasoning, Reply, Text
from noria.core.transcript import Entry, Step, Summary, elide
from noria.testing import Request, check
from tests.models import bodies
from tests.models.bodies import GEMINI, MESSAGES, PICTURE, RESPONSES, SYSTEM, dialect
from tests.models.kit import call, history, ok, prompt, step
from tests.models.test_chat import histories

DIALECTS = ("chat", "responses", "messages", "gemini")
each = pytest.mark.parametrize("name", DIALECTS)
HEADERS = {"anthropic-version": "2023-06-01"}
MARK = b',"cache_control":{"type":"ephemeral"}'
UNSIGNED = ("messages-signatures", "responses-encrypted", "gemini-signatures")
"""The rules that only a server can judge which signed the reasoning itself (see test_switching)."""


def refused(name: str, raw: bytes, ignore: tuple[str, ...] = UNSIGNED) -> list[tuple[str, str]]:
    """The rules of the real API that the body breaks."""
    found = check(name, json.loads(raw), headers=HEADERS, ignore=ignore)  # type: ignore[arg-type]
    return [(v.rule.id, v.problem.message) for v in found]


def listed(raw: bytes) -> list[Any]:
    """The messages, items or contents of a body."""
    decoded = json.loads(raw)
    return next(decoded[key] for key in ("messages", "input", "contents") if key in decoded)


# -- everything --------------------------------------------------------------------------------------------------


@each
@pytest.mark.seed("X05")
def test_everything_in_one_transcript(name: str) -> None:
    """The golden bodies; `python -m tests.models.bodies --write` writes them anew."""
    assert bodies.body(name) == (bodies.GOLDEN / f"{name}.json").read_text()


@each
@pytest.mark.seed("X05")
def test_everything_is_legal(name: str) -> None:
    """Against the table of what the real API refuses; blocks of the provider's own tools are not in the table."""
    entries = bodies.everything()
    raw = dialect(name).body(SYSTEM, history(*entries), "free")
    assert not refused(name, raw, UNSIGNED)
    plain = [strip(e) for e in entries]
    assert not refused(name, dialect(name).body(SYSTEM, history(*plain), "free"))


def strip(entry: Entry) -> Entry:
    """The entry without blocks of the providers' own tools."""
    if not isinstance(entry, Step):
        return entry
    blocks = tuple(b for b in entry.reply.blocks if not isinstance(b, Opaque))
    return Step(
        Reply(blocks, "stop" if entry.reply.end == "paused" else entry.reply.end, entry.reply.model), entry.results
    )


@each
@pytest.mark.case("A06")
def test_what_another_model_paused_is_not_gone_on_with_and_the_user_has_the_last_word(name: str) -> None:
    """A model that can be told to go on with its own words fails, and another dialect takes over."""
    for blocks in ((Text("Searching."),), (Opaque("{}", "elsewhere"),), (Text("a"), Opaque("{}", "elsewhere"))):
        for before in ((), (step("", (call("1"), ok("1"))),)):
            paused = Step(Reply(blocks, "paused", "elsewhere"))
            raw = dialect(name).body(SYSTEM, history(prompt("go"), *before, paused), "free")
            assert not refused(name, raw)
            assert listed(raw)[-1]["role"] == "user"


@each
def test_text_calls_and_results_are_the_same_in_every_dialect(name: str) -> None:
    """Case A06's other half: a change of model loses no word of the history."""
    text = bodies.body(name)
    for words in (
        "Goal: everything.", "uses pnpm", "and at these", "First.", "a/ü.txt", "café 🌍", "no such tool", "a chart",
        "Refused. Do not retry.", "/s/6.txt", "/s/1.txt", "Half a rep", "Searching.", "Found.", "stop that",
    ):  # fmt: skip
        assert words in text, words


# -- the provider's cache ----------------------------------------------------------------------------------------


def steady(raw: bytes) -> bytes:
    """A body without the cache marks, up to where its list of messages ends."""
    end = next((e for e in (b'],"model"', b'],"tool_choice":', b'],"toolConfig":') if e in raw), b"]}")
    head = raw[: raw.rindex(end)].replace(MARK, b"")
    return head.rstrip(b'"]}')


@each
def test_over_fifty_steps_each_request_begins_with_the_one_before(name: str) -> None:
    """System prompt, tools and every earlier entry keep their bytes, also under a limit that forbids calls."""
    made = dialect(name)
    entries: list[Entry] = [prompt("go", PICTURE)]
    previous = b""
    for k in range(50):
        raw = made.body(SYSTEM, history(*entries), "forbidden" if k % 7 == 6 else "free")
        assert raw.replace(MARK, b"").startswith(previous), k
        assert not refused(name, raw)
        previous = steady(raw)
        thought = (bodies.thinking(RESPONSES, "h" * (k + 1)),)
        pairs = [(call(f"c{k}_{j}"), ok(f"c{k}_{j}", f"result {k}")) for j in range(1 + k % 3)]
        reply = Reply((*thought, Text(f"Step {k}."), *(c for c, _ in pairs)), model=RESPONSES)
        entries.append(Step(reply, tuple(r for _, r in pairs)))
        if k % 10 == 9:
            entries.append(prompt(f"steered {k}"))
    assert len(previous) > 5_000


@each
def test_a_new_process_sends_the_same_bytes(name: str) -> None:
    """The body is a function of the transcript: what was sent before makes no difference."""
    entries = bodies.everything()
    grown = dialect(name)
    for k in range(1, len(entries) + 1):
        raw = grown.body(SYSTEM, history(*entries[:k]), "free")
        assert raw == dialect(name).body(SYSTEM, history(*entries[:k]), "free")


@each
def test_each_entry_is_encoded_once(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made = dialect(name)
    seen: list[int] = []
    encode = made._entry
    monkeypatch.setattr(made._history, "_encode", lambda e: seen.append(id(e)) or encode(e))
    transcript = history(prompt("go"))
    for k in range(150):
        made.body("s", transcript, "free")
        made.body("s", transcript, "forbidden")
        made.ask("s", transcript, "summarise")
        transcript = transcript.append(step(f"{k}", (call(f"c{k}_0"), ok(f"c{k}_0"))), transcript.origin(0))
    made.body("s", transcript, "free")
    assert len(seen) == len(set(seen)) == 151


@each
def test_a_replaced_history_is_noticed(name: str) -> None:
    """Compacted, elided, shortened, lengthened: always what a fresh dialect would send."""
    entries: list[Entry] = [
        prompt("go"),
        *(step(f"{k}", (call(f"c{k}_0"), ok(f"c{k}_0", f"r{k}"))) for k in range(100)),
    ]
    made = dialect(name)
    made.body("s", history(*entries), "free")
    views: list[list[Entry]] = [
        [Summary("so far"), *entries[60:]],
        [entries[0], *map(elide, entries[1:90]), *entries[90:]],
        entries[:50],
        entries,
        [entries[0]],
        [Summary("new"), entries[0], *entries[99:], prompt("next")],
    ]
    for view in views:
        raw = made.body("s", history(*view), "free")
        assert raw == dialect(name).body("s", history(*view), "free")
        assert not refused(name, raw)


@each
def test_asking_about_a_history_keeps_its_prefix(name: str) -> None:
    """The summary request: the same bytes up to the instruction, and cache marks; the same tools, calls forbidden."""
    made = dialect(name)
    two = step("", (call("c1_0"), ok("c1_0", "A")), (call("c1_1"), ok("c1_1", "B")))
    for entries in ([prompt("go"), two], [prompt("go")], [prompt("look", PICTURE)], [prompt("go"), step("Hi")]):
        transcript = history(*entries)
        raw, asked = made.body("s", transcript, "free"), made.ask("s", transcript, "Summarise.")
        kept = steady(raw)
        if isinstance(entries[-1], Step) and not entries[-1].results:
            kept = kept[: kept.rindex(b"Hi")]
        assert asked.replace(MARK, b"").startswith(kept)
        assert asked.count(MARK) == raw.count(MARK)
        last = listed(asked)[-1]
        assert last["role"] == "user" and "Summarise." in json.dumps(last)
        assert not refused(name, asked)
        assert Request(json.loads(asked), name).forbids_calls  # type: ignore[arg-type]
        assert json.loads(asked)["tools"] == json.loads(raw)["tools"]
        assert made.body("s", transcript, "free") == raw


# -- laws --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["responses", "messages", "gemini"])
@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_every_legal_history_is_a_legal_request(name: str, data: st.DataObject) -> None:
    """A law: whatever the transcript holds, and whatever was sent before, no rule of the real API is broken."""
    entries = data.draw(histories())
    before = data.draw(st.integers(0, 8))
    made = dialect(name)
    made.body("s", history(*entries[: before + 1]), "free")
    transcript = history(*entries)
    raw = made.body("s", transcript, "free")
    assert not refused(name, raw)
    assert raw == made.body("s", transcript, "free")
    assert not refused(name, made.ask("s", transcript, "sum"))
    if name != "responses":
        roles = [m["role"] for m in listed(raw)]
        assert all(a != b for a, b in pairwise(roles)) and roles[0] == roles[-1] == "user"
    if name == "messages":
        assert raw.count(MARK) <= 4


BLOCKS = st.lists(
    st.sampled_from(
        [
            Text("a"), Text(" "), bodies.thinking(MESSAGES, "signed"), bodies.thinking(RESPONSES, "encrypted"),
            bodies.own(MESSAGES, type="server_tool_use", id="s1", name="web_search", input={}),
            bodies.own(MESSAGES, type="web_search_tool_result", tool_use_id="s1", content=[]),
            bodies.own(MESSAGES, citations=[{"type": "web_search_result_location", "url": "u"}]),
            bodies.own(MESSAGES, container="container_1"),
            bodies.own(RESPONSES, phase="commentary"), Reasoning("only text", MESSAGES), Reasoning("thought", GEMINI),
            bodies.own(GEMINI, thoughtSignature="c2ln"), bodies.own(GEMINI, text="", thoughtSignature="c2ln"),
            bodies.own(GEMINI, executableCode={"code": "1"}), bodies.own(GEMINI, groundingMetadata={}),
        ]
    ),
    min_size=1, max_size=5,
)  # fmt: skip


@pytest.mark.parametrize(("name", "model"), [("responses", RESPONSES), ("messages", MESSAGES), ("gemini", GEMINI)])
@settings(max_examples=200, deadline=None)
@given(replies=st.lists(st.tuples(BLOCKS, st.booleans(), st.booleans()), min_size=1, max_size=5))
def test_every_order_of_blocks_is_a_legal_request(name: str, model: str, replies: list[Any]) -> None:
    """A law: thinking never ends a message, reasoning has its following item, a server's call has its answer."""
    entries: list[Entry] = [prompt("go")]
    for k, (blocks, called, foreign) in enumerate(replies):
        mine = (call(f"c{k}_0"),) if called else ()
        reply = Reply((*blocks, *mine), "stop" if called else "paused", bodies.CHAT if foreign else model)
        entries.append(Step(reply, tuple(ok(c.id) for c in mine)))
        if k % 2:
            entries.append(prompt("next"))
    raw = dialect(name).body("s", history(*entries), "free")
    assert not refused(name, raw, (*UNSIGNED, "responses-item-ids-unique"))
    if name == "messages":
        check_server_calls(listed(raw))


def check_server_calls(messages: list[dict[str, Any]]) -> None:
    """Thinking is never last; a call of the server's own tools is answered in its message, or is all that is open."""
    for place, message in enumerate(messages):
        if message["role"] != "assistant":
            continue
        kinds = [b["type"] for b in message["content"]]
        last = place == len(messages) - 1
        assert kinds[-1] != "thinking" or last
        if not last:
            assert kinds.count("server_tool_use") == 0 or "web_search_tool_result" in kinds
