"""Whether a request begins as the one before did, and who is told where it does not."""

from __future__ import annotations

import asyncio

import pytest

from noria.core.ports import ModelRequest, ToolSpec
from noria.core.state import ModelSpec
from noria.core.transcript import Entry, Summary, Transcript, elide, withhold
from noria.models.client import Chain
from noria.models.prefix import Begun, Changed, changed
from noria.models.scripted import ScriptedModel
from tests.models.bodies import PICTURE
from tests.models.kit import call, history, ok, prompt, step

FIRST = prompt("look", PICTURE)
LONG = [step("", (call(f"c{k}_0"), ok(f"c{k}_0", "r" * 50))) for k in range(80)]
BEFORE = history(FIRST, *LONG)


def begun(
    transcript: Transcript = BEFORE, model: str = "m", system: str = "s", tools: tuple[ToolSpec, ...] = ()
) -> Begun:
    return Begun(model, system, transcript, tools)


def test_what_goes_on_changed_nothing() -> None:
    after = BEFORE.append(LONG[0], BEFORE.origin(1))
    assert changed(begun(), begun(after)) == Changed()
    assert changed(begun(after), begun()) == Changed(), "back to an earlier place: the cache is still there"
    equal = "".join(["s"])
    assert changed(begun(), begun(system=equal)) == Changed()


@pytest.mark.case("F04")
def test_what_changed_is_named() -> None:
    tool = ToolSpec("t", "", "{}")
    assert changed(begun(), begun(model="n")).what == ("model",)
    assert changed(begun(), begun(system="other")).what == ("system",)
    assert changed(begun(tools=(tool,)), begun(tools=())).what == ("tools",)
    found = changed(begun(), begun(history(FIRST, LONG[1], *LONG[2:]), "n", "other"))
    assert found == Changed(("model", "system", "history"))
    assert found.text.startswith(
        "another model answers and the system prompt changed and what was said before changed: "
    )


@pytest.mark.parametrize(
    "view",
    [
        [Summary("so far"), *LONG[60:]],
        [FIRST, *map(elide, LONG[:5]), *LONG[5:]],
        [withhold(FIRST), *LONG],
    ],
)
def test_room_that_was_made_is_meant(view: list[Entry]) -> None:
    """A compaction, an elision, a withheld image: they have notices of their own."""
    assert changed(begun(), begun(history(*view))) == Changed(("history",), meant=True)


@pytest.mark.case("F04")
def test_it_is_told_once_and_only_then() -> None:
    told: list[tuple[str, str]] = []
    chain = Chain({"m": ScriptedModel(["Hi"] * 6), "n": ScriptedModel(["Hi"] * 6)}, lambda *said: told.append(said))

    def ask(transcript: Transcript, system: str = "s", model: str = "m") -> None:
        request = ModelRequest(1, ModelSpec(model, 0), 0, "free", system, transcript)
        asyncio.run(chain.reply(request, lambda _: None))

    ask(BEFORE)
    ask(BEFORE.append(LONG[0], BEFORE.origin(1)))
    ask(BEFORE, model="n")
    assert told == []
    ask(BEFORE, system="another prompt")
    assert len(told) == 1 and told[0][0] == "warning" and "the system prompt changed" in told[0][1]
    ask(BEFORE, system="another prompt")
    ask(history(Summary("so far"), *LONG[60:]), system="another prompt")
    assert len(told) == 1
    ask(history(Summary("more"), *LONG[70:]), system="a third")
    assert told[1][0] == "info"
    ask(history(FIRST, *LONG[5:]), system="a third")
    assert told[2][0] == "warning" and "what was said before changed" in told[2][1]
