"""Conservation: prompts, replies, results, usage and effects: each exactly once, none lost, at a crash too."""

from __future__ import annotations

from collections import Counter

from noria.core.content import Usage
from noria.core.effects import Cancel, Wait
from noria.core.events import (
    Compacted,
    Continued,
    Event,
    Failed,
    Interrupted,
    Replied,
    StopChecked,
    Submitted,
)  # fmt: skip
from noria.core.state import Executing, Idle, Sampling, State
from noria.core.transcript import Entry, Note, Prompt, Step, Summary
from noria.runtime.simulate import Moment, Simulation

from .reading import (
    answers,
    at_rest,
    bare,
    broken,
    flags,
    flat,
    half,
    is_final,
    key,
    plain,
    rebuilt,
    shown,
    useless,
    withheld,
)  # fmt: skip


def bad(law: str) -> None:
    """A breach of conservation."""
    broken("conservation", law)


class Conservation:
    """Shadow accounts of what was said and spent, kept from the events alone."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.first = 0  # where the running turn begins in the transcript
        self.prompts: dict[str, tuple[object, ...]] = {}
        self.place: dict[str, str] = {}
        self.order: dict[str, int] = {}
        self.replies: list[tuple[object, ...]] = []
        self.total: list[int] = [0] * 7
        self.turn: list[int] = [0] * 7
        self.number = 0

    def see(self, sim: Simulation, m: Moment) -> None:
        """Look at one moment."""
        if m.expected and m.came != m.expected:
            bad(f"{type(m.event).__name__} is {m.expected}, not {m.came} (in {type(m.before.phase).__name__})")
        if m.came == "crash":
            self._recovered(sim, m)
        if m.came != "done":
            if m.after is not m.before and m.after != m.before:
                bad("the journal folds to the same state" if m.came == "crash" else f"a {m.came} event changes nothing")
            if m.effects:
                bad(f"a {m.came} event gives out nothing")
            return
        assert m.event is not None
        self._owed(sim, m, m.event)
        self._usage(m, m.event)
        self._transcript(m, m.event)
        self._prompts(m, m.event)
        self._rest(m)

    def _recovered(self, sim: Simulation, m: Moment) -> None:
        """Rules 28 and 31: where the fold began, that nothing split, and since when each clock runs."""
        found, rows = sim.recovered, sim.journal.kept
        if found is None or found.split or found.notices or found.state is not m.after:
            bad("a journal written by these rules is folded whole")
            return
        if found.folded_from != (sim.journal.snapshots[-1][0] if sim.journal.snapshots else 0):
            bad("the fold begins after the newest snapshot")
        waits = [e.id for e in m.after.owed if isinstance(e, Wait)]
        given = {i: row.at for row in rows for i in waits if f"{i}:wait" in row.effects.split(" ")}
        if found.since != given:
            bad("recovery knows since when each clock runs")

    # -- effects -------------------------------------------------------------------------------------------------

    def _owed(self, sim: Simulation, m: Moment, event: Event) -> None:
        """Rule 1: the effects of a step are the difference of what is owed; the world's account is the same."""
        had, has = {e.id: e for e in m.before.owed}, {e.id: e for e in m.after.owed}
        if len(has) != len(m.after.owed):
            bad("nothing is owed twice")
        done = answers(event) if is_final(event) else 0
        fresh = [e for e in m.effects if not isinstance(e, Cancel)]
        gone = sorted(i for e in m.effects if isinstance(e, Cancel) for i in e.ids)
        if sorted(e.id for e in fresh) != sorted(i for i in has if i not in had):
            bad("what is newly owed is given out, once")
        if gone != sorted(i for i in had if i not in has and i != done):
            bad("what nobody waits for any more is cancelled, and nothing else")
        if done in has:
            bad("what was answered is not owed")
        if [e.id for e in fresh] != list(range(m.before.serial + 1, m.after.serial + 1))[-len(fresh) :] and fresh:
            bad("ids count up")
        if m.after.serial < m.before.serial or any(i > m.after.serial for i in has):
            bad("the serial is the last id")
        if sim.owed != has:
            bad(f"owed is what the world has to answer ({sorted(sim.owed)} outside, {sorted(has)} inside)")
        if m.after.count != len(sim.journal.kept):
            bad("the count is the number of rows")

    # -- usage ---------------------------------------------------------------------------------------------------

    def _usage(self, m: Moment, event: Event) -> None:
        turn = m.after.turn
        usage = getattr(event, "usage", None)
        spent = _numbers(usage) if isinstance(usage, Usage) else [0] * 7
        self.total = [a + b for a, b in zip(self.total, spent, strict=True)]
        if m.before.turn is not None:
            self.turn = [a + b for a, b in zip(self.turn, spent, strict=True)]
        if _numbers(m.after.totals) != self.total:
            bad("the session's totals are the sum of what every answer cost")
        ended = m.after.ended
        if ended is not None and ended is not m.before.ended:
            if _numbers(ended.usage) != self.turn or ended.turn != self.number:
                bad("a turn's usage is the sum of what its answers cost")
            if m.before.turn is None:
                bad("a turn ends once")
            self.turn = [0] * 7
        elif m.before.turn is not None and turn is None:
            bad("the end of a turn is reported")
        if turn is not None and turn.number != self.number:
            if turn.number != self.number + 1:
                bad("turns are counted")
            self.number, self.turn = turn.number, [0] * 7
        if turn is not None and _numbers(turn.usage) != self.turn:
            bad("the turn's usage is the sum of what its answers cost")

    # -- the transcript ------------------------------------------------------------------------------------------

    def _transcript(self, m: Moment, event: Event) -> None:
        """It grows at its end; only a compaction and a refused image change what stands in it."""
        expected = self._said(m, event)
        if expected is not None:
            self.replies.append(expected)
        old = self.entries
        if m.after.transcript is not m.before.transcript or isinstance(event, Compacted):
            new = flat(m.after)
            base = old
            if isinstance(event, Compacted):
                base = self._compacted(m, event)
            elif isinstance(event, Failed) and event.kind == "bad_request":
                base = _withheld(old)
                if [plain(e) for e in new[: len(base)]] != [plain(e) for e in base] or (
                    [flags(e) for e in new[: len(base)]] not in ([flags(e) for e in base], [flags(e) for e in old])
                ):
                    bad("a refused image is withheld, since the last good reply and nowhere else")
                base = new[: len(base)]
            if len(new) < len(base) or any(a is not b and a != b for a, b in zip(base, new, strict=False)):
                bad("what stands in the history stays as it is")
            for entry in new[len(base) :]:
                self._appended(m, event, entry, new)
            if m.after.transcript.length != len(new):
                bad("the transcript knows its length")
            self._blocks(m.after)
            self.entries = new
        phase = m.after.phase
        still = [bare(phase.reply)] if isinstance(phase, Executing) else []
        if self.replies != still:
            bad("a reply stands in the history, or is the open step")

    def _said(self, m: Moment, event: Event) -> tuple[object, ...] | None:
        if isinstance(event, Replied):
            return bare(event.reply)
        if isinstance(event, Interrupted) and event.partial is not None and isinstance(m.before.phase, Sampling):
            kept = half(event.partial)
            return bare(kept) if kept is not None else None
        return None

    def _appended(self, m: Moment, event: Event, entry: Entry, new: list[Entry]) -> None:
        match entry:
            case Step(reply=reply):
                if not self.replies or self.replies[0] != bare(reply):
                    bad("a step is of a reply that came")
                self.replies.pop(0)
            case Note():
                if len(new) < 2:
                    bad("a note is never first")
            case Summary():
                bad("a summary comes by compaction alone")
            case Prompt():
                pass

    def _blocks(self, state: State) -> None:
        blocks = state.transcript.blocks
        if any(len(b) != 64 for b in blocks[:-1]) or (blocks and not 0 < len(blocks[-1]) <= 64):
            bad("all blocks but the last are full")
        if [len(b) for b in blocks] != [len(b) for b in state.transcript.origins]:
            bad("every entry has its origin")

    def _compacted(self, m: Moment, event: Compacted) -> list[Entry]:
        """Rule 14: the new summary, every prompt of the running turn, the tail; nothing where it made no progress."""
        old, first = self.entries, self.first
        if useless(m.before, event):
            return old
        keep = 0 if event.summary is None else event.keep_from
        kept, running = rebuilt(old, m.before, event), m.before.turn is not None
        new = flat(m.after)[: len(kept)]
        if [plain(e) for e in new] != [plain(e) for e, _ in kept]:
            bad("a compaction keeps the running turn's prompts and the tail, in order")
        for entry, (was, elided) in zip(new, kept, strict=True):
            if not elided and flags(entry) != flags(was):
                bad("only what was named is elided")
            if elided and isinstance(entry, Step) and not all(r.elided for r in entry.results):
                bad("what was named is elided")
        for k, e in enumerate(old[:keep]):
            if isinstance(e, Prompt) and not (running and k >= first):
                self.place[key(e)] = "summarised"
        if running and event.summary is not None:
            replaced = bool(old) and isinstance(old[0], Summary)
            self.first = 1 if first < keep else first - max(keep, int(replaced)) + 1
        return new

    # -- prompts -------------------------------------------------------------------------------------------------

    def _prompts(self, m: Moment, event: Event) -> None:
        """Each prompt is in one place: history, queues, or given back."""
        after = m.after
        if isinstance(event, Submitted):
            self._register(event.prompt, "new")
        if isinstance(event, StopChecked) and event.block is not None:
            inside = any(isinstance(e, Prompt) and key(e) == key(event.block) for e in self.entries)
            if inside:
                self._register(event.block, "new")
        if m.before.turn is None and after.turn is not None and not isinstance(event, Continued):
            self.first = next((k for k, e in enumerate(self.entries) if self._fresh(e)), len(self.entries))
        elif m.before.turn is None and after.turn is not None:
            fresh = [k for k, e in enumerate(self.entries) if self._fresh(e)]
            last = [k for k, e in enumerate(self.entries) if isinstance(e, Prompt) and e.source == "person"]
            self.first = fresh[0] if fresh else last[-1] if last else m.before.transcript.length
        elif after.turn is not None and m.before.turn is not None and after.turn.number != m.before.turn.number:
            self.first = next((k for k, e in enumerate(self.entries) if self._fresh(e)), len(self.entries))
        self._places(m, event)

    def _fresh(self, entry: Entry) -> bool:
        return isinstance(entry, Prompt) and self.place.get(key(entry)) in ("queued", "new")

    def _register(self, prompt: Prompt, place: str) -> None:
        self.prompts[key(prompt)] = (shown(prompt.content), prompt.source, prompt.memory)
        self.place[key(prompt)] = place
        self.order[key(prompt)] = len(self.order)

    def _places(self, m: Moment, event: Event) -> None:
        after = m.after
        found: Counter[str] = Counter()
        now: dict[str, str] = {}
        inside = [e for e in self.entries if isinstance(e, Prompt)]
        queues = (("queued", [q.prompt for q in (*after.steering, *after.follow_ups)]), ("returned", after.returned))
        for where, prompts in (("history", inside), *queues):
            for prompt in prompts:
                found[key(prompt)] += 1
                now[key(prompt)] = where
                if self.prompts.get(key(prompt)) != plain(prompt):
                    bad("a prompt is what was said, word for word")
        for name, place in self.place.items():
            if place in ("summarised", "gone"):
                if found[name]:
                    bad("what was summarised or taken back stands nowhere")
                continue
            if place == "returned" and not found[name]:
                if after.turn is None:
                    bad("what was given back is reported until the next turn")
                now[name] = "gone"
            elif found[name] != 1:
                bad(f"a prompt stands in {found[name]} places, not in one")
            elif place == "history" and now[name] != "history":
                bad("what is in the history stays there")
            elif place == "queued" and now[name] == "returned" and not isinstance(event, Interrupted):
                bad("only an interrupt gives prompts back")
            self.place[name] = now[name]
        entered = [self.order[key(p)] for p in inside if p.source != "hook"]
        steering = [self.order[key(q.prompt)] for q in after.steering]
        later = [self.order[key(q.prompt)] for q in after.follow_ups]
        if steering != sorted(steering) or later != sorted(later) or len(set(entered)) != len(entered):
            bad("prompts are queued in order")
        if not isinstance(event, Interrupted) and len(after.follow_ups) < len(m.before.follow_ups) - 1:
            bad("one follow-up opens the next turn")
        if isinstance(event, Interrupted) and (after.steering or after.follow_ups):
            bad("an interrupt gives every queued prompt back")

    def _rest(self, m: Moment) -> None:
        after = m.after
        if at_rest(after):
            if after.owed or after.turn is not None or m.after.due is not None:
                bad("at rest nothing is owed")
            if isinstance(after.phase, Idle) and after.phase.outcome == "completed" and after.follow_ups:
                bad("after a completed turn the next follow-up is taken up")
        if after.turn is not None and after.turn.first != self.first:
            bad(f"the turn knows where it begins ({after.turn.first}, not {self.first})")


def _withheld(entries: list[Entry]) -> list[Entry]:
    """The entries with the images since the last reply withheld (its results are after it)."""
    from msgspec.structs import replace

    last = max((k for k, e in enumerate(entries) if isinstance(e, Step)), default=0)
    new = entries[:last]
    for entry in entries[last:]:
        match entry:
            case Prompt(content=content):
                new.append(replace(entry, content=withheld(content)))
            case Step(reply=reply, results=results):
                new.append(Step(reply, tuple(replace(r, content=withheld(r.content)) for r in results)))
            case _:
                new.append(entry)
    return new


def _numbers(u: Usage) -> list[int]:
    return [u.requests, u.input, u.output, u.cached, u.reasoning, u.cost, u.unpriced]
