"""The scripted model behind a real HTTP server, in a thread of the test.

Owns: which request gets which answer, and what was seen. Must not know: the rules of an API, the bytes of a dialect.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Collection, Mapping
from types import TracebackType
from typing import Any

from noria.testing import dialects
from noria.testing.faults import BROKEN, REFUSED, Fault, Faults, Slow, Status, error_body, refusal
from noria.testing.http import JSON, STREAM, Answer, Asked, read
from noria.testing.issued import Issued
from noria.testing.request import Dialect, Request
from noria.testing.script import Follow, Place, Said, Script, Turn, reply
from noria.testing.validator import PROFILES, RULES, Problem, Violation, validate
from noria.testing.validator import refusal as refused_by

PATHS: dict[str, Dialect] = {"/chat/completions": "chat", "/responses": "responses", "/messages": "messages"}
KEYS = {"chat": "authorization", "responses": "authorization", "messages": "x-api-key", "gemini": "x-goog-api-key"}
MIDWAY = ("stall", "ping", "cut", "eof", "error")


class ModelServer:
    """A model server that follows a script and refuses what the real APIs refuse.

    with ModelServer([{"calls": [["read_file", {"path": "a"}]]}, {"text": "Done."}]) as server:
        ...  # talk to server.base_url("chat") or "responses", "messages", "gemini"
        assert server.violations == []

    `script`: turns, or a function of the request (it runs in the server's thread; what it raises, `with` raises at its
    end). `follow`: where a list of turns stands. `final`: what is said when they are over, or calls are forbidden.
    `faults`: by the number of the request, from 0, or a function of the request. `pace`: seconds between chunks.
    `profiles`: kinds of servers whose rules are added (`noria.testing.PROFILES`). `ignore`: ids of rules to leave out.
    `validate`: whether requests are checked at all; a request that breaks a rule gets the API's own error, and does not
    advance the script. `key`: the API key that is asked for; by default none. `models`: the models that there are; by
    default any. `signing_key`: what signatures are made with; by default random, so that no other server's pass.
    `host`, `port`: where it listens; 0 is any free port.

    Attributes that may be set while it runs: `script`, `faults`, `pace`. What it saw: `requests`, `violations`;
    `open` is the number of connections.
    """

    def __init__(
        self,
        script: Script = (),
        faults: Faults | None = None,
        pace: float = 0.0,
        *,
        follow: Follow = "history",
        final: str = "All done.",
        profiles: Collection[str] = (),
        ignore: Collection[str] = (),
        validate: bool = True,
        key: str | None = None,
        models: Collection[str] | None = None,
        signing_key: str | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
    ) -> None:
        _known("profile", profiles, PROFILES)
        _known("rule", ignore, [rule.id for rule in RULES])
        self._place = Place(script, follow, final)
        self.faults: Faults = {} if faults is None else faults
        self.pace = pace
        self.requests: list[Request] = []
        self.violations: list[Violation] = []
        self.open = 0
        self._profiles, self._ignore, self._validate = frozenset(profiles), frozenset(ignore), validate
        self._key, self._models, self._issued = key, models, Issued(signing_key)
        self._listen = (host, port)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._main, name="noria.testing", daemon=True)
        self._failed: BaseException | None = None
        self.root = ""

    # -- its life ------------------------------------------------------------------------------------------------

    def __enter__(self) -> ModelServer:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()
        if self._failed is not None and error is None:
            raise self._failed

    def start(self) -> ModelServer:
        """Listen. Raises OSError where the port is taken."""
        self._thread.start()
        self._ready.wait(10)
        if not self.root:
            raise self._failed or TimeoutError("the model server did not start within 10 s")
        return self

    def stop(self) -> None:
        """Close every connection and end the thread."""
        if self._loop is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(10)

    @property
    def script(self) -> Script:
        """The script that is followed."""
        return self._place.script

    @script.setter
    def script(self, script: Script) -> None:
        self._place = Place(script, self._place.follow, self._place.final)

    @property
    def url(self) -> str:
        """The base URL for chat and responses: with /v1."""
        return f"{self.root}/v1"

    def base_url(self, dialect: Dialect) -> str:
        """What a client of this dialect takes as its base URL: with /v1 for chat and responses, else without."""
        return self.url if dialect in ("chat", "responses") else self.root

    def _main(self) -> None:
        self._loop = loop = asyncio.new_event_loop()
        asyncio.set_event_loop(loop)
        try:
            server = loop.run_until_complete(asyncio.start_server(self._serve, *self._listen, limit=1 << 26))
            host, port = server.sockets[0].getsockname()[:2]
            self.root = f"http://{host}:{port}"
            self._ready.set()
            loop.run_forever()
            server.close()
            tasks = asyncio.all_tasks(loop)
            for task in tasks:
                task.cancel()
            loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        except OSError as error:
            self._failed = error
            self._ready.set()
        finally:
            loop.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.open += 1
        try:
            while await self._one(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError, ValueError):
            pass
        finally:
            self.open -= 1
            writer.close()

    # -- one request ---------------------------------------------------------------------------------------------

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Answer the next request; whether the connection goes on."""
        asked, answer = await read(reader, writer), Answer(writer)
        dialect = _dialect(asked.path)
        if dialect is None or asked.method != "POST":
            await self._beside(asked, answer)
            return True
        try:
            body = json.loads(asked.body)
        except ValueError:
            body = None
        if not isinstance(body, dict):
            text = "We could not parse the JSON body of your request."
            rule = next(rule for rule in RULES if rule.id == f"{dialect}-json")
            self.violations.append(Violation(rule, Problem(text), len(self.requests)))
            await answer.whole(400, error_body(dialect, 400, text))
            return True
        request = self._request(asked, dialect, body)
        self.requests.append(request)
        fault = self.faults(request) if callable(self.faults) else self.faults.get(request.number)
        if fault is None or isinstance(fault, Slow) or fault == "slow" or fault in MIDWAY:
            return await self._answer(request, answer, reader, fault)
        return await self._fail(request, answer, reader, fault)

    def _request(self, asked: Asked, dialect: Dialect, body: dict[str, Any]) -> Request:
        model = streamed = None
        if dialect == "gemini":
            name, _, method = asked.path.rpartition("/models/")[2].rpartition(":")
            model, streamed = name, method == "streamGenerateContent"
        headers = {**asked.headers, "x-goog-api-key": asked.headers.get("x-goog-api-key", asked.query.get("key", ""))}
        if dialect == "gemini":  # which asks for events in the address alone
            headers["accept"] = STREAM if asked.query.get("alt") == "sse" else JSON
        return Request(
            body, dialect, headers=headers, path=asked.path, model=model, streamed=streamed, raw=asked.body,
            number=len(self.requests), issued=self._issued, profiles=self._profiles,
        )  # fmt: skip

    async def _answer(
        self, request: Request, answer: Answer, reader: asyncio.StreamReader, fault: Fault | None
    ) -> bool:
        """The reply of the script, or the refusal that the request has earned."""
        if (refused := self._refused(request)) is not None:
            await answer.whole(*refused)
            return True
        try:
            turn = self._place.turn(request)
            said = reply(turn, request)
        except Exception as error:  # noqa: BLE001 (a script is the test's own code; `with` raises it again)
            self._failed = self._failed or error
            await answer.whole(500, error_body(request.dialect, 500, f"the script failed: {error!r}"))
            return True
        self._issued.needs.update(dialects.needs(request.dialect, said))
        if isinstance(fault, Slow) or fault == "slow":
            await asyncio.sleep(fault.seconds if isinstance(fault, Slow) else 1.0)
            fault = None
        return await self._speak(request, answer, reader, turn, said, fault)

    def _refused(self, request: Request) -> tuple[int, dict[str, Any]] | None:
        given = request.headers.get(KEYS[request.dialect], "").removeprefix("Bearer ")
        if self._key is not None and given != self._key:
            return refusal("bad_key", request)
        if self._models is not None and request.model not in self._models:
            return refusal("unknown_model", request)
        violations = validate(request, ignore=self._ignore) if self._validate else []
        self.violations += violations
        return refused_by(violations[0], self._profiles) if violations else None

    async def _speak(
        self,
        request: Request,
        answer: Answer,
        reader: asyncio.StreamReader,
        turn: Turn,
        said: Said,
        fault: Fault | None,
    ) -> bool:
        """Send the reply, or as much of it as the fault lets through."""
        kind, chunks = self._chunks(request, said)
        if fault is None and not request.streamed:
            await answer.whole(200, b"".join(chunks), kind)
            return True
        half = chunks[: len(chunks) // 2]  # never the end mark, not even of a reply that is one chunk
        sent = chunks if fault is None else half[:3] if fault in ("stall", "ping") else half
        if fault == "error":
            sent = sent + dialects.failing(request.dialect) if request.streamed else dialects.failing(request.dialect)
        pace = turn.get("pace", self.pace)
        answer.begin(kind)
        ends = fault not in ("stall", "ping", "cut")
        for chunk in sent[:-1] if pace else ():
            await answer.send(chunk)
            await asyncio.sleep(pace)
        await answer.send(*(sent[-1:] if pace else sent), end=ends)
        match fault:
            case "stall":
                await reader.read()
            case "ping":
                while not reader.at_eof():
                    await answer.send(b": keep-alive\n\n" if kind == STREAM else b" ")
                    await asyncio.sleep(0.05)
            case "cut":
                await asyncio.sleep(0.02)
                answer.reset()
            case _:
                pass
        return fault is None

    def _chunks(self, request: Request, said: Said) -> tuple[str, list[bytes]]:
        """The reply in pieces: SSE frames, or a JSON body in pieces."""
        if request.streamed and (request.dialect != "gemini" or request.headers.get("accept") == STREAM):
            return STREAM, dialects.stream(request.dialect, said)
        if request.streamed:
            frames = [frame.removeprefix(b"data: ").strip() for frame in dialects.stream(request.dialect, said)]
            return JSON, [b"[" + frames[0], *(b",\n" + each for each in frames[1:]), b"]"]
        body = json.dumps(dialects.whole(request.dialect, said)).encode()
        return JSON, [body[k : k + 64] for k in range(0, len(body), 64)]

    async def _fail(self, request: Request, answer: Answer, reader: asyncio.StreamReader, fault: Fault) -> bool:
        """An answer that is none of the script's."""
        match fault:
            case Status(status=status, headers=headers, message=message, body=body):
                said = error_body(request.dialect, status, message) if body is None else body
                await answer.whole(status, said, headers=headers)
            case int():
                await answer.whole(fault, error_body(request.dialect, fault), headers={"retry-after": "0"})
            case "html":
                await answer.whole(200, b"<!doctype html><html><body>Welcome</body></html>", "text/html")
            case "notjson":
                await answer.whole(200, b"this is no JSON")
            case "empty":
                await answer.whole(200, b"", STREAM if request.streamed else JSON)
            case "silent":
                answer.begin(STREAM if request.streamed else JSON)
                await reader.read()
                return False
            case "reset":
                answer.reset()
                return False
            case _ if fault in REFUSED:
                await answer.whole(*refusal(str(fault), request))
            case _:
                names = ", ".join([*BROKEN, *REFUSED])
                self._failed = ValueError(f"there is no fault {fault!r}: it is a status or one of {names}")
                await answer.whole(500, error_body(request.dialect, 500, str(self._failed)))
        return True

    async def _beside(self, asked: Asked, answer: Answer) -> None:
        """What is asked beside the replies: the models, a count of tokens, what was seen."""
        if asked.method == "GET" and asked.path.endswith("/models"):
            names = sorted(self._models or ["scripted"])
            data = [{"id": name, "object": "model", "created": 1, "owned_by": "noria"} for name in names]
            await answer.whole(200, {"object": "list", "data": data, "has_more": False})
        elif asked.path.endswith(("/count_tokens", ":countTokens")):
            count = len(asked.body) // 4
            await answer.whole(200, {"input_tokens": count, "totalTokens": count})
        elif asked.path == "/seen":
            seen: Mapping[str, Any] = {"requests": self.requests, "violations": [str(v) for v in self.violations]}
            await answer.whole(200, seen)
        else:
            await answer.whole(404, {"error": {"message": f"there is nothing at {asked.path}", "type": "not_found"}})


def _dialect(path: str) -> Dialect | None:
    if path.endswith((":generateContent", ":streamGenerateContent")):
        return "gemini"
    return next((dialect for end, dialect in PATHS.items() if path.endswith(end)), None)


def _known(what: str, given: Collection[str], known: Collection[str]) -> None:
    if left := sorted(set(given) - set(known)):
        raise ValueError(f"there is no {what} {left[0]!r}: one of {', '.join(sorted(known))}")
