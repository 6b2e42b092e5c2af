"""The model servers on this machine: Ollama, LM Studio, llama.cpp, vLLM and what answers like them.

Owns: where they usually are, what they are asked, and how their answers are read (each as its documentation has it).
Must not know: what is configured, who is told. Only this machine is asked, all servers at once, within PATIENCE
seconds; what does not answer in time, or answers something else, is not there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any
from urllib.parse import urlsplit

import h11
import msgspec

PATIENCE = 0.9  # seconds for all questions to one server
ENOUGH = 0.8  # of these, the seconds for what can be done without
LARGEST = 4 << 20  # bytes of an answer that are read
ASKED = 24  # models of one Ollama that are asked about, at once
PORTS = {"Ollama": 11434, "LM Studio": 1234, "llama.cpp": 8080, "vLLM": 8000}
OWNERS = {
    "vllm": "vLLM", "llamacpp": "llama.cpp", "library": "Ollama", "organization_owner": "LM Studio",
    "me": "OpenAI-compatible server", "sglang": "SGLang",
}  # fmt: skip
"""Who a server is, by what `/v1/models` calls the owner of its models."""
LOOPBACK = ("127.0.0.1", "localhost", "::1")
EVERYWHERE = ("0.0.0.0", "::", "")  # addresses to listen at, that are asked at 127.0.0.1


class LocalModel(msgspec.Struct, frozen=True):
    """A model that a server has. `window`: the tokens it takes as it is loaded now; `trained`: the most that it could;
    0 where that is not told. What it can do is None where that is not told."""

    name: str
    window: int = 0
    trained: int = 0
    tools: bool | None = None
    images: bool | None = None
    reasoning: bool | None = None
    loaded: bool | None = None


class LocalServer(msgspec.Struct, frozen=True):
    """A server that answers. `base_url` is what `--base-url` takes."""

    kind: str
    base_url: str
    models: tuple[LocalModel, ...] = ()


class _Nothing(Exception):
    """It does not answer, or not so."""


async def servers(
    env: Mapping[str, str], more: Iterable[str] = (), ports: Mapping[str, int] = PORTS
) -> list[LocalServer]:
    """The servers of this machine that answer now: at their usual ports, where OLLAMA_HOST says, and at the addresses
    in `more` (base URLs; those of other machines are left alone). The same address once."""
    places: dict[tuple[str, int], str] = {}
    for kind, port in ports.items():
        places.setdefault(("127.0.0.1", port), kind)
    ollama = address(env.get("OLLAMA_HOST", ""), ports.get("Ollama", 11434))
    if ollama:
        places.pop(("127.0.0.1", ports.get("Ollama", 0)), None)
        places[ollama] = "Ollama"
    for url in more:
        if place := address(url):
            places.setdefault(place, "")
    found = await asyncio.gather(*(_server(kind, host, port) for (host, port), kind in places.items()))
    return [server for server in found if server is not None]


def address(url: str, port: int = 80) -> tuple[str, int] | None:
    """Host and port of a URL or of what OLLAMA_HOST may hold (`:11500`, `0.0.0.0`, `localhost:1`); None where it is
    empty, or not on this machine."""
    url = url.strip()
    if not url:
        return None
    try:
        parts = urlsplit(url if "://" in url else f"//{url}")
        host, given = parts.hostname or "", parts.port
    except ValueError:
        return None
    if parts.scheme == "https":
        return None  # with a certificate it is meant for other machines
    if host in EVERYWHERE:
        host = "127.0.0.1"
    return (("127.0.0.1" if host == "localhost" else host), given or port) if host in LOOPBACK else None


async def _server(kind: str, host: str, port: int) -> LocalServer | None:
    """What answers there, within PATIENCE."""
    ask = _Asker(host, port)
    try:
        async with asyncio.timeout(PATIENCE):
            return await _asked(kind, ask)
    except (TimeoutError, OSError, _Nothing):
        return None


async def _asked(kind: str, ask: _Asker) -> LocalServer:
    """The server's own API first, for it says more; then the one that all have in common."""
    own = {"Ollama": _ollama, "LM Studio": _lm_studio}.get(kind)
    if own is not None:
        try:
            return LocalServer(kind, ask.base_url, await own(ask))
        except _Nothing:
            pass
    return await _common(kind, ask)


# -- what each kind says -----------------------------------------------------------------------------------------


async def _ollama(ask: _Asker) -> tuple[LocalModel, ...]:
    """`/api/tags`, then `/api/show` of each; `/api/ps` has the window of those that are loaded."""
    names = [str(m["name"]) for m in _list(await ask.get("/api/tags"), "models") if m.get("name")]
    up = (await ask.maybe("/api/ps")).get("models")
    up = [m for m in up if isinstance(m, dict)] if isinstance(up, list) else []
    running = {str(m.get("name")): _int(m.get("context_length")) for m in up}
    shown = await asyncio.gather(*(ask.maybe("/api/show", {"model": name}) for name in names[:ASKED]))
    shown += [{}] * (len(names) - len(shown))
    every = (_ollama_model(name, told, running) for name, told in zip(names, shown, strict=True))
    return tuple(m for m in every if m is not None)


