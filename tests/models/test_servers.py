"""What is known of servers: the table, the bodies that come of it, addresses and headers."""

from __future__ import annotations

import json
from typing import Any, get_args, get_type_hints

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from noria.core.content import Image, Reasoning, Reply, Result, Text
from noria.core.transcript import Entry, Step, Summary
from noria.models.encode import IDS
from noria.models.messages import MessagesDialect
from noria.models.places import azure, vertex
from noria.models.profiles import Changes, IdStyle, Profile, changed
from noria.models.schemas import STYLES
from noria.models.servers import ALL, TABLE, profile_of
from noria.testing import check
from tests.models import bodies
from tests.models.bodies import CHAT, MESSAGES, PAPER, RESPONSES, SERVERS, SYSTEM, dialect, own, served
from tests.models.kit import call, endpoint, history, ok, prompt, step
from tests.models.test_dialects import MARK, UNSIGNED, steady, strip

each = pytest.mark.parametrize("name", SERVERS)
CHATS = [name for name, row in SERVERS.items() if row[0] == "chat"]


def refused(name: str, raw: bytes, ignore: tuple[str, ...] = UNSIGNED) -> list[str]:
    """The rules of the real API that a body breaks."""
    kind, _, _, profiles = SERVERS[name]
    body = json.loads(raw)
    if body.pop("anthropic_version", ""):
        body["model"] = "m"  # Vertex has it in the address
    headers = {"anthropic-version": "2023-06-01"}
    found = check(kind, body, headers=headers, profiles=profiles, ignore=ignore)  # type: ignore[arg-type]
    return [f"{v.rule.id}: {v.problem.message}" for v in found]


# -- the table ---------------------------------------------------------------------------------------------------


def test_every_row_has_its_source_and_its_fields() -> None:
    for row in TABLE:
        assert row.source and row.dialects and set(row.dialects) <= {*ALL, "gemini"}
        msgspec.convert(row.changes, Profile)
        assert row.changes or "plainest form" in row.source


def test_the_styles_are_those_of_the_profile() -> None:
    assert set(STYLES) == set(get_args(get_type_hints(Profile)["schema"]))
    assert set(IDS) == set(get_args(IdStyle))


@pytest.mark.parametrize(
    ("kind", "url", "model", "said"),
    [
        ("chat", "https://unknown.example/v1", "m", {}),
        ("chat", "http://localhost:1/v1", "m", {}),
        ("chat", "no address", "m", {}),
        ("chat", "https://notapi.openai.com.evil.example/v1", "gpt-5", {}),
        ("chat", "https://api.openai.com/v1", "gpt-4.1", {"output_parameter": "max_completion_tokens", "omit": []}),
        ("chat", "https://API.OpenAI.com/v1", "o4-mini", {"omit": ["temperature"]}),
        ("chat", "https://api.openai.com/v1", "gpt-5-chat-latest", {"omit": []}),
        ("responses", "https://api.openai.com/v1", "gpt-5-mini-2025-08-07", {"omit": ["temperature"], "cache": "key"}),
        ("chat", "https://me.openai.azure.com/", "gpt-5", {"auth": "api-key", "address": "azure"}),
        ("chat", "https://openrouter.ai/api/v1", "anthropic/claude-opus-5", {"cache": "marks", "effort": "reasoning"}),
        ("chat", "https://openrouter.ai/api/v1", "openai/gpt-5", {"cache": ""}),
        ("chat", "https://router.example/v1", "moonshotai/Kimi-K2-Instruct", {"ids": "kimi", "reasoning": ""}),
        ("chat", "http://127.0.0.1:11434/v1", "m", {"schema": "grammar"}),
        ("chat", "https://some.example:11434/v1", "m", {"schema": "plain"}),
        ("chat", "https://api.x.ai/v1", "grok-4-fast", {"omit": ["reasoning_effort", "reasoning"]}),
        ("chat", "https://api.x.ai/v1", "grok-4.3", {"omit": []}),
        ("messages", "https://api.anthropic.com", "claude-3-7-sonnet-20250219", {"thinking": "budget"}),
        ("messages", "https://gate.example", "anthropic/claude-sonnet-4-20250514", {"thinking": "budget"}),
        ("messages", "https://gate.example", "eu.anthropic.claude-haiku-4-5", {"thinking": "budget"}),
        ("messages", "https://api.anthropic.com", "claude-sonnet-4-6", {"thinking": "adaptive"}),
        ("messages", "https://us-east5-aiplatform.googleapis.com/v1/x", "claude-opus-4@20250514",
         {"address": "vertex", "auth": "bearer", "thinking": "budget"}),
        ("messages", "https://aiplatform.googleapis.com/v1/x", "claude-6", {"address": "vertex"}),
        ("chat", "https://aiplatform.googleapis.com/v1/x", "m", {"address": "usual"}),
    ],
)  # fmt: skip
def test_which_rows_count(kind: str, url: str, model: str, said: dict[str, Any]) -> None:
    found = profile_of(kind, url, model)
    assert {key: getattr(found, key) for key in said} == said
    assert said or found == Profile()


