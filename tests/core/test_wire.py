"""The stored form: every event comes back as it was, a state comes back from references, damage is a clear error."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from noria.core import wire
from noria.core.content import Block, Call, Image, Opaque, Reasoning, Reply, Result, Text, Usage, make_call
from noria.core.effects import CallModel, Cancel, CheckStop, Compact, Decide, Effect, Owed, RunTool, Wait
from noria.core.errors import IllegalEvent, JournalDamaged
from noria.core.events import (
    Allow,
    Ask,
    CompactAsked,
    Compacted,
    Continued,
    Decided,
    Elapsed,
    Event,
    External,
    Failed,
    FailureKind,
    Handle,
    Interrupted,
    Launched,
    Mode,
    Opened,
    Reconfigured,
    Refuse,
    Reopened,
    Replied,
    Returned,
    StopChecked,
    Submitted,
)  # fmt: skip
from noria.core.machine import RULES, step
from noria.core.state import Idle, Limits, ModelSpec, Policy, State
from noria.core.transcript import Note, Origin, Prompt, Step, Summary, Transcript
from noria.core.wire import (
    VERSION,
    clean,
    decode_event,
    decode_state,
    effects_text,
    encode_event,
    encode_state,
    outcome_of,
)  # fmt: skip

GOLDEN = Path(__file__).parent / "golden_events.json"

# -- every kind of event, full and bare --------------------------------------------------------------------------

USAGE = Usage(1, 200, 30, 100, 7, 1_234, 1)
REPLY = Reply(
    (
        Reasoning("hm", "m1", '{"sig":"x"}'),
        Text("I look."),
        Opaque('{"k":1}', "m1"),
        Call("", "read_file", '{"path":"a"}', wire_id="t1"),
        Call("", "grep", raw="{broken", whole=False),
    ),
    "cut",
    "m1",
)
RESULT = Result("c4_0", "ok", (Text("six"), Image("sha256:ab", "image/png", 9, True)), spill="/tmp/s")
PROMPT = Prompt((Text("fix it"), Image("sha256:ab", "image/png", 9)), "hook", "<memory>tabs</memory>")

SAMPLES: dict[str, Event] = {
    "opened": Opened(
        1, (ModelSpec("m1", 8_000), ModelSpec("m2")), Limits(5, 6, 7, 8),
        Policy(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14), "You are noria.", "sha256:t", 900,
    ),
    "opened, bare": Opened(1, (ModelSpec("m1"),)),
    "reopened": Reopened(2, "You are noria.", "sha256:t", 901),
    "reopened, bare": Reopened(2),
    "submitted": Submitted(PROMPT, "follow_up"),
    "submitted, bare": Submitted(Prompt((Text("go"),))),
    "interrupted": Interrupted(REPLY),
    "interrupted, bare": Interrupted(),
    "continued": Continued(),
    "compact_asked": CompactAsked("keep the plan"),
    "compact_asked, bare": CompactAsked(),
    "reconfigured": Reconfigured(Limits(1), (ModelSpec("m2", 5),)),
    "replied": Replied(4, REPLY, USAGE),
    "replied, paused": Replied(4, Reply((Reasoning("hm"),), "paused")),
    "replied, bare": Replied(4, Reply((Text("done"),))),
    "failed": Failed(4, "bad_request", 1_500, "image", USAGE, "no such parameter"),
    "failed, bare": Failed(4, "internal"),
    "elapsed": Elapsed(4),
    "decided, allow": Decided(4, Allow('{"path":"b"}'), USAGE),
    "decided, refuse": Decided(4, Refuse(Result("", "denied", (Text("no"),)))),
    "decided, ask": Decided(4, Ask()),
    "decided, external": Decided(4, External()),
    "launched": Launched(4, Handle(77, 123_456, "/tmp/s")),
    "launched, bare": Launched(4),
    "returned": Returned(4, RESULT, USAGE),
    "returned, bare": Returned(4, Result("", "interrupted", code="outcome_unknown")),
    "compacted": Compacted(4, "They fixed it.", 7, (8, 9), 400, '{"item":1}', USAGE),
    "compacted, bare": Compacted(4, None),
    "stop_checked": StopChecked(4, PROMPT, USAGE),
    "stop_checked, bare": StopChecked(4),
}  # fmt: skip


def test_the_stored_form_of_every_event_is_pinned() -> None:
    """A difference here means that old journals would be read wrongly: raise VERSION and write an upcaster."""
    assert {name: json.loads(encode_event(event)) for name, event in SAMPLES.items()} == json.loads(GOLDEN.read_text())


def test_what_is_pinned_is_read_back_with_the_same_defaults() -> None:
    """Defaults are not written, so a changed default would change old journals in silence; the sample would notice."""
    for name, raw in json.loads(GOLDEN.read_text()).items():
        assert decode_event(json.dumps(raw)) == SAMPLES[name]
    bare = decode_event('{"type":"opened","rules":1,"models":[{"type":"model","name":"m1"}]}')
    assert bare == Opened(
        1, (ModelSpec("m1", 0),), Limits(40, 0, 0, 0),
        Policy(4, 500, 30_000, 120_000, 3, 3, 3, 3, 5, 60_000, 835, 30_000, 900, 1_100), "", "", 0,
    )  # fmt: skip


def test_every_event_has_a_sample() -> None:
    pinned = {type(event) for event in SAMPLES.values()}
    verdicts = {type(event.verdict) for event in SAMPLES.values() if isinstance(event, Decided)}
    assert pinned == set(Event.__args__) and verdicts == {Allow, Refuse, Ask, External}


# -- the law: what is read is what was written -------------------------------------------------------------------

_numbers = st.integers(0, 2**40)
_words = st.text(max_size=30)
_object = st.dictionaries(_words, st.none() | st.booleans() | st.integers() | _words, max_size=3).map(json.dumps)
_images = st.builds(Image, _words, _words, _numbers, st.booleans())
_parts = st.lists(st.builds(Text, _words) | _images, max_size=3).map(tuple)
_calls = st.builds(Call, _words, _words, _object, _words, st.booleans(), _words)
_block = st.builds(Text, _words) | st.builds(Reasoning, _words, _words, _words) | st.builds(Opaque, _words) | _calls
_ends = st.sampled_from(["stop", "cut", "paused"])


def _says_something(blocks: tuple[Block, ...]) -> bool:
    return any(isinstance(b, Call) or (isinstance(b, Text) and b.text.strip()) for b in blocks)


_replies = st.builds(Reply, st.lists(_block, min_size=1, max_size=4).map(tuple).filter(_says_something), _ends, _words)
_usage = st.builds(Usage, *[_numbers] * 7)
_status = st.sampled_from(["ok", "error", "denied", "interrupted"])
_codes = st.sampled_from(["", "not_started", "outcome_unknown", "cut", "limit", "unanswered", "internal"])
_results = st.builds(Result, _words, _status, _parts, _codes, _words, st.booleans())
_prompts = st.builds(Prompt, _parts, st.sampled_from(["person", "hook", "task"]), _words)
_limits = st.builds(Limits, *[_numbers] * 4)
_models = st.lists(st.builds(ModelSpec, _words, _numbers), max_size=3).map(tuple)
_ids = st.integers(1, 2**40)
_kinds = st.sampled_from(["rate_limited", "truncated", "empty", "context_overflow", "auth", "bad_request", "internal"])
_verdicts = st.builds(Allow, _object) | st.builds(Refuse, _results) | st.just(Ask()) | st.just(External())
_maybe = st.none() | _words
EVENTS: st.SearchStrategy[Event] = st.one_of(
    st.builds(Opened, _numbers, _models, _limits, st.builds(Policy, *[_numbers] * 14), _words, _words, _numbers),
    st.builds(Reopened, _numbers, _maybe, _maybe, st.none() | _numbers),
    st.builds(Submitted, _prompts, st.sampled_from(["steer", "follow_up"])),
    st.builds(Interrupted, st.none() | _replies),
    st.just(Continued()),
    st.builds(CompactAsked, _words),
    st.builds(Reconfigured, _limits, _models),
    st.builds(Replied, _ids, _replies, _usage),
    st.builds(Failed, _ids, _kinds, _numbers, _words, _usage, _words),
    st.builds(Elapsed, _ids),
    st.builds(Decided, _ids, _verdicts, _usage),
    st.builds(Launched, _ids, st.builds(Handle, _numbers, _numbers, _words)),
    st.builds(Returned, _ids, _results, _usage),
    st.builds(Compacted, _ids, _maybe, _numbers, st.lists(_numbers, max_size=4).map(tuple), _numbers, _words, _usage),
    st.builds(StopChecked, _ids, st.none() | _prompts, _usage),
)


@given(EVENTS)
@settings(max_examples=400, deadline=None)
def test_an_event_is_read_as_it_was_written(event: Event) -> None:
    data = encode_event(event)
    assert decode_event(data) == event
    assert decode_event(data.decode()) == event
    assert clean(event) is event
    assert b"\n" not in data  # one line, in every export too


def test_numbers_of_any_size_are_kept() -> None:
    huge = Replied(1, Reply((Text("x"),)), Usage(input=10**30))
    assert decode_event(encode_event(huge)) == huge


# -- half a character --------------------------------------------------------------------------------------------


def test_a_lone_surrogate_is_replaced_at_the_border_and_never_breaks_the_encoding() -> None:
    dirty = Returned(3, Result("", "ok", (Text("name: caf\udce9 \ud83d\ude00 \ud83d!"),)))
    tidy = Returned(3, Result("", "ok", (Text("name: caf\ufffd \U0001f600 \ufffd!"),)))
    assert clean(dirty) == tidy
    assert decode_event(encode_event(dirty)) == tidy
    assert clean(tidy) is tidy


@given(st.text(alphabet=st.characters(), min_size=1).filter(lambda text: bool(text.strip())))
@settings(deadline=None)
def test_text_of_any_code_points_can_be_written(text: str) -> None:
    event = Replied(1, Reply((Text(text),)))
    assert decode_event(encode_event(event)) == clean(event)


def test_a_state_with_a_lone_surrogate_can_be_written_too() -> None:
    state = State(returned=(Prompt((Text("caf\udce9"),)),))
    assert decode_state(encode_state(state), _nothing).returned == (Prompt((Text("caf\ufffd"),)),)


# -- damage ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "data",
    [
        b"", b"{", b"null", b"[]", b'{"type":"elapsed"}', b'{"type":"nothing","effect":1}', b'{"effect":1}',
        b'{"type":"elapsed","effect":1.5}', b'{"type":"elapsed","effect":true}', b'{"type":"elapsed","effect":"1"}',
        b'{"type":"replied","effect":1,"reply":{"type":"reply","blocks":[]}}', b'{"type":"elapsed","effect":1}{}',
        b'{"type":"compact_asked","steer":"\xff"}', b'{"type":"compact_asked","steer":"\\ud800"}',
        b'{"type":"elapsed","effect":1,"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    ],
    ids=lambda data: data[:30].decode("latin-1"),
)  # fmt: skip
def test_damaged_bytes_are_one_clear_error(data: bytes) -> None:
    with pytest.raises(JournalDamaged) as error:
        decode_event(data)
    assert str(error.value).startswith("an event cannot be read: ") and "\n" not in str(error.value)


@pytest.mark.case("G01")
@pytest.mark.parametrize("name", ["replied", "returned", "opened"])
def test_an_event_cut_at_any_byte_is_damaged_never_another_event(name: str) -> None:
    """G01, noria's form: a row is atomic in SQLite; should its text be torn all the same, it is told, not guessed."""
    data = encode_event(SAMPLES[name])
    for cut in range(len(data)):
        with pytest.raises(JournalDamaged):
            decode_event(data[:cut])


