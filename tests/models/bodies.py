"""One transcript that has everything in it, and the golden request bodies that each dialect makes of it.

python -m tests.models.bodies --write    write the bodies anew; look at what changed before it is kept
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import msgspec

from noria.core.content import Call, Image, Opaque, Reasoning, Reply, Result, Text, make_call
from noria.core.ports import ToolSpec
from noria.core.transcript import Entry, Note, Prompt, Step, Summary, elide, withhold
from noria.models.chat import Chat
from noria.models.gemini import Gemini
from noria.models.messages import MessagesDialect
from noria.models.responses import Responses
from noria.models.servers import profile_of
from tests.models.kit import TOOL, call, endpoint, history, ok, prompt, step

GOLDEN = Path(__file__).parent / "golden"
PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\1\0\0\0\1" + b"x" * 4
PICTURE = Image("sha256:png", "image/png", len(PNG))
GONE = Image("sha256:gone", "image/png", 7)
ODD = Image("sha256:png", "image/tiff", 9)
PAPER = Image("sha256:pdf", "application/pdf", 12)
CHAT, RESPONSES, MESSAGES = "chat:test-model", "responses:test-model", "messages:test-model"
GEMINI = "gemini:test-model"
SYSTEM = "You are noria.\nRules first: be brief."
KINDS = {"chat": Chat, "responses": Responses, "messages": MessagesDialect, "gemini": Gemini}


class Store:
    """Attachments in memory."""

    def get(self, digest: str) -> bytes:
        return {"sha256:png": PNG, "sha256:pdf": b"%PDF-1.7 ..."}[digest]


def dialect(
    name: str, tools: tuple[Any, ...] = (TOOL,), **settings: Any
) -> Chat | Responses | MessagesDialect | Gemini:
    """The dialect of that name, for `test-model`."""
    return KINDS[name](endpoint(dialect=name, **settings), tools, Store())


def thinking(model: str, text: str) -> Reasoning:
    """Reasoning as that model's dialect keeps it."""
    data = {
        CHAT: "",
        RESPONSES: f'{{"type":"reasoning","id":"rs_{len(text)}","summary":[],"encrypted_content":"gAAA{len(text)}"}}',
        MESSAGES: f'{{"type":"thinking","thinking":"{text}","signature":"c2ln{len(text)}"}}',
        GEMINI: f'{{"text":"{text}","thought":true}}',
    }
    return Reasoning(text, model, data[model])


def own(model: str, **data: Any) -> Opaque:
    """A block of that model's provider."""
    return Opaque(msgspec.json.encode(data).decode(), model)


def numbered(calls: list[Call], turn: int) -> tuple[Call, ...]:
    return tuple(msgspec.structs.replace(c, id=f"c{turn}_{k}") for k, c in enumerate(calls))


DETAILS = {"reasoning_details": [{"type": "reasoning.text", "text": "all four at once", "signature": "c2ln"}]}
SIGNATURE = {"extra_content": {"google": {"thought_signature": "c2ln"}}}
"""What chat servers say beside a message and a call (models.kept)."""


