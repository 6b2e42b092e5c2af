"""A plain yes or no at the terminal.

Owns: whether somebody can be asked, and the question. Must not know: what is done with the answer.
"""

from __future__ import annotations

import asyncio
import os

import msgspec

from noria.cli.progress import BOLD, PLAIN, plain
from noria.core.content import Call


class Terminal:
    """The terminal that controls this process. `open` finds it; it stays open until `close`."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    @staticmethod
    def open() -> Terminal | None:
        """The terminal, or None where there is none or this process is in its background."""
        try:
            fd = os.open("/dev/tty", os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            if os.tcgetpgrp(fd) == os.getpgrp():
                return Terminal(fd)
        except OSError:
            pass
        os.close(fd)
        return None

    async def allows(self, call: Call) -> bool:
        """Whether the person says yes to this call; anything else, and the end of input, is no."""
        os.write(self._fd, f"{question(call)}\n{BOLD}Allow it?{PLAIN} [y/N] ".encode())
        return (await self._line()).strip().lower() in ("y", "yes")

    async def says(self, call: Call) -> bool | str:
        """The person's word on a call: an answer to a question as text, else whether it may run."""
        from noria.cli.questions import Questions

        asked = Questions.of(call)
        if asked is None:
            return await self.allows(call)
        while not asked.done:
            os.write(self._fd, ("\n".join(asked.lines()) + f"\n{asked.hint()}").encode())
            line = await self._line()
            if not line:  # the end of input: nobody is there any more
                return False
            if wrong := asked.take(line):
                os.write(self._fd, f"{wrong}\n".encode())
        return asked.text()

    async def _line(self) -> str:
        loop = asyncio.get_running_loop()
        ready: asyncio.Future[None] = loop.create_future()
        loop.add_reader(self._fd, lambda: ready.done() or ready.set_result(None))
        try:
            await ready
            return os.read(self._fd, 4_096).decode("utf-8", "replace")
        except OSError:
            return ""
        finally:
            loop.remove_reader(self._fd)

    def close(self) -> None:
        """Let go of it."""
        os.close(self._fd)


def question(call: Call) -> str:
    """What is asked for, whole: the real command or path, never a description of it."""
    try:
        args = msgspec.json.decode(call.args, type=dict[str, object])
    except msgspec.MsgspecError:
        args = {}
    lines = [f"{BOLD}{call.name}{PLAIN} asks to run:" if call.name == "run_command" else f"{BOLD}{call.name}{PLAIN}:"]
    for name, value in args.items():
        text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
        text = "\n      ".join(plain(text).splitlines()) or "(empty)"
        lines.append(f"    {text}" if name == "command" else f"    {name}: {text}")
    return "\n".join(lines)
