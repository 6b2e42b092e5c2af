"""A session whose rows follow other rules: it rests visibly, and what comes after is kept."""

from __future__ import annotations

import asyncio
import pathlib

import noria
from noria.app.settings import Settings
from noria.core import events as ev
from noria.core.content import Reply, Text
from noria.core.machine import RULES, step
from noria.core.ports import Row
from noria.core.state import Idle, ModelSpec, State
from noria.core.transcript import Prompt
from noria.core.wire import effects_text
from noria.models.catalog import Endpoint
from noria.sessions.store import Store


def test_a_split_journal_rests_as_upgraded_and_goes_on_for_good(tmp_path: pathlib.Path) -> None:
    work, data = tmp_path / "work", tmp_path / "data"
    work.mkdir()
    endpoint = Endpoint(name="m", model="m", base_url="http://127.0.0.1:9/v1")
    settings = Settings(models=(endpoint,), workspace=str(work), data=str(data), mode="goal")

    async def written_by_other_rules() -> None:
        store = Store(data / "journal.db")
        journal = await store.create(work)
        state, rows = State(), list[Row]()
        for k, event in enumerate(
            (
                ev.Opened(RULES, (ModelSpec("m"),)),
                ev.Submitted(Prompt((Text("old"),))),
                ev.Replied(1, Reply((Text("answer"),))),
            ),
            1,
        ):
            state, effects = step(state, event)
            rows.append(Row(k, event, effects_text(effects) if k < 3 else "2:something_else"))
        await journal.append(rows)
        await journal.close()
        await store.close()

    async def main() -> None:
        await written_by_other_rules()
        latest = noria.Which("latest")
        async with await noria.Session.open(settings, latest, model=noria.ScriptedModel(["new answer"])) as session:
            assert session.state.phase == Idle("upgraded")
            assert any("other rules" in n for n in session.notices)
            assert (await session.run("new")).text == "new answer"
        async with await noria.Session.open(settings, latest, model=noria.ScriptedModel([])) as session:
            assert [e.text for e in session.state.transcript if isinstance(e, Prompt)] == ["old", "new"]
            assert session.state.phase == Idle("completed")
            assert not any("other rules" in n for n in session.notices)

    asyncio.run(main())
