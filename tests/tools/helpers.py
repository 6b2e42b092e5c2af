"""A workspace with the built-in tools and real spill files, and what the tests look for in the process table."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from noria.context.spill import SpillFolder
from noria.core.content import Call, Result, make_call
from noria.tools.environ import environment
from noria.tools.process import Processes
from noria.tools.registry import ToolSet, builtin
from noria.tools.schema import Tool
from noria.tools.toolbox import Post, Toolbox
from noria.tools.workspace import Workspace

T = TypeVar("T")


def call(name: str, written: str = "", id: str = "c1", **args: Any) -> Call:
    """The call that a model would have made with these arguments, or with what it wrote."""
    text = written or msgspec.json.encode(args).decode()
    return msgspec.structs.replace(make_call(name, text), id=id)


class Bench:
    """A toolbox for the folder `tmp/w`, its outputs in `tmp/spill`."""

    def __init__(
        self,
        tmp: Path,
        *extra: Tool,
        env: dict[str, str] | None = None,
        post: Iterable[Post] = (),
        spill: bool = True,
    ) -> None:
        self.root = tmp / "w"
        self.root.mkdir(exist_ok=True)
        self.spills = tmp / "spill"
        tools = ToolSet((*builtin(), *extra))
        processes = Processes(environment() if env is None else env)
        folder = SpillFolder(str(self.spills)) if spill else None
        self.box = Toolbox(tools, Workspace(str(self.root)), processes, folder, post=tuple(post))
        self.effect = 0

    async def result(self, name: str, written: str = "", id: str = "c1", **args: Any) -> Result:
        """Prepare and run one call."""
        self.effect += 1
        ready = await self.box.prepare(self.effect, call(name, written, id, **args))
        return await ready.run()

    def do(self, name: str, written: str = "", **args: Any) -> Result:
        """The same from a plain test."""
        return self.go(lambda: self.result(name, written, **args))

    def go(self, work: Callable[[], Awaitable[T]]) -> T:
        """Run some work in a loop of its own, and end what is left after it."""

        async def whole() -> T:
            try:
                return await work()
            finally:
                await self.box.close()

        return asyncio.run(whole())

    def file(self, name: str, data: bytes | str) -> Path:
        """A file in the workspace."""
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data.encode() if isinstance(data, str) else data)
        return path

    def leftovers(self) -> list[str]:
        """Temporary files that somebody forgot."""
        return [str(p) for p in self.root.rglob(".noria-*")]


def living(mark: str) -> list[int]:
    """The processes (no zombies, not this one) that have a text in their command line."""
    found: list[int] = []
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) == os.getpid():
            continue
        try:
            line = Path(f"/proc/{name}/cmdline").read_bytes()
        except OSError:
            continue
        if mark.encode() in line:
            found.append(int(name))
    return found


def soon(condition: Callable[[], Any], seconds: float = 3.0) -> bool:
    """Whether something becomes true in time."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if condition():
            return True
        time.sleep(0.01)
    return bool(condition())


def as_nobody(work: Callable[[], str]) -> str:
    """What some work returns when it is done by a user without rights (as root, in a child process)."""
    if os.geteuid() != 0:
        return work()
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        said = "failed"
        try:
            os.setgroups([])
            os.setresgid(65534, 65534, 65534)
            os.setresuid(65534, 65534, 65534)
            said = work()
        except BaseException as error:  # noqa: BLE001 - it is told to the parent
            said = f"raised {error!r}"
        finally:
            os.write(writing, said.encode())
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        said = pipe.read().decode()
    os.waitpid(pid, 0)
    return said