def test_the_configuration_s_word_goes_over_what_is_known() -> None:
    """Field by field, also back to the plain form."""
    known = profile_of("chat", "https://api.mistral.ai/v1", "m")
    assert known.bridge and known.ids == "nine"
    found = changed(known, Changes(bridge=False, images=False))
    assert (found.bridge, found.images, found.ids) == (False, False, "nine")
    assert changed(known, Changes()) is known
    assert set(Changes.__struct_fields__) == set(Profile.__struct_fields__)


# -- bodies ------------------------------------------------------------------------------------------------------


@each
@pytest.mark.seed("X05", "X19")
def test_everything_in_one_transcript(name: str) -> None:
    """The golden bodies; `python -m tests.models.bodies --write` writes them anew."""
    assert bodies.body(name) == (bodies.GOLDEN / f"{name}.json").read_text()


@each
@pytest.mark.seed("X05")
def test_everything_is_legal(name: str) -> None:
    entries = bodies.everything()
    assert not refused(name, served(name).body(SYSTEM, history(*entries), "free"), UNSIGNED)
    plain = [strip(e) for e in entries]
    for calls in ("free", "forbidden"):
        raw = served(name, reasoning_effort="high").body(SYSTEM, history(*plain), calls)  # type: ignore[arg-type]
        assert not refused(name, raw)


@each
@pytest.mark.case("F04")
def test_over_fifty_steps_each_request_begins_with_the_one_before(name: str) -> None:
    """Whatever the profile: system prompt, tools and every earlier entry keep their bytes, marks aside; and what is
    asked about the history begins so too."""
    made = served(name)
    entries: list[Entry] = [prompt("go", PAPER)]
    previous = b""
    for k in range(50):
        transcript = history(*entries)
        raw = made.body(SYSTEM, transcript, "forbidden" if k % 7 == 6 else "free")
        assert raw.replace(MARK, b"").startswith(previous), k
        assert raw.count(MARK) <= 4
        if k % 10 == 0:
            assert not refused(name, raw)
            assert raw == served(name).body(SYSTEM, transcript, "forbidden" if k % 7 == 6 else "free")
            assert made.ask(SYSTEM, transcript, "sum").replace(MARK, b"").startswith(previous)
        previous = steady(raw)
        thought = (Reasoning(f"thought {k}", CHAT), own(CHAT, message={"reasoning_details": [{"text": str(k)}]}))
        pairs = [(call(f"c{k}_{j}", "mcp.files/read"), ok(f"c{k}_{j}", f"result {k}")) for j in range(1 + k % 3)]
        reply = Reply((*thought, Text(f"Step {k}."), *(c for c, _ in pairs)), model=CHAT)
        entries.append(Step(reply, tuple(r for _, r in pairs)))
        if k % 10 == 9:
            entries.append(prompt(f"steered {k}"))
    assert len(previous) > 5_000