def everything() -> list[Entry]:
    """Every kind of entry, block, result, flag and neighbour."""
    odd = numbered(
        [make_call("read_file", '{"path": "a/ü.txt"}', wire_id="toolu_1"), make_call("a.b/c", "", wire_id="grep:3"),
         make_call("read_file", "[no object", wire_id="toolu_1"), make_call("read_file", '{"path": "long', cut=True)],
        4,
    )  # fmt: skip
    said = (
        Result("c4_0", "ok", (Text("café 🌍 \ud800"),)), Result("c4_1", "error", (Text("no such tool"),)),
        Result("c4_2", "error", (Text("ERROR: bad JSON"),)), Result("c4_3", "error", code="cut"),
    )  # fmt: skip
    pictures = numbered([make_call("view", "{}"), make_call("view", "{}"), make_call("view", "{}")], 5)
    shown = (
        Result("c5_0", "ok", (Text("a chart"), PICTURE)), Result("c5_1", "error", (PICTURE,)),
        Result("c5_2", "ok", (GONE, ODD)),
    )  # fmt: skip
    closed = numbered([make_call("run_command", '{"command": "x"}')] * 4, 6)
    codes = (
        Result("c6_0", "interrupted", code="not_started"), Result("c6_1", "denied", (Text("Refused. Do not retry."),)),
        Result("c6_2", "interrupted", code="outcome_unknown", spill="/s/6.txt"), Result("c6_3", "ok"),
    )  # fmt: skip
    search = own(MESSAGES, type="server_tool_use", id="srvtoolu_1", name="web_search", input={"query": "x"})
    found = own(MESSAGES, type="web_search_tool_result", tool_use_id="srvtoolu_1", content=[])
    run = own(GEMINI, executableCode={"language": "PYTHON", "code": "print(1)"})
    ran = own(GEMINI, codeExecutionResult={"outcome": "OUTCOME_OK", "output": "1"})
    signed, last = own(GEMINI, thoughtSignature="c2ln"), own(GEMINI, text="", thoughtSignature="bGFzdA==")
    two = numbered([make_call("read_file", '{"path": "b"}', wire_id="8hd0"), make_call("read_file", "{}")], 7)
    return [
        Summary("Goal: everything."),
        elide(prompt("An old and long request. " * 60)),
        elide(step("", (call("c1_0", wire_id="toolu_0"), ok("c1_0", "long " * 500, spill="/s/1.txt")))),
        prompt("Look at this", PICTURE, memory="- uses pnpm"),
        Prompt((Text("and at these"), GONE, ODD, Text(" ")), source="task"),
        withhold(prompt("and at that", PICTURE)),
        prompt("and read this", PAPER),
        Note("mode", word="plan"),
        Step(Reply((thinking(CHAT, "chat thinks"), thinking(MESSAGES, "it must be signed"),
                    thinking(RESPONSES, "it is encrypted"), own(RESPONSES, phase="commentary"), Text("First."), *odd),
                   model=MESSAGES), said),
        Note("reminder", 3),
        Step(Reply((thinking(RESPONSES, "pictures"), *pictures), model=RESPONSES), shown),
        prompt("stop that"),
        Step(Reply((thinking(CHAT, "all four at once"), Text("Working."), own(CHAT, message=DETAILS), closed[0],
                    own(CHAT, call=SIGNATURE), *closed[1:]), model=CHAT), codes),
        Step(Reply((Text("Half a rep"),), "cut", CHAT)),
        Note("go_on"),
        Step(Reply((Text("Searching."), search), "paused", MESSAGES)),
        Step(Reply((found, Text("Found.")), model=MESSAGES)),
        prompt(" "),
        Step(Reply((own(RESPONSES, type="web_search_call", id="ws_1"), Text("Done."), thinking(RESPONSES, "after")),
                   model=RESPONSES)),
        prompt("Compute."),
        Step(Reply((thinking(GEMINI, "it shows"), run, ran, signed, Text("One."), own(GEMINI, groundingMetadata={}),
                    signed, *two), model=GEMINI), (ok("c7_0", "b's text"), ok("c7_1", "no path"))),
        Step(Reply((Text("Computed."), last), model=GEMINI)),
        prompt("go"),
        Note("conclude", word="max_steps"),
    ]  # fmt: skip


