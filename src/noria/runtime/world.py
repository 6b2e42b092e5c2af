"""A simulated world: model, gate, tools, clients, stop hook, clock and a person, all from one seed, and the ledger of
what really happened in it. Owns: what is answered. Must not know: when, and what the machine makes of it.

To simulate an agent of your own, subclass World and override `model`, `decide`, `tool` or `person`.
"""

from __future__ import annotations

from random import Random
from typing import assert_never

from msgspec.structs import replace

from noria.core.content import Block, Call, Image, Opaque, Part, Reasoning, Reply, Result, Text, Usage, make_call
from noria.core.effects import CallModel, CheckStop, Compact, Decide, Owed, RunTool, Wait
from noria.core.events import (
    Allow,
    Answer,
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
    Opened,
    Reconfigured,
    Refuse,
    Reopened,
    Replied,
    Returned,
    StopChecked,
    Submitted,
)  # fmt: skip
from noria.core.machine import RULES
from noria.core.state import Idle, Limits, ModelSpec, Policy, Sampling, State, weight
from noria.core.transcript import Prompt, Step
from noria.runtime.plans import CLEAR, Plan

OVERHEAD = 300  # tokens of the system prompt and the tools
TRUTH = 1_150  # real tokens to estimated ones, in thousandths


class Run:
    """What really became of one call: how often it was started, and what came of it (None: nothing, or not yet)."""

    __slots__ = ("call", "hung", "repeatable", "result", "started")

    def __init__(self, call: Call, *, repeatable: bool, hung: bool) -> None:
        self.call = call
        self.repeatable = repeatable
        self.hung = hung
        self.started = 0
        self.result: Result | None = None