@pytest.mark.seed("X19")
@pytest.mark.parametrize("name", ["chat-openrouter", "messages-anthropic"])
def test_each_step_reads_what_the_step_before_wrote(name: str) -> None:
    """Where a request has its last mark, the next one has one too: the cache is found there, however much came in
    between (it is looked for 20 blocks back)."""
    made = served(name)
    entries: list[Entry] = [prompt("go")]
    before = b""
    for k in range(12):
        raw = made.body(SYSTEM, history(*entries), "free")
        marks = [raw[:at].replace(MARK, b"") for at in range(len(raw)) if raw.startswith(MARK, at)]
        assert not before or before in marks, k
        before = marks[-1]
        pairs = [(call(f"c{k}_{j}"), ok(f"c{k}_{j}")) for j in range(1 + 24 * (k % 2))]
        entries.append(step("x", *pairs))
        if k % 4 == 3:
            entries.append(prompt("steered"))


@pytest.mark.case("A06")
@pytest.mark.parametrize("name", CHATS)
def test_reasoning_goes_back_to_its_own_model_alone(name: str) -> None:
    """In the server's own field, and nothing of another model's."""
    mine = Step(Reply((Reasoning("my plan", CHAT), Text("Hi"), call("c1_0")), model=CHAT), (ok("c1_0"),))
    thought = Reasoning("its plan", MESSAGES, '{"type":"thinking"}')
    other = Step(Reply((thought, Text("Ho"), call("c2_0")), model=MESSAGES), (ok("c2_0"),))
    text = served(name).body("s", history(prompt("go"), mine, prompt("and"), other), "free").decode()
    assert "its plan" not in text and "Ho" in text
    wanted = name in ("chat-mistral", "chat-deepseek", "chat-kimi", "chat-glm")
    assert ("my plan" in text) is wanted
    if name == "chat-mistral":
        said = json.loads(text)["messages"][2]["content"]
        assert said == [
            {"type": "thinking", "thinking": [{"type": "text", "text": "my plan"}]},
            {"type": "text", "text": "Hi"},
        ]


@pytest.mark.seed("X08")
@pytest.mark.parametrize("name", ["chat", "responses", "messages"])
@pytest.mark.parametrize("documents", [True, False])
def test_a_document(name: str, documents: bool) -> None:
    """In a prompt and in a result: as one where it is taken, else a text that says so; the result and its id stay."""
    read = step("", (call("c1_0"), Result("c1_0", "ok", (Text("paper"), PAPER))))
    raw = dialect(name, profile=Profile(documents=documents)).body("s", history(prompt("see", PAPER), read), "free")
    text = raw.decode()
    assert text.count("JVBERi0xLjcgLi4u") == (2 if documents else 0)
    assert text.count("this model takes no documents") == (0 if documents else 2)
    kinds = {"chat": '"type":"file"', "responses": '"type":"input_file"', "messages": '"type":"document"'}
    assert text.count(kinds[name]) == (2 if documents else 0)
    assert not check(name, json.loads(raw), headers={"anthropic-version": "2023-06-01"}, ignore=UNSIGNED)  # type: ignore[arg-type]
    gone = Image("sha256:gone", "application/pdf", 3)
    told = dialect(name, profile=Profile(documents=documents)).body("s", history(prompt("see", gone)), "free").decode()
    assert "[document (application/pdf, 3 bytes) left out" in told


def test_images_in_tool_messages_where_they_are_taken() -> None:
    shown = step("", (call("c1_0"), Result("c1_0", "ok", (Text("chart"), bodies.PICTURE))))
    raw = dialect("chat", profile=Profile(result_images=True)).body("s", history(prompt("go"), shown), "free")
    said = json.loads(raw)["messages"]
    assert [m["role"] for m in said] == ["system", "user", "assistant", "tool"]
    assert [p["type"] for p in said[-1]["content"]] == ["image_url", "text"]


