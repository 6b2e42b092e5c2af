"""The keys of a model: which one a request takes, what its outcome says of it, and the command that gives a new one.

Owns: the keys of every address, shared by all agents of an event loop, and their marks. Must not know: how a key goes
along with a request, any dialect. A key is never part of a text.

A mark belongs to one key at one address for one model: what a fallback meets says nothing of the model before it, were
address and keys the same, for providers let in, limit (lanes, traffic.py) and count each model for itself. A refused or
used-up key is left out for an hour, but asked again where there is no other: whether it was topped up or let in, only
the server knows.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Literal, TypeAlias
from weakref import WeakKeyDictionary

from noria.core.ports import Failure
from noria.models.catalog import Endpoint
from noria.models.proxies import shown_url
from noria.models.retry import PLACE
from noria.models.traffic import Lane

if TYPE_CHECKING:
    from subprocess import Popen

REFUSED = SPENT = 3_600.0  # seconds that a key is left out: refused (401, 403), or its quota used up
ASKING = 30.0  # seconds that a key_command may take
MANY = 1_000  # keys from which on those that nothing is known of are forgotten

Level: TypeAlias = Literal["info", "warning"]


class Key:
    """One key at one address. `secret` may be empty: a server that asks for none can limit the rate all the same."""

    def __init__(self, secret: str) -> None:
        self.secret = secret
        self._out: dict[str, float] = {}  # by model: loop time until which it is left out, refused or its quota used up
        self._lanes: dict[str, Lane] = {}

    def __repr__(self) -> str:
        """Without the secret."""
        return f"Key(left out for {len(self._out)} models, lanes={len(self._lanes)})"

    def out(self, model: str) -> float:
        """The loop time until which it is left out for a model."""
        return self._out.get(model, 0.0)

    def leave_out(self, model: str, until: float) -> None:
        """Not for that model before `until`."""
        self._out[model] = until

    def let_in(self, model: str) -> None:
        """It is of use for that model."""
        self._out.pop(model, None)

    def lane(self, model: str) -> Lane:
        """The lane of its requests for a model."""
        return self._lanes.get(model) or self._lanes.setdefault(model, Lane())

    def idle(self, now: float) -> bool:
        """Whether nothing would be lost if it were forgotten."""
        return max(self._out.values(), default=0.0) <= now and all(lane.idle for lane in self._lanes.values())


class Ring:
    """The keys that stand for one another at one address, in order. Of each model one is in use, until it fails."""

    def __init__(self, address: str, keys: list[Key], command: str) -> None:
        self.address = address
        self.keys = keys
        self._place: dict[str, int] = {}
        self._command = command
        self._renewed = False  # since the last answer
        self._former: list[str] = []  # what the command gave before
        self._asking = asyncio.Lock()

    def __repr__(self) -> str:
        """Without the keys."""
        return f"Ring({self.address!r}, {len(self.keys)} keys)"

    @property
    def secrets(self) -> tuple[str, ...]:
        """What must be in no text."""
        return (*(key.secret for key in self.keys if key.secret), *self._former)

    def next(self, model: str, tried: list[Key], now: float) -> Key | None:
        """The key that a request takes: the one in use, else the next one that may be used at once; else the one
        that is limited for the shortest time; else, where all are marked, the one whose mark is the oldest. None where
        each was tried."""
        place = self._place.get(model, 0)
        turn = [*self.keys[place:], *self.keys[:place]]
        left = [key for key in turn if key not in tried]
        good = [key for key in left if key.out(model) <= now]
        for key in good:
            if not key.lane(model).held(now):
                self._place[model] = self.keys.index(key)
                return key
        if good:
            return min(good, key=lambda key: key.lane(model).held(now))
        return min(left, key=lambda key: key.out(model), default=None)

    def ready(self, model: str, tried: list[Key], now: float, *, refused: bool) -> bool:
        """Whether another key may be used at once instead of those that were tried; where all are marked, each is.
        `refused`: the last one was, and is not worth waiting for, so that a mark on those that are left is enough."""
        left = [key for key in self.keys if key not in tried]
        marked = all(key.out(model) > now for key in (left if refused else self.keys))
        return any(marked or (key.out(model) <= now and not key.lane(model).held(now)) for key in left)

    def shortest(self, model: str, now: float) -> float:
        """The seconds until the first key that is only limited may be used; 0 where there is none such."""
        waits = (key.lane(model).held(now) for key in self.keys if key.out(model) <= now)
        return min((wait for wait in waits if wait), default=0.0)

    def settle(self, key: Key, model: str, failure: Failure | None, now: float) -> None:
        """What came of a request with that key for that model: an answer lifts its mark, a refusal and a used-up quota
        set it. Limits of the rate are the lane's."""
        if failure is None:
            key.let_in(model)
            self._renewed = False
        elif failure.kind == "auth" and failure.culprit != PLACE:
            key.leave_out(model, now + REFUSED)
        elif failure.kind == "quota":
            key.leave_out(model, now + (failure.retry_after / 1_000 or SPENT))

    def overloaded(self, key: Key, model: str) -> None:
        """The server has too much to do, as a request with that key met: no other key changes that."""
        for other in self.keys:
            if other is not key:
                other.lane(model).follow(key.lane(model))

    def number(self, key: Key) -> str:
        """What a key is called where people read it."""
        return f"key {self.keys.index(key) + 1} of {len(self.keys)}"

    async def renewed(self, key: Key) -> tuple[Key | None, str]:
        """The key that the command gives after `key` was refused (it may have expired), or None and why there is none.
        Once between two answers; of many who ask at the same time one does."""
        if not self._command:
            return None, ""
        async with self._asking:
            current = self.keys[0]
            if current is not key:
                return current, ""
            if self._renewed:
                return None, ""
            self._renewed = True
            secret, why = await ask(self._command)
            if not secret or secret == key.secret:
                return None, why or "key_command gives the same key again"
            self._former = [*self._former[-3:], key.secret]
            self.keys[0] = Key(secret)
            return self.keys[0], ""


