"""The gemini dialect: generateContent, as Google's Gemini API, Vertex AI and gateways before them speak it.

Owns: its request bytes. Must not know: connections, other dialects. The borders of contents are a matter of neighbours;
an entry's own bytes never change. The reasons are decision 0012.
"""

from __future__ import annotations

import re
from typing import Any, ClassVar, NamedTuple
from urllib.parse import quote

import msgspec

from noria.core.content import Block, Call, Image, Opaque, Reasoning, Reply, Result, Text
from noria.core.effects import Calls
from noria.core.ports import Emit, ToolSpec
from noria.core.transcript import Prompt, Step
from noria.models import words
from noria.models.dialect import Decoder
from noria.models.encode import quoted
from noria.models.gemini_reader import KEPT, GeminiReader
from noria.models.names import Names, wire_name
from noria.models.pictures import PDF
from noria.models.retry import REASONING_ITEMS
from noria.models.spoken import OWN_BLOCKS, Spoken

TYPES = frozenset(("image/png", "image/jpeg", "image/webp", "image/heic", "image/heif", PDF))
"""What is sent as inline data: the API's images (Image understanding; no gif), and documents."""
LEVELS = {"none": "MINIMAL", "xhigh": "HIGH", "max": "HIGH"}
"""How much Gemini 3 thinks, by effort; every other effort is the level of that name (MINIMAL, LOW, MEDIUM, HIGH)."""
BUDGETS = {"none": 0, "minimal": 1_024, "low": 1_024, "medium": 8_192, "high": 24_576, "xhigh": 24_576, "max": 24_576}
"""Tokens to think with, by effort, for models before it: as Google maps them (OpenAI compatibility)."""
USUAL_BUDGET = 8_192
UNSIGNED = "skip_thought_signature_validator"
"""What stands for a thought signature where there is none, for models that demand one (Thought signatures)."""
SIGNED = "thought_signature"  # learned: this model demands them, whatever its name says

OURS = frozenset(("tools", "toolConfig", "generationConfig"))
"""The fields that a body has anyway: what a profile adds to them is joined with it."""

_OLDER = re.compile(r"gemini-[12](\.\d+)?\b|gemini-(pro|flash)(-vision)?$")
_VERSION = re.compile(r"/v\d+[a-z]*\d*$|/(publishers|locations)/[^/]+$")
_BELOW = re.compile(r"to (\d+) \(exclusive\)")
_USER, _MODEL = b'{"role":"user","parts":[', b'{"role":"model","parts":['


class Kept(NamedTuple):
    """One entry's bytes, as parts. `reply` is the model's; `said` stands on the user's side, responses first."""

    reply: bytes = b""
    said: bytes = b""


class Contents:
    """The contents of a request. What is adjacent on one side becomes one content; adding costs what is added."""

    def __init__(self) -> None:
        self.written = bytearray()
        self._role = ""

    def add(self, kept: Kept) -> None:
        """One more entry."""
        if kept.reply:
            if self._role == "model":
                self._say(_text(words.GO_ON))
            self.written += (b"]}," if self._role else b"") + _MODEL + kept.reply
            self._role = "model"
        if kept.said:
            self._say(kept.said)

    def _say(self, parts: bytes) -> None:
        self.written += self._start + parts
        self._role = "user"

    @property
    def _start(self) -> bytes:
        """What stands before parts on the user's side."""
        return b"," if self._role == "user" else (b"]}," if self._role else b"") + _USER

    def tail(self, instruction: str) -> bytes:
        """What closes the list, with one more thing said on the user's side; the list itself stays open. The user has
        the last word."""
        said = instruction or (words.GO_ON if self._role == "model" else "")
        return (self._start + _text(said) if said else b"") + (b"]}" if said or self._role else b"")