@given(st.sampled_from(sorted(SAMPLES)), st.integers(0, 10_000), st.integers(0, 255))
@settings(max_examples=300, deadline=None)
def test_a_changed_byte_is_another_event_or_damage_but_no_other_error(name: str, at: int, byte: int) -> None:
    data = bytearray(encode_event(SAMPLES[name]))
    data[at % len(data)] = byte
    try:
        event = decode_event(bytes(data))
    except JournalDamaged:
        return
    assert decode_event(encode_event(event)) == event


# -- versions ----------------------------------------------------------------------------------------------------


def test_an_old_event_is_led_through_every_version_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two made-up old versions: -1 called the effect `answers`, 0 called the event `slept`."""
    seen: list[int] = []

    def rename_field(raw: dict[str, object]) -> dict[str, object]:
        seen.append(VERSION - 2)
        return {"effect" if key == "answers" else key: value for key, value in raw.items()}

    def rename_event(raw: dict[str, object]) -> dict[str, object]:
        seen.append(VERSION - 1)
        return {**raw, "type": "elapsed"} if raw["type"] == "slept" else raw

    monkeypatch.setitem(wire.UPCASTERS, VERSION - 2, rename_field)
    monkeypatch.setitem(wire.UPCASTERS, VERSION - 1, rename_event)
    assert decode_event(b'{"type":"slept","answers":9}', VERSION - 2) == Elapsed(9)
    assert seen == [VERSION - 2, VERSION - 1]
    assert decode_event(b'{"type":"slept","effect":9}', VERSION - 1) == Elapsed(9)
    with pytest.raises(JournalDamaged, match="an event cannot be read"):
        decode_event(b'{"effect":9}', VERSION - 1)  # the upcaster misses its key: damage, not a KeyError


def test_a_newer_or_unknown_version_says_so() -> None:
    with pytest.raises(JournalDamaged, match=r"newer noria .* upgrade noria"):
        decode_event(b'{"type":"elapsed","effect":9}', VERSION + 1)
    with pytest.raises(JournalDamaged, match="nothing leads on from version"):
        decode_event(b'{"type":"elapsed","effect":9}', VERSION - 1)


# -- effects -----------------------------------------------------------------------------------------------------


def test_the_effects_of_a_row_are_ids_and_kinds_in_their_order() -> None:
    call = Call("c1_0", "grep")
    effects: tuple[Effect, ...] = (
        Cancel((3, 4)), CallModel(12, 0), Wait(13, 5, "time"), Decide(14, call), RunTool(15, call), Compact(16, "line"),
        CheckStop(17),
    )  # fmt: skip
    text = "cancel:3,4 12:call_model 13:wait 14:decide 15:run_tool 16:compact 17:check_stop"
    assert effects_text(effects) == text
    assert effects_text(effects[2:0:-1]) == "13:wait 12:call_model"
    assert effects_text(()) == ""


# -- snapshots: along random legal runs --------------------------------------------------------------------------


def _nothing(seq: int) -> Event:
    raise AssertionError(f"row {seq} is not needed")


IMAGE = Image("sha256:cd", "image/png", 10)


class Wild:
    """A session that lives a random legal life, and its rows."""

    def __init__(self, seed: int) -> None:
        self.random, self.rows = random.Random(seed), []
        self.state = State()
        limits = Limits(self.random.choice([3, 40]), 0, 0, self.random.choice([0, 9_000]))
        self.feed(Opened(RULES, (ModelSpec("m1", 900), ModelSpec("m2", 4_000)), limits, system="Be brief."))

    rows: list[Event]

    def feed(self, event: Event) -> None:
        """Fold it, unless it is illegal or late."""
        try:
            after, _ = step(self.state, event)
        except IllegalEvent:
            return
        if after is not self.state:
            self.state = after
            self.rows.append(event)

    def row(self, seq: int) -> Event:
        return self.rows[seq - 1]

    def go(self, events: int) -> Iterator[State]:
        """The states of the run, one after another."""
        while len(self.rows) < events:
            owed = self.state.owed
            answer = owed and self.random.random() < 0.85
            self.feed(self.answer(self.random.choice(owed)) if answer else self.person())
            yield self.state

    def usage(self) -> Usage:
        return Usage(1, self.random.choice([0, self.state.weight + 50]), 20, cost=5)

    def parts(self) -> tuple[Text | Image, ...]:
        text = Text("word " * self.random.randint(1, 60))
        return (text, IMAGE) if self.random.random() < 0.3 else (text,)

    def person(self) -> Event:
        pick = self.random.random()
        if pick < 0.6:
            mode: Mode = self.random.choice(["steer", "follow_up"])
            return Submitted(Prompt(self.parts(), memory=self.random.choice(["", "m"])), mode)
        if pick < 0.75:
            return Interrupted(self.reply() if self.random.random() < 0.7 else None)
        if pick < 0.85:
            return self.random.choice([Continued(), CompactAsked("keep it")])
        if pick < 0.95:
            return Reconfigured(self.state.limits, self.state.models)
        return Reopened(RULES, "Be very brief.")

    def reply(self) -> Reply:
        blocks: list[Block] = [Text("I say " * self.random.randint(1, 20)), Reasoning("hm", "m1", "{}")]
        for _ in range(self.random.choice([0, 0, 1, 1, 3])):
            written = self.random.choice(['{"a":1}', "{broken", '{"b":2}'])
            blocks.append(make_call("tool", written, wire_id="same", cut=self.random.random() < 0.1))
        return Reply(tuple(blocks), self.random.choice(["stop", "stop", "stop", "cut", "paused"]), "m1")

    def answer(self, effect: Owed) -> Event:
        chance = self.random.random()
        if chance < 0.12 and not isinstance(effect, Wait):
            kind: FailureKind = self.random.choice(
                ["network", "empty", "context_overflow", "auth", "bad_request", "internal"]
            )
            return Failed(effect.id, kind, culprit="image", usage=self.usage())
        match effect:
            case CallModel():
                return Replied(effect.id, self.reply(), self.usage())
            case Wait():
                return Elapsed(effect.id)
            case Decide(call=call, waits=waits):
                if waits == "client":
                    return Returned(effect.id, Result("", "ok", self.parts()))
                refused = Refuse(Result("", "denied", self.parts()))
                choice = self.random.choice([Allow(call.args), Allow(call.args), refused, Ask(), External()])
                return Decided(effect.id, refused if call.broken else choice)
            case RunTool(launched=launched):
                done = Returned(effect.id, Result("x", "ok", self.parts()), self.usage())
                return done if launched else Launched(effect.id, Handle(self.random.randint(2, 9), 1, "/tmp/s"))
            case Compact():
                return self.compacted(effect)
            case CheckStop():
                block = Prompt((Text("not yet"),), "hook") if chance < 0.3 else None
                return StopChecked(effect.id, block)

    def compacted(self, effect: Compact) -> Event:
        lowest = (
            1 if any(isinstance(e, Summary) for e in self.state.transcript) else 0
        )  # a new summary replaces the old
        keep = self.random.randint(lowest, max(lowest, self.state.transcript.last_step()))
        elide = tuple(range(keep, len(self.state.transcript), 2))
        summary = self.random.choice([None, "They talked.", "They went on."])
        size = self.state.context * self.random.choice([50, 95]) // 100
        return Compacted(effect.id, summary, keep if summary else 0, elide, size, self.random.choice(["", "{}"]))


@pytest.mark.parametrize("seed", range(60))
def test_a_state_comes_back_from_its_references_after_every_event(seed: int) -> None:
    wild = Wild(seed)
    for state in wild.go(90):
        body = encode_state(state)
        again = decode_state(body, wild.row)
        assert again == state
        assert encode_state(again) == body
        assert outcome_of(body) == (state.phase.outcome if isinstance(state.phase, Idle) else None)


def test_the_random_runs_meet_every_kind_of_entry_and_flag() -> None:
    """Otherwise the test above would show less than it says."""
    met: set[str] = set()
    for seed in range(60):
        wild = Wild(seed)
        for state in wild.go(90):
            met.add(type(state.phase).__name__)
            for entry, origins in zip(state.transcript.blocks, state.transcript.origins, strict=True):
                for each, origin in zip(entry, origins, strict=True):
                    made = type(wild.row(origin.row)).__name__
                    met.add(f"{type(each).__name__} of {made}")
                    met |= {f"elided {origin.elided}", f"withheld {origin.withheld}", f"own {bool(origin.own)}"}
                    met |= {f"result of {type(wild.row(seq)).__name__}" for seq in origin.results if seq}
    assert met >= {
        "Idle", "Sampling", "Waiting", "Executing", "Compacting", "Stopping",
        "Prompt of Submitted", "Prompt of StopChecked", "Step of Replied", "Step of Interrupted",
        "Summary of Compacted",
        "result of Decided", "result of Returned", "elided True", "withheld True", "own True",
    }  # fmt: skip
    assert any(each.startswith("Note of ") for each in met)


def test_the_run_goes_on_the_same_from_a_state_that_was_read_back() -> None:
    wild = Wild(3)
    for _ in wild.go(40):
        pass
    early = decode_state(encode_state(wild.state), wild.row)
    for _ in wild.go(80):
        pass
    for event in wild.rows[40:]:
        early, _ = step(early, event)
    assert early == wild.state


# -- snapshots: size and damage ----------------------------------------------------------------------------------


def _long(steps: int) -> tuple[State, list[Event]]:
    """A session of so many steps, each with one call and 2,000 bytes of result, without a limit."""
    rows: list[Event] = [Opened(RULES, (ModelSpec("m1"),), Limits(0), Policy(line_unknown=10**9))]
    state, _ = step(State(), rows[0])

    def feed(event: Event) -> tuple[Effect, ...]:
        nonlocal state
        rows.append(event)
        state, effects = step(state, event)
        return effects

    (asked,) = feed(Submitted(Prompt((Text("go"),))))
    for k in range(steps):
        assert isinstance(asked, CallModel)
        (decide,) = feed(Replied(asked.id, Reply((Call("", "read_file", f'{{"path":"{k}"}}'),))))
        assert isinstance(decide, Decide)
        (run,) = feed(Decided(decide.id, Allow(decide.call.args)))
        assert isinstance(run, RunTool)
        feed(Launched(run.id))
        (asked,) = feed(Returned(run.id, Result("", "ok", (Text("x" * 2_000),))))
    feed(Interrupted())
    return state, rows


def test_a_snapshot_is_a_few_bytes_an_entry_whatever_the_entries_hold() -> None:
    small, _ = _long(200)
    state, rows = _long(1_200)
    body = encode_state(state)
    assert (len(body) - len(encode_state(small))) / 1_000 < 12
    assert len(body) < 16_000
    assert decode_state(body, lambda seq: rows[seq - 1]) == state


def test_a_snapshot_of_another_version_is_refused() -> None:
    raw = json.loads(encode_state(State()))
    raw[0] = 99
    with pytest.raises(JournalDamaged, match="version 99"):
        decode_state(json.dumps(raw).encode(), _nothing)


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b"[1]", b'[1,{"type":"state"}]', b"[1,2,3]", b"\xff"])
def test_a_damaged_snapshot_is_one_clear_error(body: bytes) -> None:
    with pytest.raises(JournalDamaged, match="a snapshot cannot be read"):
        decode_state(body, _nothing)


def test_a_snapshot_that_its_rows_do_not_bear_out_is_refused() -> None:
    prompt, reply = Submitted(Prompt((Text("go"),))), Replied(1, Reply((Call("", "grep"),)))
    rows: list[Event] = [prompt, reply, Returned(3, Result("", "ok"))]

    def refused(entry: object) -> str:
        raw = json.dumps([1, {"type": "state"}, [4, entry]]).encode()
        with pytest.raises(JournalDamaged) as error:
            decode_state(raw, lambda seq: rows[seq - 1])
        return str(error.value)

    assert "row 3 made no entry" in refused(8)
    assert "do not fit its calls" in refused([4])
    assert "do not fit its calls" in refused([4, 0])
    assert "row 1 holds no result" in refused([4, -1])
    assert "is empty" in refused([])
    good = decode_state(json.dumps([1, {"type": "state"}, [4, [4, 1]]]).encode(), lambda seq: rows[seq - 1])
    assert good.transcript[1] == Step(Reply((Call("c1_0", "grep"),)), (Result("c1_0", "ok"),))


@given(st.integers(0, 10_000), st.integers(0, 255))
@settings(max_examples=300, deadline=None)
def test_a_changed_byte_of_a_snapshot_is_another_state_or_damage(at: int, byte: int) -> None:
    state, rows = _SHORT
    body = bytearray(encode_state(state))
    body[at % len(body)] = byte

    def row(seq: int) -> Event:
        if not 1 <= seq <= len(rows):
            raise JournalDamaged(f"row {seq} is missing")
        return rows[seq - 1]

    try:
        decode_state(bytes(body), row)
    except JournalDamaged as error:
        assert "\n" not in str(error)


_SHORT = _long(3)


def test_notes_and_own_results_ride_in_the_snapshot_itself() -> None:
    own = (Result("c1_0", "interrupted", code="not_started"),)
    reply = Replied(1, Reply((Call("", "grep"),)))
    made = Step(Reply((Call("c1_0", "grep"),)), own)
    note = Note("reminder", 3)
    transcript = (
        Transcript()
        .append(Summary("before", "{}"), Origin(3))
        .append(made, Origin(1, (0,), own))
        .append(note, Origin(2, note=note))
    )
    state = State(transcript=transcript, count=3)
    rows: list[Event] = [reply, Elapsed(1), Compacted(2, "before", opaque="{}")]
    assert decode_state(encode_state(state), lambda seq: rows[seq - 1]) == state


def test_a_new_field_of_the_state_is_in_the_snapshot_without_anyone_remembering_it() -> None:
    """Every field but the transcript travels as it is: each is changed in turn and must come back."""
    for field in msgspec.structs.fields(State):
        if field.type is int or field.type is str or field.type in ("int", "str"):
            value: object = 7 if field.type in (int, "int") else "seven"
            changed = msgspec.structs.replace(State(), **{field.name: value})
            assert decode_state(encode_state(changed), _nothing) == changed, field.name
