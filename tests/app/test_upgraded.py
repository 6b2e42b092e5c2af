"""A session whose rows follow other rules: it rests visibly, and what comes after is kept."""

from __future__ import annotations

import asyncio
import pathlib

import pytest

import noria
from noria.app.settings import Settings
from noria.app.which import Kind
from noria.core import events as ev
from noria.core.content import Reply, Text
from noria.core.machine import RULES, step
from noria.core.ports import Row
from noria.core.state import Idle, ModelSpec, State
from noria.core.transcript import Prompt
from noria.core.wire import effects_text
from noria.models.catalog import Endpoint
from noria.sessions.store import Store


def settings_in(folder: pathlib.Path) -> Settings:
    (folder / "work").mkdir()
    endpoint = Endpoint(name="m", model="m", base_url="http://127.0.0.1:9/v1")
    return Settings(models=(endpoint,), workspace=str(folder / "work"), data=str(folder / "data"), mode="goal")


def test_a_split_journal_rests_as_upgraded_and_goes_on_for_good(tmp_path: pathlib.Path) -> None:
    settings = settings_in(tmp_path)
    work, data = tmp_path / "work", tmp_path / "data"

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
        never = noria.ScriptedModel([], delay=60)
        async with await noria.Session.open(settings, latest, model=never) as session:
            assert session.state.phase == Idle("upgraded")
            assert any("other rules" in n for n in session.notices)
            await session.submit("new")  # and it dies before it comes to rest
        async with await noria.Session.open(settings, latest, model=noria.ScriptedModel(["new answer"])) as session:
            assert not any("other rules" in n for n in session.notices)
            assert await session.go_on()
            assert (await session.rest()).text == "new answer"
        async with await noria.Session.open(settings, latest, model=noria.ScriptedModel([])) as session:
            assert [e.text for e in session.state.transcript if isinstance(e, Prompt)] == ["old", "new"]
            assert session.state.phase == Idle("completed")
            assert not any("other rules" in n for n in session.notices)

    asyncio.run(main())


@pytest.mark.parametrize("kind", ["latest", "fork"])
@pytest.mark.parametrize("rules", [RULES, RULES + 1, 99])
def test_a_journal_of_which_no_row_can_be_followed_begins_anew_and_says_so(
    tmp_path: pathlib.Path, rules: int, kind: Kind
) -> None:
    """Its first row already names rules that this version has not, or gave out other effects. The rows stay."""
    settings = settings_in(tmp_path)

    async def written_by_other_rules() -> str:
        store = Store(tmp_path / "data" / "journal.db")
        journal = await store.create(tmp_path / "work")
        opened = Row(1, ev.Opened(rules, (ModelSpec("m"),)), "" if rules != RULES else "1:unheard_of")
        await journal.append([opened, Row(2, ev.Submitted(Prompt((Text("old"),))), "1:call_model")])
        await journal.close()
        await store.close()
        return journal.id

    async def main() -> None:
        id = await written_by_other_rules()
        which = noria.Which(kind, id if kind == "fork" else "")
        async with await noria.Session.open(settings, which, model=noria.ScriptedModel(["new answer"])) as session:
            assert (session.state.phase, session.state.rules) == (Idle("upgraded"), RULES)
            told = next(n for n in session.notices if "other rules" in n)
            assert "rows 1 to 2" in told
            assert (f"rules {rules}" in told) == (rules != RULES)
            assert (await session.run("new")).text == "new answer"
        latest = noria.Which("latest")
        async with await noria.Session.open(settings, latest, model=noria.ScriptedModel(["more"])) as session:
            assert not any("other rules" in n for n in session.notices)
            assert (await session.run("newer")).text == "more"
            assert [e.text for e in session.state.transcript if isinstance(e, Prompt)] == ["new", "newer"]

    asyncio.run(main())