@pytest.mark.parametrize(
    ("profile", "field", "value"),
    [
        (Profile(), "reasoning_effort", "low"), (Profile(effort="reasoning"), "reasoning", {"effort": "low"}),
        (Profile(effort="thinking"), "thinking", {"type": "enabled"}),
        (Profile(effort="enable_thinking"), "enable_thinking", True),
        (Profile(extra={"top_k": 5}), "top_k", 5), (Profile(cache="key"), "prompt_cache_key", "session-1"),
        (Profile(system="developer"), "messages",
         [{"role": "developer", "content": "s"}, {"role": "user", "content": "go"}]),
    ],
)  # fmt: skip
def test_fields_of_a_profile(profile: Profile, field: str, value: object) -> None:
    where = endpoint(profile=profile, reasoning_effort="low")
    made = bodies.KINDS["chat"](where, (), None, None, "session-1")  # type: ignore[call-arg]
    assert json.loads(made.body("s", history(prompt("go")), "free"))[field] == value


@pytest.mark.seed("I05", "I14", "I18", "I23")
def test_an_unknown_server_gets_the_plainest_form() -> None:
    """noria's form: nothing that is not demanded or configured; every known server's own fields are in the table."""
    least = {
        "chat": {"messages", "model", "stream", "stream_options"},
        "responses": {"model", "stream", "store", "include", "input", "instructions"},
        "messages": {"model", "max_tokens", "stream", "system", "messages"},
    }
    for name, fields in least.items():
        body = json.loads(dialect(name, ()).body("s", history(prompt("go")), "free"))
        assert set(body) == fields


# -- addresses and headers ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("base", "path", "version", "url"),
    [
        ("https://me.openai.azure.com", "/chat/completions", "", "https://me.openai.azure.com/openai/v1/chat/completions"),
        ("https://me.openai.azure.com/openai/v1/", "/responses", "", "https://me.openai.azure.com/openai/v1/responses"),
        ("https://me.openai.azure.com/openai/v1/responses", "/responses", "", "https://me.openai.azure.com/openai/v1/responses"),
        ("https://me.openai.azure.com", "/chat/completions", "2024-10-21",
         "https://me.openai.azure.com/openai/deployments/my%20gpt/chat/completions?api-version=2024-10-21"),
        ("https://me.openai.azure.com/openai/deployments/other?api-version=2024-06-01", "/chat/completions", "",
         "https://me.openai.azure.com/openai/deployments/other/chat/completions?api-version=2024-06-01"),
        ("https://me.openai.azure.com", "/responses", "2025-04-01-preview",
         "https://me.openai.azure.com/openai/responses?api-version=2025-04-01-preview"),
        ("https://me.openai.azure.com/openai/v1", "/chat/completions", "preview",
         "https://me.openai.azure.com/openai/v1/chat/completions"),
    ],
)  # fmt: skip
def test_azure(base: str, path: str, version: str, url: str) -> None:
    assert azure(base, path, "my gpt", version) == url


def test_azure_s_key_and_address_come_of_the_table() -> None:
    made = served("chat-azure", auth="api-key")
    assert made.url() == "https://me.openai.azure.com/openai/v1/chat/completions"
    assert ("api-key", "secret-key-123") in made.headers()


@pytest.mark.parametrize(
    ("base", "streamed", "url"),
    [
        ("https://eu-aiplatform.googleapis.com/v1/projects/p/locations/eu", True,
         "https://eu-aiplatform.googleapis.com/v1/projects/p/locations/eu/publishers/anthropic/models/claude-6@1:streamRawPredict"),
        ("https://h/v1/projects/p/locations/eu/publishers/anthropic/models/", False,
         "https://h/v1/projects/p/locations/eu/publishers/anthropic/models/claude-6@1:rawPredict"),
        ("https://h/v1/x/models/m:streamRawPredict", True, "https://h/v1/x/models/m:streamRawPredict"),
    ],
)  # fmt: skip
def test_vertex(base: str, streamed: bool, url: str) -> None:
    assert vertex(base, "claude-6@1", streamed=streamed) == url


def test_vertex_s_body_and_headers() -> None:
    """The model is in the address, the API's version in the body."""
    made = served("messages-vertex", auth="bearer")
    body = json.loads(made.body("s", history(prompt("go")), "free"))
    assert "model" not in body and body["anthropic_version"] == "vertex-2023-10-16" and body["stream"] is True
    assert made.headers() == [("authorization", "Bearer secret-key-123")]
    assert made.url().endswith("/publishers/anthropic/models/test-model:streamRawPredict")
    by_hand = MessagesDialect(
        endpoint("https://proxy.example/projects/p/locations/l", dialect="messages", profile=Profile(address="vertex"))
    )
    body = json.loads(by_hand.body("s", history(prompt("go")), "free"))
    assert body["anthropic_version"] == "vertex-2023-10-16"  # also where the configuration says no version