class World:
    """Answers effects as `plan` says. `ledger` holds, by effect id, every tool that was asked for and its Run;
    `clients` the calls that a client executed, by effect id. `plan` may be changed at any time (`CLEAR`: fair weather).
    """

    def __init__(self, random: Random, plan: Plan) -> None:
        self.random = random
        self.plan = plan
        self.ledger: dict[int, Run] = {}
        self.clients: dict[int, Call] = {}
        self.last: tuple[Block, ...] = ()
        self._count = 0

    def chance(self, thousandths: int) -> bool:
        """Whether it happens this time."""
        return thousandths > 0 and self.random.randrange(1_000) < thousandths

    def number(self) -> int:
        """A number never given before."""
        self._count += 1
        return self._count

    def open(self) -> Opened:
        """The first event of the session."""
        return Opened(RULES, self.models(), self.limits(), Policy(max_retries=2), "system", "tools", OVERHEAD)

    def models(self) -> tuple[ModelSpec, ...]:
        """A chain of models, with their windows."""
        windows = self.plan.windows
        return tuple(ModelSpec(f"m{k}", windows[k % len(windows)]) for k in range(self.plan.chain))

    def limits(self) -> Limits:
        """The limits of a turn."""
        p = self.plan
        return Limits(p.max_steps, p.max_tokens, p.max_cost, p.max_time)

    # -- answers to effects --------------------------------------------------------------------------------------

    def answer(self, effect: Owed, state: State) -> Answer | None:
        """What comes of an effect now; None: nothing yet."""
        match effect:
            case CallModel():
                return self.model(effect, state)
            case Wait(why=why):
                if self.chance(self.plan.gate_fails):
                    return Failed(effect.id, "internal")
                return Elapsed(effect.id) if why == "retry" or self.chance(self.plan.clock) else None
            case Decide(waits="person"):
                return None if self.chance(self.plan.away) else self.said(effect)
            case Decide(waits="client"):
                return None if self.chance(self.plan.away) else self.client(effect)
            case Decide():
                return self.decide(effect)
            case RunTool():
                return self.tool(effect)
            case Compact():
                return self.compact(effect, state)
            case CheckStop():
                return self.stop(effect)
            case _:
                assert_never(effect)

    def model(self, effect: CallModel, state: State) -> Replied | Failed:
        """A reply, or why there is none. Over the model's window it is always an overflow."""
        size = self.size(state)
        window = state.models[effect.model].window if effect.model < len(state.models) else 0
        if 0 < window < size:
            return Failed(effect.id, "context_overflow", usage=self.usage(0))
        if self.chance(self.plan.failing):
            return self.failure(effect.id, self.plan.kinds)
        reply = self.reply(state.models[min(effect.model, len(state.models) - 1)].name)
        reported = 0 if self.chance(50) else size
        return Replied(effect.id, reply, self.usage(reported))

    def failure(self, effect: int, kinds: tuple[FailureKind, ...]) -> Failed:
        """A failure of one of these kinds."""
        kind = self.random.choice(kinds)
        after = self.random.choice((1_000, 90_000, 400_000)) if self.chance(self.plan.wait_long) else 0
        culprit = "image" if kind == "bad_request" and self.chance(600) else ""
        return Failed(effect, kind, after, culprit, self.usage(0), "as simulated")

    def reply(self, model: str) -> Reply:
        """What a model may say: text, reasoning, blocks of its own, calls that are whole, broken or cut."""
        p = self.plan
        blocks: list[Block] = []
        if self.chance(p.opaque):
            blocks.append(Reasoning(f"thought {self.number()}", model, "{}"))
        if self.chance(p.opaque):
            blocks.append(Opaque(f'{{"n":{self.number()}}}', model))
        if self.last and self.chance(p.same):
            return Reply((*blocks, *self.last), model=model)
        cut, paused = self.chance(p.cut), self.chance(p.paused)
        calls = tuple(self.call() for _ in range(self.random.randint(1, p.width))) if self.chance(p.calls) else ()
        if (not calls or self.chance(300)) and not (paused and not cut and blocks and self.chance(500)):
            blocks.append(Text(self.text("says")))
        if calls and cut and self.chance(700):
            calls = (*calls[:-1], make_call("write", '{"path": "a', wire_id="w", cut=True))
        self.last = calls if calls and not cut else self.last
        end = "cut" if cut else "paused" if paused else "stop"
        return Reply((*blocks, *calls), end, model)

    def call(self) -> Call:
        """One call of a tool, whole; its arguments may be broken."""
        if self.chance(self.plan.broken):
            return make_call("run", f"not json {self.number()}", wire_id="w")
        name = self.random.choice(("read", "write", "run", "ask_user"))
        return make_call(name, f'{{"n": {self.number()}}}', wire_id=self.random.choice(("", "w", f"w{self._count}")))

    def decide(self, effect: Decide) -> Decided | Failed:
        """The gate's verdict."""
        p, id = self.plan, effect.id
        if self.chance(p.gate_fails):
            return Failed(id, "internal", usage=self.usage(0))
        if effect.call.broken or not effect.call.whole or self.chance(p.refuse):
            return Decided(id, Refuse(self.refused("error")), self.usage(0))
        if self.chance(p.ask) or (effect.call.name == "ask_user" and self.chance(300)):
            return Decided(id, Ask(), self.usage(0))
        if self.chance(p.external):
            return Decided(id, External(), self.usage(0))
        return Decided(id, Allow(self.arguments(effect.call)), self.usage(0))

    def said(self, effect: Decide) -> Decided:
        """What a person answers: yes, no, or something of their own as a result."""
        if self.chance(self.plan.ask):
            return Decided(effect.id, self.random.choice((Ask(), External())))
        if self.chance(self.plan.refuse * 3):
            return Decided(effect.id, Refuse(self.refused("denied")))
        if effect.call.name == "ask_user":
            return Decided(effect.id, Refuse(Result("", "ok", (Text(self.text("answers")),))))
        return Decided(effect.id, Allow(self.arguments(effect.call)))

    def client(self, effect: Decide) -> Returned | Failed:
        """What a client that executes the call itself sends back."""
        self.clients[effect.id] = effect.call
        if self.chance(self.plan.tool_fails):
            return Failed(effect.id, "internal")
        return Returned(effect.id, self.result())

    def tool(self, effect: RunTool) -> Launched | Returned | Failed | None:
        """The next thing that happens to a tool: it is held ready (Launched), then it runs and returns, or hangs.

        The driver of the simulation starts it (`start`) when its Launched has been folded.
        """
        run = self.run(effect)
        if not effect.launched:
            if self.chance(self.plan.tool_fails):
                return Failed(effect.id, "internal", usage=self.usage(0))
            return Launched(effect.id, Handle(1_000 + effect.id, 7, f"spill-{effect.id}"))
        if run.hung and self.plan is not CLEAR:
            return None
        if self.chance(self.plan.tool_fails):
            return Failed(effect.id, "internal", usage=self.usage(0))
        run.result = run.result or self.result()
        return Returned(effect.id, run.result, self.usage(0))

    def run(self, effect: RunTool) -> Run:
        """The ledger's line of a tool."""
        if effect.id not in self.ledger:
            repeatable = self.chance(self.plan.repeatable)
            self.ledger[effect.id] = Run(effect.call, repeatable=repeatable, hung=self.chance(self.plan.hang))
        return self.ledger[effect.id]

    def start(self, effect: RunTool) -> None:
        """The tool starts, really."""
        self.run(effect).started += 1

    def compact(self, effect: Compact, state: State) -> Compacted | Failed:
        """A compaction: with progress, without, by elision alone, or a failure."""
        p, old, r = self.plan, state.transcript, self.random
        if self.chance(p.compact_fails):
            return self.failure(effect.id, p.compact_kinds)
        steps = [k for k in range(len(old)) if isinstance(old[k], Step)]
        keep = r.randint(0, steps[-1]) if steps else 0
        summary = None if self.chance(p.elide) else "" if self.chance(20) else f"summary {self.number()}"
        if summary is None:
            keep = 0
        elide = tuple(k for k in steps[:-1] if k >= keep and self.chance(300 if summary else 1_000))
        kept = sum(weight(old[k]) // (4 if k in elide else 1) for k in range(keep, len(old)))
        size = min(state.overhead + kept * TRUTH // 1_000 + 30, max(1, state.context * 8 // 10))
        if self.chance(p.stuck):
            size = state.context * r.choice((900, 950, 1_000, 1_200)) // 1_000
        return Compacted(effect.id, summary, keep, elide, size, "", self.usage(0))

    def stop(self, effect: CheckStop) -> StopChecked | Failed:
        """The stop hook's word."""
        if self.chance(self.plan.hook_fails):
            return Failed(effect.id, "internal")
        block = replace(self.prompt(), source="hook") if self.chance(self.plan.block) else None
        return StopChecked(effect.id, block, self.usage(0))

    # -- a person ------------------------------------------------------------------------------------------------

    def person(self, state: State) -> Event | None:
        """What a person or client does of their own accord just now; None: nothing. Always a legal event."""
        p, rest = self.plan, isinstance(state.phase, Idle)
        if rest and self.chance(p.goes_on) and (len(state.transcript) or state.steering):
            return Continued()
        if rest and self.chance(p.reopen):
            anew = Reopened(RULES, system=self.text("system"), overhead=OVERHEAD + 50)
            return anew if self.chance(500) else Reopened(RULES)
        if self.chance(p.asks) and not (rest and not len(state.transcript)):
            return CompactAsked(self.random.choice(("", "keep the plan")))
        if self.chance(p.reconfigure):
            chain = self.models()[: self.random.randint(1, self.plan.chain)]
            steps = self.random.choice((p.max_steps, self.random.randint(2, 12)))
            return Reconfigured(replace(self.limits(), max_steps=steps), chain)
        if self.chance(p.interrupt):
            return Interrupted(self.partial() if isinstance(state.phase, Sampling) or self.chance(500) else None)
        if self.chance(p.follow):
            return Submitted(self.prompt(), "follow_up")
        if (rest and self.chance(400)) or self.chance(p.steer):
            return Submitted(self.prompt())
        return None

    def partial(self) -> Reply | None:
        """What had been streamed when somebody pressed the key."""
        kind = self.random.randrange(4)
        text, call = Text(self.text("half")), make_call("write", '{"pa', cut=True)
        return (None, Reply((text,), "cut"), Reply((Reasoning("hm"), text, call), "cut"), Reply((call,), "cut"))[kind]

    def prompt(self) -> Prompt:
        """A prompt like no other."""
        content: tuple[Part, ...] = (Text(self.text("prompt")),)
        if self.chance(self.plan.images):
            content = (*content, self.image())
        source = "task" if self.chance(50) else "person"
        return Prompt(content, source, self.text("memory") if self.chance(50) else "")

    # -- small things --------------------------------------------------------------------------------------------

    def text(self, what: str) -> str:
        """A text like no other, of some length."""
        return f"{what} {self.number()}." + "x" * self.random.randint(0, self.plan.chunk)

    def image(self) -> Image:
        """An image like no other."""
        return Image(f"sha256:{self.number()}", "image/png", 100)

    def result(self) -> Result:
        """What a tool gives back."""
        status = "error" if self.chance(self.plan.error) else "ok"
        content: tuple[Part, ...] = (Text("done" if self.plan.same > 500 else self.text("result")),)
        return Result("", status, (*content, self.image()) if self.chance(self.plan.images) else content)

    def refused(self, status: str) -> Result:
        """The result of a call that may not run."""
        return Result("", "error" if status == "error" else "denied", (Text("ERROR: may not run"),))

    def arguments(self, call: Call) -> str:
        """The arguments a call is allowed with."""
        return f'{{"n": {self.number()}}}' if self.chance(self.plan.rewrite) else call.args

    def size(self, state: State) -> int:
        """The real size of the context, in tokens."""
        return state.overhead + state.weight * TRUTH // 1_000

    def usage(self, reported: int) -> Usage:
        """What an answer cost; `reported` is the input that a provider says it saw (0: none said)."""
        r = self.random
        if not reported:
            return Usage() if self.chance(700) else Usage(1, 0, r.randint(1, 50), cost=r.randint(1, 200))
        return Usage(1, reported, r.randint(1, 400), reported // 2, 0, reported // 10)
