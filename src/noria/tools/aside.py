"""Work in a thread beside the loop that nobody has to wait for: neither a cancel nor the end of the process does.

Knows nothing of the work. (The loop's own threads are joined at the end of the process.)
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")


async def aside(work: Callable[[], T]) -> T:
    """What the work returns or raises. Cancelled, it is left behind and what it returns is dropped."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[T] = loop.create_future()

    def settle(done: Future[T]) -> None:
        if answer.done():
            return
        if error := done.exception():
            answer.set_exception(error)
        else:
            answer.set_result(done.result())

    def run() -> None:
        done: Future[T] = Future()
        try:
            done.set_result(work())
        except Exception as error:  # noqa: BLE001 - it is raised again where it is awaited
            done.set_exception(error)
        try:
            loop.call_soon_threadsafe(settle, done)
        except RuntimeError:
            return  # the loop is closed: nobody waits any more

    threading.Thread(target=run, name="noria-aside", daemon=True).start()
    return await answer
