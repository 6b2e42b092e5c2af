"""Making a history smaller: old tool results are elided, then whole steps give way to one summary.

Owns: what goes, what stays, and the words of the summary request. Must not know: any provider, any file. It returns
indices and a text; the machine builds the new transcript from them and keeps the running turn's prompts.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from msgspec.structs import replace

from noria.context.digest import fit
from noria.core.content import Usage
from noria.core.ports import Answered, Compaction, CompactRequest, Failure
from noria.core.state import ModelSpec, weight
from noria.core.transcript import Prompt, Step, Summary, Transcript, elide

Complete: TypeAlias = Callable[[str, Transcript, str, ModelSpec], Awaitable[Answered | Failure]]
"""Asks a model for one text: system prompt, history, instruction, model. No tools are offered, nothing is streamed."""

GOAL = 600  # thousandths of the line: compaction comes down to this, so that it is not due again at once
TAIL = 300  # thousandths of the line that the kept recent steps may take
PROGRESS = 900  # thousandths: what is not smaller than this is no progress (the machine's rule too)
RESERVE = 1_500  # tokens set aside for the summary itself
WORTH = 60  # tokens: a step whose elision wins less is left alone
RECENT = 3  # the steps before the last one whose results are elided only if nothing else helps
SHORTENINGS = 3  # how often a summary request that is refused as too long is halved

SECTIONS = """\
## Goal
## Key instructions and preferences
## What happened
## Current state
## Next steps
## Open questions"""

FIRST = f"""\
The conversation above will be removed and replaced by a summary that you write now. Whoever goes on has only the \
summary, so write down everything that is needed to go on without asking again or doing work twice: what the person \
asked for in their own words, decisions and their reasons, files and functions by path and name, commands that work, \
exact errors, what was checked and what not. Leave out what is finished and will not matter again.

Answer with the summary alone, under exactly these headings (write "none" where there is nothing), in at most 600 \
words, and call no tools:

{SECTIONS}"""

MERGE = f"""\
The conversation above begins with the summary so far. It will be removed together with what follows it, and replaced \
by a new version of the summary that you write now: merge what happened since into it. Keep every line of the summary \
that still holds word for word; do not shorten it again. Add what is new, move what was done from next steps to what \
happened, join what is said twice, correct what has changed, and drop only what is finished and will not matter again.

Answer with the merged summary alone, under exactly these headings (write "none" where there is nothing), in at most \
800 words, and call no tools:

{SECTIONS}"""


class PlainCompactor:
    """`core.ports.Compactor`: elision where that is enough, else one summary request over whole steps."""

    def __init__(self, complete: Complete) -> None:
        self._complete = complete

    async def compact(self, request: CompactRequest) -> Compaction | Failure:
        """What may go. Failure `empty`: nothing to win, or the model wrote no summary; else the model's own failure."""
        scale = _Scale(request)
        elision = None if request.cause == "asked" else _elision(request, scale)
        if elision and elision.size <= scale.goal:
            return elision
        keep_from = _keep_from(request, scale)
        elision = elision or _last_alone(request, scale)
        if keep_from == 0:
            return elision or Failure("empty", detail="nothing in the history can be compacted any further")
        answer = await self._summarise(request, keep_from, scale)
        if isinstance(answer, Failure):
            return replace(elision, usage=answer.usage) if elision and answer.kind == "empty" else answer
        text = answer.reply.text.strip()
        after = _after(request, keep_from, Summary(text))
        elide, after = _with_last(request, scale, (), after)
        if text and scale.progress(after):
            return Compaction(text, keep_from, elide, scale.told(after), usage=answer.usage)
        if elision:
            return replace(elision, usage=answer.usage)
        return Failure("empty", detail="the summary is empty or saves nothing", usage=answer.usage)

    async def _summarise(self, request: CompactRequest, keep_from: int, scale: _Scale) -> Answered | Failure:
        """The model's summary of what stands before `keep_from`; the request is shortened while it is refused."""
        old = Transcript.of((request.transcript[k], request.transcript.origin(k)) for k in range(keep_from))
        instruction = _instruction(request, merge=isinstance(old[0], Summary))
        room = scale.room - len(instruction) // 4
        spent = Usage()
        answer: Answered | Failure = Failure("context_overflow", detail="the summary request does not fit")
        for _ in range(1 + SHORTENINGS):
            view, left_out = fit(old, room)
            answer = await self._complete(request.system, view, instruction + _left_out(left_out), request.model)
            spent += answer.usage
            if not (isinstance(answer, Failure) and answer.kind == "context_overflow"):
                break
            room = min(room, sum(map(weight, view))) // 2
        return replace(answer, usage=spent)


