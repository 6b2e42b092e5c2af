"""The journal on disk against the one in memory: whatever is done to both, and whatever the disk does, they agree."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from noria.core.errors import JournalError, NotSaved
from noria.core.ports import Row
from noria.sessions.journal import SessionJournal
from noria.sessions.memory import MemoryJournal
from noria.sessions.store import Store
from tests.sessions.journal_kit import some

SNAPSHOT = b'[1,{"type":"state"},[]]'


class Journals(RuleBasedStateMachine):
    """One session; the database may be moved away and back, closed and opened, forked; appends may be wrong."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="noria-test-"))
        self.path, self.away = self.folder / "journal.db", self.folder / "elsewhere.db"
        self.runner = asyncio.Runner()
        self.store = self.runner.run(Store.open(self.path))
        self.journal: SessionJournal = self.runner.run(self.store.create("/tmp"))
        self.model = MemoryJournal()
        self.saved = 0
        self.heard: list[bool] = []
        self.listen()
        self.append(1, True)

    def listen(self) -> None:
        self.heard = []
        self.journal.on_saving = lambda saving, text: self.heard.append(saving)

    @property
    def length(self) -> int:
        return len(list(self.model.rows()))

    @rule(count=st.integers(0, 90), sync=st.booleans())
    def append(self, count: int, sync: bool) -> None:
        rows = some(self.length + 1, count)
        self.runner.run(self.model.append(rows))
        try:
            self.runner.run(self.journal.append(rows, sync=sync))
            assert self.path.exists()
            self.saved = self.length
        except NotSaved:
            assert not self.path.exists()

    @rule(start=st.integers(-2, 3), sender=st.sampled_from(["", "a", "b"]), count=st.integers(1, 3))
    def append_perhaps_wrongly(self, start: int, sender: str, count: int) -> None:
        first = self.length + start
        rows = [Row(row.seq, row.event, "1:wait", row.at, sender) for row in some(first, count)]
        outcomes: list[type | None] = []
        for journal in (self.model, self.journal):
            try:
                self.runner.run(journal.append(rows))
                outcomes.append(None)
            except NotSaved:
                outcomes.append(None)
            except JournalError as error:
                outcomes.append(type(error))
        assert outcomes[0] == outcomes[1]
        if self.path.exists() and outcomes[0] is None:
            self.saved = self.length

    @precondition(lambda self: self.path.exists())
    @rule(data=st.data())
    def snapshot(self, data: st.DataObject) -> None:
        seq = data.draw(st.integers(1, self.length))
        for journal in (self.model, self.journal):
            self.runner.run(journal.snapshot(seq, SNAPSHOT))
        self.saved = self.length
        assert self.journal.latest_snapshot() == self.model.latest_snapshot()

    @precondition(lambda self: self.path.exists())
    @rule()
    def move_away(self) -> None:
        self.path.rename(self.away)

    @precondition(lambda self: self.away.exists())
    @rule()
    def move_back(self) -> None:
        self.away.rename(self.path)

    @precondition(lambda self: self.path.exists())
    @rule(store_too=st.booleans())
    def open_anew(self, store_too: bool) -> None:
        session = self.journal.id
        self.runner.run(self.journal.close())
        if store_too:
            self.runner.run(self.store.close())
            self.store = self.runner.run(Store.open(self.path))
        self.journal = self.runner.run(self.store.open_session(session))
        self.saved = self.length
        self.listen()

    @precondition(lambda self: self.path.exists() and self.saved > 0)
    @rule(data=st.data())
    def fork(self, data: st.DataObject) -> None:
        at = data.draw(st.integers(1, self.saved))
        copy = self.runner.run(self.store.fork(self.journal.id, at))
        assert list(copy.rows()) == list(self.model.rows())[:at]
        self.runner.run(copy.close())
        self.runner.run(self.store.delete(copy.id))

    @rule(data=st.data())
    def read(self, data: st.DataObject) -> None:
        after = data.draw(st.integers(0, self.length))
        assert list(self.journal.rows(after)) == list(self.model.rows(after))
        if after:
            assert self.journal.row(after) == self.model.row(after)

    @invariant()
    def they_agree(self) -> None:
        assert self.journal.last == self.length
        assert self.journal.unsaved == self.length - self.saved
        assert all(a != b for a, b in zip(self.heard, self.heard[1:], strict=False))  # notices alternate
        assert not self.heard or self.heard[0] is False

    def teardown(self) -> None:
        self.runner.run(self.store.close())
        self.runner.close()
        shutil.rmtree(self.folder)


TestJournals = Journals.TestCase
TestJournals.settings = settings(max_examples=30, stateful_step_count=25, deadline=None)