class Gemini(Spoken[Kept, Contents]):
    """The gemini dialect (`models.dialect.Dialect`) for one model of one session."""

    optional: ClassVar[frozenset[str]] = frozenset(
        ("temperature", "max_output_tokens", "thinking_config", "tool_config", REASONING_ITEMS, OWN_BLOCKS)
    )
    types: ClassVar[frozenset[str] | None] = TYPES

    def _begin(self) -> None:
        self._called = Names((tool.name for tool in self._tools), function_name)
        self._system: tuple[str, bytes] | None = None
        self._more = {name: value for name, value in self._profile.extra.items() if name not in self._without}

    # -- where it goes -------------------------------------------------------------------------------------------

    def _path(self) -> str:
        """`/v1beta/models/NAME:METHOD`, below a base URL whose own version is not repeated; nor is what else of the
        path it has."""
        base = self._endpoint.base_url.partition("?")[0].strip().rstrip("/")
        model = quote(self._endpoint.model, safe="/@:")
        named = f"/{model}" if model.startswith(("models/", "tunedModels/", "endpoints/")) else f"/models/{model}"
        method = ":streamGenerateContent" if self.streamed else ":generateContent"
        if base.endswith(named):
            return method
        if base.endswith("/models"):
            return named.removeprefix("/models") + method
        return ("" if _VERSION.search(base) else "/v1beta") + named + method

    def url(self) -> str:
        """Where requests go. A stream of events has to be asked for: without `alt` it is one JSON array."""
        url = super().url()
        if not self.streamed or re.search(r"[?&]alt=", url):
            return url
        return url + ("&" if "?" in url else "?") + "alt=sse"

    def decoder(self, effect: int, emit: Emit) -> Decoder:
        """Reads the answer to one request."""
        return self._heard(GeminiReader(self._endpoint.voice, self.url(), effect, self._emit(emit), self._secrets))

    # -- what is refused -----------------------------------------------------------------------------------------

    def learn(self, culprit: str, words: str) -> bool:
        """As for every dialect; that a model demands thought signatures is learned too, and the end of a range that the
        output limit is outside of. The API has names in camel and in snake case."""
        if culprit == REASONING_ITEMS and "missing" in words.lower() and not self._signs:
            self._note(SIGNED)
            self._forget()
            return True
        name = re.sub(r"(?<=[a-z])(?=[A-Z])|\s+", "_", culprit).lower()
        if name == "max_output_tokens" and (found := _BELOW.search(words)) and 1 < int(found[1]) <= self._limit:
            self._note(f"limit={int(found[1]) - 1}")
            self._changed(name)
            return True
        return super().learn("thinking_config" if name.startswith(("think", "include_thoughts")) else name, words)

    def _changed(self, name: str) -> None:
        self._begin()

    @property
    def _signs(self) -> bool:
        """Whether the model demands a signature of the first call of each reply: Gemini 3 and newer do."""
        name = self._endpoint.model.rpartition("/")[2]
        return SIGNED in self._without or (name.startswith("gemini-") and not _OLDER.match(name))

    # -- requests ------------------------------------------------------------------------------------------------

    def _new(self) -> Contents:
        return Contents()

    def _joined(self, system: str, listed: Contents, instruction: str, calls: Calls) -> bytes:
        """Everything that never changes in a session comes first, then the contents, then what may change: calls are
        forbidden by `toolConfig`, so that the tools stay; a tool is never forced."""
        if self._system is None or self._system[0] is not system:
            self._system = system, self._prefix(system, self._form(""))
        prefix = self._prefix(system, b"") if instruction and self._form("") else self._system[1]
        forbid = calls == "forbidden" and bool(self._tools) and "tool_config" not in self._without
        config = self._more.get("toolConfig", {}) | ({"functionCallingConfig": {"mode": "NONE"}} if forbid else {})
        end = b'],"toolConfig":' + msgspec.json.encode(config) + b"}" if config else b"]}"
        return b"".join((prefix, listed.written, listed.tail(instruction), end))

    def _prefix(self, system: str, schema: bytes) -> bytes:
        """Up to the contents: only what the dialect demands, and what was configured. What a profile adds to a field
        goes into it."""
        encode, fields = msgspec.json.encode, list[bytes]()
        if system.strip():
            fields.append(b'"systemInstruction":{"parts":[' + _text(system) + b"]}")
        functions = b",".join(map(self._tool, self._tools))
        tools = [b'{"functionDeclarations":[' + functions + b"]}"] if functions else []
        tools += map(encode, self._more.get("tools", ()))
        if tools:
            fields.append(b'"tools":[' + b",".join(tools) + b"]")
        settings = self._settings()
        if schema and not {"responseSchema", "responseJsonSchema"} & self._more.get("generationConfig", {}).keys():
            settings.append(b'"responseMimeType":"application/json","responseJsonSchema":' + schema)
        settings += [quoted(n) + b":" + encode(v) for n, v in self._more.get("generationConfig", {}).items()]
        if settings:
            fields.append(b'"generationConfig":{' + b",".join(settings) + b"}")
        fields += [quoted(n) + b":" + encode(v) for n, v in self._more.items() if n not in OURS]
        return b"{" + b",".join((*fields, b'"contents":['))

    def _settings(self) -> list[bytes]:
        endpoint = self._endpoint
        fields: list[tuple[str, bytes]] = []
        if self._limit:
            fields.append(("max_output_tokens", b'"maxOutputTokens":%d' % self._limit))
        if endpoint.temperature is not None:
            fields.append(("temperature", b'"temperature":' + msgspec.json.encode(endpoint.temperature)))
        if self._level:
            fields.append(("thinking_config", b'"thinkingConfig":{%s,"includeThoughts":true}' % self._thinking()))
        return [value for name, value in fields if name not in self._without]

    def _thinking(self) -> bytes:
        """How much the model is told to think: Gemini 3 takes a level, models before it a number of tokens."""
        effort, name = self._level.lower(), self._endpoint.model.rpartition("/")[2]
        if self._profile.thinking == "budget" or _OLDER.match(name):
            return b'"thinkingBudget":%d' % BUDGETS.get(effort, USUAL_BUDGET)
        return b'"thinkingLevel":' + quoted(LEVELS.get(effort, effort.upper()))

    # -- entries -------------------------------------------------------------------------------------------------

    def _say(self, text: str) -> Kept:
        return Kept(said=_text(text))

    def _prompt(self, prompt: Prompt) -> Kept:
        return Kept(said=b",".join(self._parts(prompt)))

    def _step(self, step: Step) -> Kept:
        """A reply and, in one content, the responses to all of its calls in their order, which is how the API pairs
        them; then their images."""
        responses: list[bytes] = []
        follow: list[bytes] = []
        for call, result in zip(step.reply.calls, step.results, strict=True):
            responses.append(self._response(call, result, self._id(call, step.reply)))
            if shown := self._pictures.shown(() if result.elided else result.content):
                follow += [_text(words.picture_label(call.name)), *map(self._part, shown)]
        return Kept(self._reply(step.reply), b",".join(responses + follow))

    def _reply(self, reply: Reply) -> bytes:
        """The parts of a reply. Signatures, thoughts and the provider's own parts go to the model that made them; what
        another model called goes without a signature, or where one is demanded with the one that stands for none."""
        parts: list[bytes] = []
        signature = ""
        unsigned = self._signs
        for block in reply.blocks:
            if isinstance(block, Opaque) and (marked := _marked(block)):
                signature = marked if self._mine(block) and REASONING_ITEMS not in self._without else ""
                continue
            if isinstance(block, Call):
                signature = signature or (UNSIGNED if unsigned else "")
                unsigned = False
            if part := self._block(block, signature, reply):
                parts.append(part)
            signature = ""
        return b",".join(parts) or _text(words.NO_TEXT)

    def _mine(self, block: Reasoning | Opaque) -> bool:
        return block.model == self._endpoint.voice

    def _block(self, block: Block, signature: str, reply: Reply) -> bytes:
        """A block of a reply as a part; blank where nothing of it is sent."""
        signed = b',"thoughtSignature":' + quoted(signature) if signature else b""
        match block:
            case Text():
                return b'{"text":%s%s}' % (quoted(block.text), signed) if signed or block.text.strip() else b""
            case Call():
                call = b'{"functionCall":{%s"name":%s,"args":%s}%s}'
                return call % (
                    self._id(block, reply),
                    quoted(self._called.wire(block.name)),
                    block.args.encode(),
                    signed,
                )
            case Reasoning():
                if not self._mine(block) or REASONING_ITEMS in self._without:
                    return b""
                return block.data.encode() or b'{"text":%s,"thought":true}' % quoted(block.text)
            case Opaque():
                return self._opaque(block) if self._mine(block) else b""

    def _opaque(self, block: Opaque) -> bytes:
        """A part that only the provider understands; what stood beside the parts has no place in a request."""
        data: dict[str, Any] = msgspec.json.decode(block.data)
        bare = data.keys() <= {"text", "thoughtSignature", "thought"}
        if data.keys() <= KEPT or (REASONING_ITEMS if bare else OWN_BLOCKS) in self._without:
            return b""
        return block.data.encode()

    def _id(self, call: Call, reply: Reply) -> bytes:
        """The id that the provider gave a call: where it gave none, or another provider did, order pairs them."""
        given = call.wire_id and reply.model.startswith("gemini:")
        return b'"id":' + quoted(self._ids.of(call)) + b"," if given else b""

    def _response(self, call: Call, result: Result, identity: bytes) -> bytes:
        text = words.result_text(result, self._pictures.notes(result.content, words.BELOW))
        return b'{"functionResponse":{%s"name":%s,"response":{%s:%s}}}' % (
            identity,
            quoted(self._called.wire(call.name)),
            b'"output"' if result.status == "ok" else b'"error"',
            quoted(text),
        )

    def _text(self, text: str) -> bytes:
        return _text(text)

    def _picture(self, part: Image) -> bytes:
        return b'{"inlineData":{"mimeType":%s,"data":"%s"}}' % (
            quoted(part.media_type),
            self._pictures.base64(part).encode(),
        )

    def _tool(self, tool: ToolSpec) -> bytes:
        """A declaration. `parametersJsonSchema` takes JSON Schema; `parameters` takes a part of OpenAPI's."""
        return b'{"name":%s,"description":%s,"parametersJsonSchema":%s}' % (
            quoted(self._called.wire(tool.name)),
            quoted(tool.description),
            self._schema(tool),
        )


def function_name(name: str) -> str:
    """A tool's name as this API takes it: it begins with a letter or an underscore."""
    wire = wire_name(name)
    return wire if wire[0].isalpha() or wire[0] == "_" else "_" + wire[:63]


def _text(text: str) -> bytes:
    return b'{"text":' + quoted(text) + b"}"


def _marked(block: Opaque) -> str:
    """The signature of the text or call that follows; blank for a part, and for what is no part."""
    if not block.data.startswith('{"thoughtSignature":'):
        return ""
    data: dict[str, Any] = msgspec.json.decode(block.data)
    return str(data["thoughtSignature"]) if len(data) == 1 else ""