async def ask(command: str) -> tuple[str, str]:
    """The first line that a command prints, or why there is none. Cancelling ends the command with all it started."""
    import os
    import signal

    try:
        process = _started(command)
    except (OSError, ValueError) as error:
        return "", f"key_command failed: {getattr(error, 'strerror', None) or error}"
    ended: int | None = None
    try:
        async with asyncio.timeout(ASKING):
            printed = await _printed(process)
            while (ended := process.poll()) is None:
                await asyncio.sleep(0.01)
    except TimeoutError:
        return "", f"key_command took longer than {ASKING:g} s"
    finally:
        if ended is None:
            os.killpg(process.pid, signal.SIGKILL)  # it has not been reaped: the group is its own
            process.wait()
    if ended:
        return "", f"key_command failed: it ended with {ended}"
    line = printed.decode("utf-8", "replace").strip().partition("\n")[0].strip()
    if not line or not (line.isascii() and line.isprintable()):
        return "", "key_command failed: it printed no key"
    return line, ""


def _started(command: str) -> Popen[bytes]:
    """The command, in a group of its own. Not by asyncio: a cancel while that starts one leaves its children behind."""
    import os
    import shlex
    from subprocess import DEVNULL, PIPE, Popen

    words, env = shlex.split(command), dict(os.environ)  # said, for the process's own memory has the keys overwritten
    return Popen(words, stdin=DEVNULL, stdout=PIPE, stderr=DEVNULL, env=env, start_new_session=True)


async def _printed(process: Popen[bytes]) -> bytes:
    """What it prints, to the end; of more than a key can be, the beginning."""
    reader, out = asyncio.StreamReader(), bytearray()
    pipe, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), process.stdout
    )
    try:
        while data := await reader.read(65_536):
            out += data[: 65_536 - len(out)]
    finally:
        pipe.close()
    return bytes(out)


class Keys:
    """All keys of an event loop. Ask `keys()` for it."""

    def __init__(self) -> None:
        self._keys: dict[tuple[str, str], Key] = {}
        self._rings: dict[tuple[str, str, tuple[str, ...]], Ring] = {}

    def ring(self, endpoint: Endpoint) -> Ring:
        """The keys of an endpoint. Two that name the same key at the same address share what is known of it."""
        secrets = (endpoint.key, *endpoint.keys)
        name = (endpoint.base_url, endpoint.key_command, secrets)
        return self._rings.get(name) or self._made(name, endpoint.key_command, secrets)

    def _made(self, name: tuple[str, str, tuple[str, ...]], command: str, secrets: tuple[str, ...]) -> Ring:
        if len(self._rings) >= MANY:
            self._forget()
        address = shown_url(name[0].strip()).rstrip("/").lower()
        keys = [self._keys.setdefault((address, secret), Key(secret)) for secret in dict.fromkeys(secrets)]
        ring = self._rings[name] = Ring(address, keys, command)
        return ring

    def _forget(self) -> None:
        """Let go of the keys that nothing is known of."""
        now = asyncio.get_running_loop().time()
        self._keys = {name: key for name, key in self._keys.items() if not key.idle(now)}
        kept = set(self._keys.values())
        self._rings = {name: ring for name, ring in self._rings.items() if kept.intersection(ring.keys)}


_found: WeakKeyDictionary[asyncio.AbstractEventLoop, Keys] = WeakKeyDictionary()


def keys() -> Keys:
    """The keys of the running event loop."""
    loop = asyncio.get_running_loop()
    return _found.get(loop) or _found.setdefault(loop, Keys())