def _ollama_model(name: str, told: dict[str, Any], running: Mapping[str, int]) -> LocalModel | None:
    """A model as `/api/show` has it; None for one that only embeds. Its window is the loaded one's, else what its file
    sets (`num_ctx`): without either it is the server's own choice, mostly far below what the model could."""
    can = told.get("capabilities")
    if isinstance(can, list) and "completion" not in can:
        return None
    info = told.get("model_info")
    trained = (
        next((_int(v) for k, v in info.items() if k.endswith(".context_length")), 0) if isinstance(info, dict) else 0
    )
    words = str(told.get("parameters") or "").split()
    set_to = next((_int(b) for a, b in pairwise(words) if a == "num_ctx"), 0)
    loaded = name in running
    knows = (lambda what: what in can) if isinstance(can, list) else lambda _: None
    return LocalModel(
        name, running.get(name) or set_to, trained, knows("tools"), knows("vision"), knows("thinking"), loaded
    )


async def _lm_studio(ask: _Asker) -> tuple[LocalModel, ...]:
    """`/api/v0/models`: type, state, `max_context_length`, `loaded_context_length`, capabilities."""
    rows = _list(await ask.get("/api/v0/models"), "data")
    found: list[LocalModel] = []
    for row in rows:
        if row.get("type") not in ("llm", "vlm", None) or not row.get("id"):
            continue
        can = row.get("capabilities")
        now, most = _int(row.get("loaded_context_length")), _int(row.get("max_context_length"))
        tools = "tool_use" in can if isinstance(can, list) else None
        seen, loaded = row.get("type") == "vlm", row.get("state") == "loaded"
        found.append(LocalModel(str(row["id"]), now, most, tools, seen, None, loaded))
    return tuple(found)


async def _common(kind: str, ask: _Asker) -> LocalServer:
    """`/v1/models`; `max_model_len` is vLLM's word, `meta` llama.cpp's, whose `/props` has the window of now."""
    rows = _list(await ask.get("/v1/models"), "data")
    rows = [row for row in rows if isinstance(row.get("id"), str) and row["id"]]
    if not rows:
        raise _Nothing  # whatever it is, it offers nothing
    kind = OWNERS.get(str(rows[0].get("owned_by")), kind) or "OpenAI-compatible server"
    props = await ask.maybe("/props") if kind == "llama.cpp" else {}
    models = (_common_model(row, props) for row in rows if "embed" not in row["id"].lower())
    return LocalServer(kind, ask.base_url, tuple(models))


def _common_model(row: dict[str, Any], props: dict[str, Any]) -> LocalModel:
    meta = row.get("meta")
    meta = meta if isinstance(meta, dict) else {}
    settings = props.get("default_generation_settings")
    window = _int(row.get("max_model_len")) or _int(meta.get("n_ctx"))
    window = window or (_int(settings.get("n_ctx")) if isinstance(settings, dict) else 0)
    caps, modes = props.get("chat_template_caps"), props.get("modalities")
    tools = bool(caps.get("supports_tools")) if isinstance(caps, dict) and "supports_tools" in caps else None
    images = bool(modes.get("vision")) if isinstance(modes, dict) else None
    return LocalModel(row["id"], window, _int(meta.get("n_ctx_train")), tools, images)


def _list(answer: dict[str, Any], key: str) -> list[dict[str, Any]]:
    """The list of objects under a key. Raises _Nothing where there is none: another server answers."""
    rows = answer.get(key)
    if not isinstance(rows, list):
        raise _Nothing
    return [row for row in rows if isinstance(row, dict)]


def _int(value: object) -> int:
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 12:
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 10**11 else 0


# -- asking ------------------------------------------------------------------------------------------------------


class _Asker:
    """Asks one server for JSON objects, a connection a question."""

    def __init__(self, host: str, port: int) -> None:
        self._host, self._port = host, port
        shown = f"[{host}]" if ":" in host else host
        self._name = f"{shown}:{port}"
        self.base_url = f"http://{self._name}/v1"
        self._ends = asyncio.get_running_loop().time() + ENOUGH

    async def maybe(self, path: str, body: object = None) -> dict[str, Any]:
        """The answer; empty where there is none, or none in time: what was told before that is not lost."""
        try:
            async with asyncio.timeout_at(self._ends):
                return await self.get(path, body)
        except (TimeoutError, OSError, _Nothing):
            return {}

    async def get(self, path: str, body: object = None) -> dict[str, Any]:
        """The answer to a GET, or to a POST with a body. Raises OSError, _Nothing."""
        reader, writer = await asyncio.open_connection(self._host, self._port)
        try:
            return await self._exchange(reader, writer, path, None if body is None else msgspec.json.encode(body))
        except (h11.ProtocolError, msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            raise _Nothing from None
        finally:
            writer.close()

    async def _exchange(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, path: str, body: bytes | None
    ) -> dict[str, Any]:
        wire = h11.Connection(h11.CLIENT)
        headers = [
            ("host", self._name),
            ("accept", "application/json"),
            ("user-agent", "noria"),
            ("connection", "close"),
        ]
        if body is not None:
            headers += [("content-type", "application/json"), ("content-length", str(len(body)))]
        out = wire.send(h11.Request(method="GET" if body is None else "POST", target=path, headers=headers)) or b""
        if body is not None:
            out += wire.send(h11.Data(data=body)) or b""
        writer.write(out + (wire.send(h11.EndOfMessage()) or b""))
        await writer.drain()
        answer = bytearray()
        while True:
            event = wire.next_event()
            if event is h11.NEED_DATA:
                wire.receive_data(await reader.read(1 << 16))
            elif isinstance(event, h11.Response) and event.status_code != 200:
                raise _Nothing
            elif isinstance(event, h11.Data):
                answer += event.data
                if len(answer) > LARGEST:
                    raise _Nothing
            elif isinstance(event, h11.EndOfMessage):
                told = msgspec.json.decode(answer)
                if not isinstance(told, dict):
                    raise _Nothing
                return told
            elif isinstance(event, h11.ConnectionClosed):
                raise _Nothing
