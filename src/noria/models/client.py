"""A model that is asked over HTTP: one dialect, one transport, one attempt at a time.

Owns: the course of an attempt, from request to reply or failure; the idle limits; usage and cost. Must not know: any
dialect's frames, retries (the machine's), which key is whose (keys.py), any file.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from msgspec.structs import replace

from noria.core.content import Reply, Text, Usage
from noria.core.errors import UsageError
from noria.core.ports import Answered, CallReady, Delta, Emit, Failure, Model, ModelRequest, ToolSpec
from noria.core.state import ModelSpec
from noria.core.transcript import Transcript
from noria.models import retry
from noria.models.catalog import Endpoint, auth_headers, priced
from noria.models.dialect import Decoder, Dialect
from noria.models.encode import Images, goes_on
from noria.models.errors import NOT_ONE, TransportError
from noria.models.keys import Key
from noria.models.rotate import Tell, rotated, unheard
from noria.models.transport import Response, Transport

TAIL = 5.0  # seconds that a report of usage and the connection's end have after the reply itself has ended
SILENCES = 2  # streams in a row without a frame, whose answers came in one piece, until no more are asked for
LESSONS = 4  # things that one request may be refused for and sent again without
ERROR_BODY = 1 << 20  # bytes of an error's body that are read
BOM = b"\xef\xbb\xbf"
UNREADABLE = ("br", "zstd", "compress")  # encodings that nobody asked for and noria does not have


class HttpModel:
    """`core.ports.Model` over HTTP. One serves one session: it keeps the encoded history.

    `complete` is the compactor's request. Both answer with a value; only cancelling raises, and closes the connection.
    """

    def __init__(self, endpoint: Endpoint, dialect: Dialect, transport: Transport, tell: Tell = unheard) -> None:
        """`tell` hears of a key that was changed and of a request that waits."""
        self.endpoint = endpoint
        self._dialect = dialect
        self._transport = transport
        self._tell = tell
        self._secrets = endpoint.secrets
        self._silences = 0

    async def reply(self, request: ModelRequest, emit: Emit) -> Answered | Failure:
        """One attempt at a reply."""
        return await self._asked(
            lambda: self._dialect.body(request.system, request.transcript, request.calls), request.effect, emit
        )

    async def complete(
        self, system: str, transcript: Transcript, instruction: str, model: ModelSpec
    ) -> Answered | Failure:
        """One text about a history: the same prefix as every request has, so that the provider's cache holds, then the
        instruction. Tool calls in the answer are dropped; without text it is Failure `empty`."""
        answer = await self._asked(lambda: self._dialect.ask(system, transcript, instruction), 0, _nowhere)
        if isinstance(answer, Failure):
            return answer
        texts = tuple(b for b in answer.reply.blocks if isinstance(b, Text))
        if not any(b.text.strip() for b in texts):
            return Failure("empty", detail="the model's answer has no text", usage=answer.usage)
        return Answered(Reply(texts, answer.reply.end, answer.reply.model), answer.usage)

    async def aclose(self) -> None:
        """Close the connections that are kept."""
        await self._transport.aclose()

    async def _asked(self, body: Callable[[], bytes], effect: int, emit: Emit) -> Answered | Failure:
        """One attempt; where the server refuses what can be said otherwise or left out (`Dialect.learn`), one more so,
        for each thing that it refuses. That is remembered for as long as the transport lives."""
        answer = await self._spoken(body, effect, emit)
        for _ in range(LESSONS):
            if not isinstance(answer, Failure) or not _teaches(answer):
                break
            if not self._dialect.learn(answer.culprit, answer.detail):
                break
            again = await self._spoken(body, effect, emit)
            answer = replace(again, usage=answer.usage + again.usage)
        return answer

    async def _spoken(self, body: Callable[[], bytes], effect: int, emit: Emit) -> Answered | Failure:
        """One request. Where the stream that it asks for has not one frame, one more at once for the answer in one
        piece: a server whose error comes after the stream's head (llama-cpp-python) says it there, or answers. Where
        that happens twice in a row and the answer comes, no more streams are asked for."""
        answer = await self._rotated(body(), effect, emit)
        silent = isinstance(answer, Failure) and answer.detail.startswith(NOT_ONE)
        if not silent or not self._dialect.streamed:
            self._silences = 0
            return answer
        self._silences += 1
        self._dialect.in_one(True)
        again = await self._rotated(body(), effect, emit)
        if isinstance(again, Failure) or self._silences < SILENCES:
            self._dialect.in_one(False)
        return replace(again, usage=answer.usage + again.usage)

    async def _rotated(self, body: bytes, effect: int, emit: Emit) -> Answered | Failure:
        """One request by whichever key is free."""
        return await rotated(self.endpoint, lambda key, emit: self._attempt(body, effect, emit, key), emit, self._tell)

    async def _attempt(self, body: bytes, effect: int, emit: Emit, key: Key) -> Answered | Failure:
        """One request with that key. A connection that turned out to be closed and had it sent again counts as two."""
        url = self._dialect.url()
        streamed, headers = self._dialect.streamed, self._dialect.headers()
        if key.secret != self.endpoint.key:
            if key.secret not in self._secrets:  # a new one, of key_command
                self._secrets = (*self._secrets, key.secret)
            url, headers = self._with(key, url, headers)
        headers = [
            *headers,
            ("content-type", "application/json"),
            ("accept", "text/event-stream" if streamed else "application/json"),
            ("accept-encoding", "identity"),
            ("user-agent", "noria"),
        ]
        idle, resent = self.endpoint.idle, 0
        try:
            first = idle.first if streamed else idle.comments
            response = await self._transport.post(url, _unique(headers), body, idle, first=first)
            resent = response.resent
            decoder = self._dialect.decoder(effect, emit)  # what reads answers is loaded while the first one comes
            try:
                answer = await self._answer(response, decoder, url)
            finally:
                response.close(whole=decoder.done)
        except TransportError as error:
            answer, resent = retry.from_transport(error, url, self._secrets), resent + error.resent
        usage = priced(answer.usage, self.endpoint.price, whole=isinstance(answer, Answered))
        return replace(answer, usage=replace(usage, requests=usage.requests + resent) if resent else usage)

    def _with(self, key: Key, url: str, headers: list[tuple[str, str]]) -> tuple[str, list[tuple[str, str]]]:
        """Address and headers with another key than the endpoint's; the first of two headers counts."""
        if self.endpoint.auth == "query" and self.endpoint.key:
            from urllib.parse import quote

            url = url.replace("key=" + quote(self.endpoint.key, safe=""), "key=" + quote(key.secret, safe=""))
        return url, [*auth_headers(replace(self.endpoint, key=key.secret)), *headers]

    async def _answer(self, response: Response, decoder: Decoder, url: str) -> Answered | Failure:
        kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        if not 200 <= response.status < 300:
            return await self._refused(response, url)
        encoding = response.headers.get("content-encoding", "").strip().lower()
        if encoding in UNREADABLE:
            why = f"its answer is compressed ({encoding}), which it was asked not to do"
            return retry.not_the_dialect(self.endpoint.dialect, url, why, self._secrets)
        if kind in ("text/html", "application/xhtml+xml"):
            return retry.not_the_dialect(self.endpoint.dialect, url, "its answer is a web page", self._secrets)
        try:
            nothing = await self._read(response, decoder)
        except TransportError as error:
            answer = decoder.result()
            if not decoder.ended and (isinstance(answer, Answered) or answer.kind == "truncated"):
                # else what the provider said counts for more than how the connection ended; what it cost counts anyhow
                return replace(retry.from_transport(error, url, self._secrets), usage=answer.usage)
            return answer
        if nothing and kind != "text/event-stream":
            return retry.not_the_dialect(self.endpoint.dialect, url, f"its answer is {nothing!r}", self._secrets)
        return decoder.result()

    async def _refused(self, response: Response, url: str) -> Failure:
        """A status that is no answer: what its body says, as far as it comes in TAIL seconds."""
        body = b""
        try:
            async with asyncio.timeout(TAIL):
                async for chunk in response.chunks(TAIL):
                    body += chunk
                    if len(body) > ERROR_BODY:
                        break
        except (TransportError, TimeoutError):
            pass  # what came may say enough
        if response.headers.get("content-encoding", "").strip().lower() in UNREADABLE:
            body = b""
        return retry.from_status(response.status, response.headers, body, url, self._secrets)

    async def _read(self, response: Response, decoder: Decoder) -> str:
        """Feed the decoder until the reply is there. What begins like JSON or a web page is read whole, whatever it is
        called and whatever was asked for, also behind comments that kept the connection open. How the answer begins,
        where no event was in it."""
        from noria.models.sse import Parser

        idle, clock, parser = self.endpoint.idle, asyncio.get_running_loop().time, Parser()
        limit, alive, since = idle.first if self._dialect.streamed else idle.comments, 0, clock()
        begun = b""
        while not decoder.done:
            chunk = await response.chunk(TAIL if decoder.ended else limit)
            if not chunk:
                for event in parser.close():
                    decoder.event(event)
                    begun = b""
                return begun[:80].decode("utf-8", "replace").strip()
            if not parser.alive and (begun[:1] in (b"", b":") or BOM.startswith(begun)):
                begun = _bare(begun + chunk)
                if begun[:1] in (b"{", b"[", b"<"):
                    decoder.whole(begun + await response.read(idle.between, blanks=idle.comments))
                    return ""
            limit = idle.between
            for event in parser.feed(chunk):
                decoder.event(event)
                begun = b""
                if decoder.done:
                    return ""
                alive += event.keeps_open
            if parser.alive > alive:
                alive, since = parser.alive, clock()
            elif clock() - since > idle.comments:
                raise TransportError("timeout", f"the server sent nothing but comments for {idle.comments:g} s")
        return ""


