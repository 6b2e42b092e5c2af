"""What may stand in a transcript, and that appending is cheap and exact."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as some

from noria.core.content import Call, Image, Opaque, Reasoning, Reply, Result, Text, make_call
from noria.core.errors import IllegalReply, IllegalTranscript
from noria.core.transcript import (
    Entry,
    Note,
    Origin,
    Prompt,
    Step,
    Summary,
    Transcript,
    elide,
    last_request,
    shrunk,
    withheld,
)

CALLS = Reply((Text("look"), Call("a", "x"), Call("b", "y")))


def results(*ids: str) -> tuple[Result, ...]:
    return tuple(Result(i, "ok", (Text(i),)) for i in ids)


@pytest.mark.seed("B02", "B08", "W03", "W21", "X09")
@pytest.mark.parametrize("ids", [(), ("a",), ("b", "a"), ("a", "b", "c"), ("a", "a"), ("a", "")])
def test_a_step_whose_results_do_not_pair_with_its_calls_cannot_exist(ids: tuple[str, ...]) -> None:
    with pytest.raises(IllegalTranscript):
        Step(CALLS, results(*ids))
    assert Step(CALLS, results("a", "b")).results[1].text == "b"


def test_a_call_without_an_id_cannot_be_in_a_step() -> None:
    with pytest.raises(IllegalTranscript):
        Step(Reply((make_call("x", "{}"),)), results(""))


@pytest.mark.seed("B05", "Z39")
@pytest.mark.parametrize(
    ("written", "args", "raw", "whole"),
    [
        ("", "{}", "", True),
        ("  \n", "{}", "", True),
        ('{"a": 1.50}', '{"a": 1.50}', "", True),
        ('{"a":', "{}", '{"a":', False),
        ("[1]", "{}", "[1]", True),
        ("null", "{}", "null", True),
        ("nonsense", "{}", "nonsense", True),
        ('{"a": 1} x', "{}", '{"a": 1} x', True),
    ],
)
def test_what_a_model_wrote_becomes_a_call(written: str, args: str, raw: str, whole: bool) -> None:
    """Z39, noria's form: unparsable arguments are kept as they were written, and make a broken call."""
    call = make_call("x", written)
    assert (call.args, call.raw, call.whole, call.broken) == (args, raw, whole, bool(raw))


@given(some.text())
def test_every_text_makes_a_call(written: str) -> None:
    call = make_call("x", written, cut=True)
    assert call.args == "{}" or call.args == written.strip()


@pytest.mark.parametrize("args", ["", "[]", "null", "{", '"x"', "{} {}"])
def test_a_call_whose_arguments_are_no_object_cannot_exist(args: str) -> None:
    with pytest.raises(IllegalReply):
        Call("c", "x", args)


@pytest.mark.parametrize("blocks", [(), (Text(" \n"),), (Reasoning("hm"),), (Opaque("{}"),)])
def test_a_reply_that_says_nothing_cannot_exist(blocks: tuple[Text | Reasoning | Opaque, ...]) -> None:
    with pytest.raises(IllegalReply):
        Reply(blocks)
    if blocks:
        assert Reply(blocks, "paused").blocks == blocks


ENTRIES: list[Entry] = [Prompt((Text("p"),)), Step(CALLS, results("a", "b")), Note("go_on"), Step(Reply((Text("t"),)))]


@given(some.lists(some.sampled_from(ENTRIES), max_size=200))
def test_appending_gives_what_building_gives(entries: list[Entry]) -> None:
    pairs = [(e, Origin(k)) for k, e in enumerate([ENTRIES[0], *entries])]
    grown = Transcript()
    for entry, origin in pairs:
        grown = grown.append(entry, origin)
    assert grown == Transcript.of(iter(pairs))
    assert list(grown) == [e for e, _ in pairs] and list(grown.pairs()) == pairs
    assert [grown[k] for k in range(len(grown))] == list(grown)
    assert [grown.origin(k).row for k in range(len(grown))] == list(range(len(pairs)))
    assert grown.last is pairs[-1][0]


def test_a_summary_stands_first_or_nowhere_and_notes_and_steps_never_first() -> None:
    summary, first = Summary("s"), Transcript().append(ENTRIES[0], Origin(1))
    with pytest.raises(IllegalTranscript):
        first.append(summary, Origin(2))
    for entry in ENTRIES[1:]:
        with pytest.raises(IllegalTranscript):
            Transcript().append(entry, Origin(1))
        with pytest.raises(IllegalTranscript):
            Transcript.of(iter([(entry, Origin(1))]))
    assert Transcript().append(summary, Origin(1)).summarised == 1
    assert first.summarised == 0


@pytest.mark.seed("Z01", "Z04", "B10")
def test_shrinking_replaces_the_old_summary_and_keeps_the_turns_prompts() -> None:
    old = Transcript.of(
        (e, Origin(k))
        for k, e in enumerate([Summary("old"), ENTRIES[0], ENTRIES[1], Prompt((Text("now"),)), ENTRIES[1], ENTRIES[1]])
    )
    new = shrunk(old, (Summary("new"), Origin(9)), 5, 3, frozenset({5}))
    assert [type(e).__name__ for e in new] == ["Summary", "Prompt", "Step"]
    assert new[0] == Summary("new") and new[1] == Prompt((Text("now"),))
    assert new[2] == elide(ENTRIES[1]) and new.origin(2).elided


@pytest.mark.seed("X08")
def test_only_images_since_the_last_good_reply_are_withheld() -> None:
    image = Image("sha256:a", "image/png", 5)
    shot = Step(Reply((Call("a", "x"),)), (Result("a", "ok", (image,)),))
    made = Transcript.of((e, Origin(1)) for e in [Prompt((image,)), shot, Prompt((Text("and"), image))])
    fewer = withheld(made)
    assert fewer is not None
    assert [bool(o.withheld) for _, o in fewer.pairs()] == [False, True, True]
    assert fewer[0] == Prompt((image,))
    assert withheld(fewer) is None


def test_the_last_request_is_a_persons() -> None:
    made = Transcript.of((e, Origin(1)) for e in [ENTRIES[0], ENTRIES[3], Prompt((Text("hook"),), "hook")])
    assert last_request(made) == 0
    assert last_request(Transcript()) == 0