def test_bedrock_s_messages_endpoint() -> None:
    """The one that streams as Anthropic does; its key goes along as a bearer's."""
    made = served("messages-bedrock", auth="bearer")
    assert made.url() == "https://bedrock-mantle.eu-west-1.api.aws/anthropic/v1/messages"
    assert ("authorization", "Bearer secret-key-123") in made.headers()
    assert ("anthropic-version", "2023-06-01") in made.headers()


def test_betas_are_joined_to_those_of_the_configuration() -> None:
    made = dialect("messages", profile=Profile(betas=["b", "c"]), headers={"Anthropic-Beta": "a, b"})
    assert dict(made.headers())["anthropic-beta"] == "a,b,c"


def test_ids_fit_the_server() -> None:
    """Its own that fit stay; others are made of noria's, alike in every process."""
    entries = [
        prompt("go"),
        step("", (call("c1_0", wire_id="abc123XYZ"), ok("c1_0")), (call("c1_1", wire_id="call_1"), ok("c1_1"))),
    ]
    for _ in range(2):
        raw = served("chat-mistral").body("s", history(*entries), "free")
        ids = [c["id"] for c in json.loads(raw)["messages"][2]["tool_calls"]]
        assert ids[0] == "abc123XYZ" and len(ids[1]) == 9 and ids[1].isalnum()
    entries = [prompt("go"), step("", (call("c7_2", wire_id="call_1"), ok("c7_2")),
                                  (call("c7_3", wire_id="functions.read_file:12"), ok("c7_3")))]  # fmt: skip
    raw = served("chat-kimi").body("s", history(*entries), "free")
    ids = [c["id"] for c in json.loads(raw)["messages"][2]["tool_calls"]]
    assert ids == ["functions.read_file:7002", "functions.read_file:12"]


@pytest.mark.seed("Z27")
def test_messages_think_and_no_tool_is_picked() -> None:
    """Anthropic's reasoning is asked for; "required" is never made of a first tool."""
    for name in SERVERS:
        body = served(name, reasoning_effort="high").body("s", history(prompt("go")), "free")
        choice = json.loads(body).get("tool_choice", "auto")
        assert choice == "auto"
    assert b'"thinking":{"type":"adaptive"}' in served("messages-anthropic", reasoning_effort="high").body(
        "s", history(prompt("go")), "free"
    )
    assert RESPONSES and b'"budget_tokens"' in served("messages-older", reasoning_effort="high").body(
        "s", history(prompt("go")), "free"
    )


EVERYTHING = [entry for entry in bodies.everything() if not isinstance(entry, Summary)]
VOICES = (CHAT, MESSAGES, RESPONSES, bodies.GEMINI, "elsewhere")


@each
@pytest.mark.seed("X05")
@settings(max_examples=25, deadline=None)
@given(order=st.permutations(EVERYTHING), voices=st.lists(st.sampled_from(VOICES), min_size=30, max_size=30))
def test_everything_in_any_order_by_any_model_is_legal(name: str, order: list[Entry], voices: list[str]) -> None:
    """A law: switched at any place, steered and noted at any place, while the model is told to think."""
    made = served(name, reasoning_effort="low")
    said = [
        msgspec.structs.replace(one, reply=msgspec.structs.replace(one.reply, model=voice))
        if isinstance(one, Step)
        else one
        for one, voice in zip(order, voices, strict=False)
    ]
    for last in range(1, len(said) + 1):
        if isinstance(said[last - 1], Step) and not said[last - 1].results:  # type: ignore[union-attr]
            continue  # nothing is asked then
        raw = made.body("s", history(prompt("go"), *said[:last]), "free")
        assert not refused(name, raw), last
        assert raw.count(MARK) <= 4