def _bare(body: bytes) -> bytes:
    """The beginning of a body without what says nothing: a byte order mark, blanks, whole lines of comments."""
    body = body.removeprefix(BOM).lstrip()
    while body[:1] == b":" and (ends := [at for at in (body.find(b"\n"), body.find(b"\r")) if at >= 0]):
        body = body[min(ends) :].lstrip()
    return body


def http_model(
    endpoint: Endpoint,
    *,
    tools: Sequence[ToolSpec] = (),
    images: Images | None = None,
    transport: Transport | None = None,
    tell: Tell = unheard,
    session: str = "",
    output: str = "",
) -> HttpModel:
    """The model at an endpoint, in its dialect. `tell` hears of what it does beside the request; `session` is its id,
    by which some providers find their cache; `output` is the JSON Schema of the final answer, where one is asked for.
    Raises UsageError where that is not built or settings are wrong."""
    endpoint.check()
    transport = transport or Transport()
    learned = transport.learned.setdefault((endpoint.dialect, endpoint.base_url, endpoint.model), set())
    return HttpModel(endpoint, _dialect(endpoint, tools, images, learned, session, output), transport, tell)


def _dialect(
    endpoint: Endpoint,
    tools: Sequence[ToolSpec],
    images: Images | None,
    learned: set[str],
    session: str,
    output: str,
) -> Dialect:
    """The dialect of an endpoint; only that one is loaded."""
    match endpoint.dialect:
        case "chat":
            from noria.models.chat import Chat

            return Chat(endpoint, tools, images, learned, session, output)
        case "responses":
            from noria.models.responses import Responses

            return Responses(endpoint, tools, images, learned, session, output)
        case "messages":
            from noria.models.messages import MessagesDialect

            return MessagesDialect(endpoint, tools, images, learned, session, output)
        case "gemini":
            from noria.models.gemini import Gemini

            return Gemini(endpoint, tools, images, learned, session, output)
        case _:
            raise UsageError(
                f"there is no dialect {endpoint.dialect!r}: write chat:, responses:, messages: or gemini: before a name"
            )