class _Scale:
    """Sizes in the machine's tokens, all by the same measure: (overhead + weight) x ratio. Where a server reports fewer
    tokens than any ratio explains (some always report the same few), the measure is what makes its report true."""

    def __init__(self, request: CompactRequest) -> None:
        self._overhead = request.overhead
        self.weight = sum(map(weight, request.transcript))
        self._ratio, self._unit = request.ratio, 1_000
        before = self.size(self.weight)
        if 0 < request.context < before:
            self._ratio, self._unit = request.context, self._overhead + self.weight
            before = request.context
        # After an overflow the window is smaller than was thought, and a person who asks wants it smaller than it is:
        # what there is counts then, not the line.
        line = request.line if request.cause == "line" else min(request.line, request.context, before)
        self.goal = line * GOAL // 1_000
        self.tail = line * TAIL // 1_000
        self.room = max(0, line * self._unit // max(1, self._ratio) - self._overhead)
        self._limit = min(request.context, before) * PROGRESS
        self._refused = request.cause == "overflow"

    def size(self, weight: int) -> int:
        """The context that a history of this weight makes."""
        return (self._overhead + weight) * self._ratio // self._unit

    def progress(self, weight: int) -> bool:
        """Whether a history of this weight is smaller enough than the one that there is. One that the server refused is
        measured without system prompt and tools, of which nothing can go: it knows its tokens, these are estimates."""
        if self._refused:
            return weight * 1_000 < self.weight * PROGRESS
        return self.size(weight) * 1_000 < self._limit

    def told(self, weight: int) -> int:
        """The context that the machine is told of, by whose rule a tenth of it is won; the next report corrects it."""
        size = self.size(weight)
        return min(size, max(0, self._limit - 1) // 1_000) if self._refused else size

    def tokens(self, weight: int) -> int:
        """What an entry of this weight adds to the context."""
        return weight * self._ratio // self._unit


def _elision(request: CompactRequest, scale: _Scale) -> Compaction | None:
    """Old results elided, the largest first and among equals the oldest, until the goal is reached; None where even
    all of them make no progress. The last step's results stay; those of the steps just before it come last."""
    transcript, last = request.transcript, request.transcript.last_step()
    steps = [k for k in range(max(0, last)) if isinstance(transcript[k], Step)]
    recent = {k for k in steps[-RECENT:] if k >= request.first}
    wins = [(k in recent, weight(elide(transcript[k])) - weight(transcript[k]), k) for k in steps]
    total, chosen = scale.weight, []
    for _, saved, k in sorted(w for w in wins if w[1] <= -WORTH):
        if scale.size(total) <= scale.goal:
            break
        total += saved
        chosen.append(k)
    if not chosen or not scale.progress(total):
        return None
    elided, total = _with_last(request, scale, tuple(sorted(chosen)), total)
    return Compaction(None, 0, elided, scale.told(total))


def _with_last(
    request: CompactRequest, scale: _Scale, elided: tuple[int, ...], total: int
) -> tuple[tuple[int, ...], int]:
    """What is elided, and the weight of what stays: the last step's results too, where a server refused the history and
    what stays of it is over the line without them. They were too much for the window at once; a part can be read."""
    last = request.transcript.last_step()
    if request.cause != "overflow" or last < 0 or scale.size(total) <= request.line:
        return elided, total
    entry = request.transcript[last]
    saved = weight(elide(entry)) - weight(entry)
    return ((*elided, last), total + saved) if saved <= -WORTH else (elided, total)


def _last_alone(request: CompactRequest, scale: _Scale) -> Compaction | None:
    """The last step's results elided, where that is all that can be done after a refusal and wins something."""
    last = request.transcript.last_step()
    if request.cause != "overflow" or last < 0:
        return None
    entry = request.transcript[last]
    total = scale.weight + weight(elide(entry)) - weight(entry)
    return Compaction(None, 0, (last,), scale.told(total)) if scale.progress(total) else None


def _keep_from(request: CompactRequest, scale: _Scale) -> int:
    """The index from which on everything stays: whole recent steps within the budget, at least the last step and what
    follows it (the running turn, where there is no step yet). 0: nothing before it would go."""
    transcript = request.transcript
    last = transcript.last_step()
    end = last if last >= 0 else request.first
    if end <= 0:
        return 0
    stays = sum(weight(e) for k, e in enumerate(transcript) if k >= request.first and isinstance(e, Prompt))
    rest = sum(weight(transcript[k]) for k in range(end, len(transcript)))
    budget = min(scale.tail, scale.goal - scale.size(stays) - RESERVE) - scale.tokens(rest)
    start = 1 if isinstance(transcript[0], Summary) else 0
    keep_from = k = end
    while k > start:
        k -= 1
        budget -= scale.tokens(weight(transcript[k]))
        if budget < 0:
            break
        keep_from = k
    while keep_from > start and _paused(transcript, keep_from - 1):
        keep_from -= 1
    goes = (k for k in range(start, keep_from) if k < request.first or not isinstance(transcript[k], Prompt))
    return keep_from if next(goes, None) is not None else 0


def _paused(transcript: Transcript, index: int) -> bool:
    """Whether the entry is a step that the next one goes on with: they stay together."""
    entry = transcript[index]
    return isinstance(entry, Step) and entry.reply.end == "paused"


def _after(request: CompactRequest, keep_from: int, summary: Summary) -> int:
    """The weight of the history that the machine will build."""
    transcript = request.transcript
    prompts = (transcript[k] for k in range(min(request.first, keep_from), keep_from))
    kept = sum(weight(p) for p in prompts if isinstance(p, Prompt))
    return weight(summary) + kept + sum(weight(transcript[k]) for k in range(keep_from, len(transcript)))


def _instruction(request: CompactRequest, *, merge: bool) -> str:
    steer = request.steer.strip()
    wish = f"\n\nThe person asks you to keep this in mind above all: {steer}" if steer else ""
    return (MERGE if merge else FIRST) + wish


def _left_out(entries: int) -> str:
    return f"\n\n(Of the conversation, {entries} older entries are not shown: they did not fit.)" if entries else ""