SERVERS: dict[str, tuple[str, str, str, tuple[str, ...]]] = {
    # golden body: dialect, base URL, the model whose profile it is, the validator's profiles
    "chat-openai": ("chat", "https://api.openai.com/v1", "gpt-5", ("newer",)),
    "chat-azure": ("chat", "https://me.openai.azure.com", "gpt-4.1", ()),
    "chat-mistral": (
        "chat",
        "https://api.mistral.ai/v1",
        "magistral-medium-latest",
        ("mistral", "mistral-ids", "older"),
    ),
    "chat-deepseek": ("chat", "https://api.deepseek.com", "deepseek-chat", ("deepseek", "older")),
    "chat-kimi": ("chat", "https://api.moonshot.ai/v1", "kimi-k2.6", ("deepseek",)),
    "chat-glm": (
        "chat",
        "https://api.z.ai/api/paas/v4",
        "glm-5",
        ("older", "no-stream_options", "no-reasoning_effort"),
    ),
    "chat-minimax": ("chat", "https://api.minimax.io/v1", "MiniMax-M2", ()),
    "chat-qwen": (
        "chat",
        "https://dashscope-intl.aliyuncs.com/compatible-mode/v1",
        "qwen3-max",
        ("no-reasoning_effort",),
    ),
    "chat-openrouter": ("chat", "https://openrouter.ai/api/v1", "anthropic/claude-sonnet-4.5", ()),
    "chat-gemini": ("chat", "https://generativelanguage.googleapis.com/v1beta/openai", "gemini-3-pro", ()),
    "chat-xai": ("chat", "https://api.x.ai/v1", "grok-4", ("no-reasoning_effort",)),
    "chat-fireworks": ("chat", "https://api.fireworks.ai/inference/v1", "m", ("older",)),
    "chat-databricks": ("chat", "https://me.cloud.databricks.com/serving-endpoints", "m", ("older",)),
    "chat-local": ("chat", "http://localhost:11434/v1", "qwen3:8b", ("older",)),
    "responses-openai": ("responses", "https://api.openai.com/v1", "gpt-5", ()),
    "responses-xai": ("responses", "https://api.x.ai/v1", "grok-4.3", ()),
    "messages-anthropic": ("messages", "https://api.anthropic.com", "claude-opus-5", ("no-prefill",)),
    "messages-older": ("messages", "https://api.anthropic.com", "claude-haiku-4-5", ()),
    "messages-vertex": (
        "messages",
        "https://eu-aiplatform.googleapis.com/v1/projects/p/locations/eu",
        "claude-opus-5",
        (),
    ),
    "messages-bedrock": (
        "messages",
        "https://bedrock-mantle.eu-west-1.api.aws/anthropic",
        "claude-opus-5",
        ("bedrock",),
    ),
}
"""Servers whose profile shows in a body."""
HARD = ToolSpec(
    "mcp.files/read", "Reads.",
    '{"$schema":"http://json-schema.org/draft-07/schema#","anyOf":[{"required":["path"]},{"required":["uri"]}],'
    '"type":"object","properties":{"path":{"$ref":"#/definitions/path"},"uri":{"type":["string","null"],"format":"uri"},'
    '"mode":{"const":"r"},"range":{"type":"array","items":[{"type":"integer"},{"type":"integer"}],'
    '"additionalItems":false},"any":{"description":"anything"}},"additionalProperties":false,'
    '"definitions":{"path":{"type":"string","pattern":"^\\\\S+$","minLength":1}}}',
)  # fmt: skip
"""A tool as some servers of tools declare theirs."""


def served(name: str, **settings: Any) -> Chat | Responses | MessagesDialect:
    """The dialect of `test-model` at a server of SERVERS, with its profile."""
    kind, url, model, _ = SERVERS[name]
    where = endpoint(url, dialect=kind, profile=profile_of(kind, url, model), **settings)
    made = {"chat": Chat, "responses": Responses, "messages": MessagesDialect}[kind]
    return made(where, (TOOL, HARD), Store(), None, "session-1")


def body(name: str) -> str:
    """What that dialect makes of everything, laid out for a reader; the order of keys is that of the body."""
    settings: dict[str, Any] = {"max_output_tokens": 4_096, "temperature": 0.5}
    made = served(name, reasoning_effort="low", **settings) if name in SERVERS else dialect(name, **settings)
    raw = made.body(SYSTEM, history(*everything()), "forbidden")
    return msgspec.json.format(raw, indent=1).decode() + "\n"


if __name__ == "__main__" and "--write" in sys.argv:
    GOLDEN.mkdir(exist_ok=True)
    for each in (*KINDS, *SERVERS):
        (GOLDEN / f"{each}.json").write_text(body(each))