def _teaches(failure: Failure) -> bool:
    """Whether another form of the request may be taken: where something in it was refused, or the reply that it asks
    for is what does not fit the window."""
    if failure.kind == "context_overflow":
        from noria.models.windows import reply_limit

        return reply_limit(failure.detail) > 0
    return failure.kind == "bad_request"


class Completing(Model, Protocol):
    """A model that can also be asked for one text about a history."""

    async def complete(
        self, system: str, transcript: Transcript, instruction: str, model: ModelSpec
    ) -> Answered | Failure:
        """The text, or why there is none."""
        ...

    async def aclose(self) -> None:
        """Give back what it holds: it can still be asked."""
        ...


class Chain:
    """The models of a session by configured name; a request goes to the one that it names. `tell` hears of a request
    that does not begin as the one before did."""

    def __init__(self, models: Mapping[str, Completing], tell: Tell = unheard) -> None:
        self._models = dict(models)
        self._tell = tell
        self._before: ModelRequest | None = None

    async def reply(self, request: ModelRequest, emit: Emit) -> Answered | Failure:
        """One attempt at a reply, by `request.model`."""
        model = self._models.get(request.model.name)
        before, self._before = self._before, request
        if before and (before.system is not request.system or not goes_on(before.transcript, request.transcript)):
            self._changed(before, request)
        return await model.reply(request, emit) if model else self._unknown(request.model)

    async def complete(
        self, system: str, transcript: Transcript, instruction: str, model: ModelSpec
    ) -> Answered | Failure:
        """One text about a history, by `model`."""
        found = self._models.get(model.name)
        return await found.complete(system, transcript, instruction, model) if found else self._unknown(model)

    async def aclose(self) -> None:
        """Close the connections that the models keep."""
        for model in self._models.values():
            await model.aclose()

    def _changed(self, before: ModelRequest, now: ModelRequest) -> None:
        """Tell of a request that begins otherwise than the one before did, where nothing else tells of it."""
        from noria.models.prefix import Begun, changed

        was, is_now = (Begun(each.model.name, each.system, each.transcript) for each in (before, now))
        found = changed(was, is_now)
        if "system" in found.what or ("history" in found.what and not found.meant):
            self._tell("info" if found.meant else "warning", found.text)

    def _unknown(self, model: ModelSpec) -> Failure:
        known = ", ".join(self._models) or "none"
        return Failure(
            "unknown_model", detail=f"no model is configured as {model.name!r} (configured: {known})", usage=Usage()
        )


def _unique(headers: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Each header once; the configured ones, which come first, win."""
    found: dict[str, str] = {}
    for name, value in headers:
        found.setdefault(name, value)
    return list(found.items())


def _nowhere(delta: Delta | CallReady) -> None:
    """Nobody watches a summary being written."""
