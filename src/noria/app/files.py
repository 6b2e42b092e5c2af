"""Which files a turn's calls created, changed or deleted: a toolbox that looks before and after.

Owns: the list. Must not know: what any tool does; a call's claims say which paths it writes.
"""

from __future__ import annotations

import os

from noria.app.report import Files
from noria.core.content import Call, Result
from noria.core.events import Handle
from noria.core.ports import Claims, Execution, Toolbox


class WatchedToolbox:
    """`core.ports.Toolbox` that passes everything on and keeps `files`. What a command does to files is not seen."""

    def __init__(self, inner: Toolbox, workspace: str) -> None:
        self._inner, self._workspace = inner, workspace
        self.files = Files()

    def begin(self) -> None:
        """A new turn."""
        self.files = Files()

    def claims(self, call: Call) -> Claims:
        """As the toolbox says."""
        return self._inner.claims(call)

    def repeatable(self, call: Call) -> bool:
        """As the toolbox says."""
        return self._inner.repeatable(call)

    async def prepare(self, effect: int, call: Call) -> Execution:
        """As the toolbox does; calls that write named paths are watched."""
        execution = await self._inner.prepare(effect, call)
        claims = self._inner.claims(call)
        if claims.everything or not claims.writes:
            return execution
        return _Watched(execution, claims.writes, self)

    def note(self, path: str, before: bool, after: bool, failed: bool) -> None:
        """One path after one call: whether it was there before and after, and whether the call failed."""
        files, name = self.files, self._name(path)
        if failed:
            _add(files.failed, name)
        elif after and not before:
            _add(files.created, name)
        elif before and not after:
            if name in files.created:
                files.created.remove(name)
            else:
                _add(files.deleted, name)
        elif after and name not in files.created:
            _add(files.changed, name)

    def _name(self, path: str) -> str:
        inside = path.startswith(self._workspace.rstrip("/") + "/")
        return os.path.relpath(path, self._workspace) if inside else path


def _add(names: list[str], name: str) -> None:
    if name not in names:
        names.append(name)


class _Watched:
    def __init__(self, inner: Execution, paths: tuple[str, ...], watcher: WatchedToolbox) -> None:
        self._inner, self._paths, self._watcher = inner, paths, watcher

    @property
    def handle(self) -> Handle:
        return self._inner.handle

    async def run(self) -> Result:
        before = [os.path.lexists(p) for p in self._paths]
        result = await self._inner.run()
        for path, was in zip(self._paths, before, strict=True):
            self._watcher.note(path, was, os.path.lexists(path), result.status != "ok")
        return result

    async def stop(self) -> None:
        await self._inner.stop()
