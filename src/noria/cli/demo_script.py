"""What the scripted model of the demo says: each reply is made from the tool results before it.

Owns: a mechanic's way of working, as far as the demo's project needs it. Must not know: how a reply reaches the loop.
Nothing is known in advance: which test fails comes from the test run, what to edit from the file that was read. If a
tool does not do its work, no fix comes about.
"""

from __future__ import annotations

import re
import shlex
import sys

import msgspec

from noria.core.content import Call, Reply, Result
from noria.core.transcript import Step, Transcript
from noria.models.scripted import call, say

RUN = f"{shlex.quote(sys.executable)} -B -m unittest"

# What a mechanic sees at a glance: a suspicious line, what it should be, and why.
REMEDIES: tuple[tuple[re.Pattern[str], str, str], ...] = (
    (
        re.compile(r"^(?P<indent> *)return int\((?P<value>\w+) \* 100\)$", re.MULTILINE),
        r"\g<indent>return round(\g<value> * 100)",
        "`int` cuts what floating point left below the cent: 0.29 * 100 is 28.999...",
    ),
    (
        re.compile(r"^(?P<indent> *)if count > (?P<limit>[A-Z]+):$", re.MULTILINE),
        r"\g<indent>if count >= \g<limit>:",
        "the README says ten *or more*, but `>` leaves ten out",
    ),
)


def next_reply(transcript: Transcript) -> Reply:
    """The reply to this history."""
    steps = [e for e in transcript if isinstance(e, Step)]
    if not steps:
        return say("I'll run the tests first, to see what fails.", call("run_command", command=RUN))
    calls = steps[-1].reply.calls
    results = steps[-1].results
    if any(r.status != "ok" for r in results):
        return say("A tool did not do its work, so I stop here: " + results[-1].text.partition("\n")[0])
    match calls[0].name if calls else "":
        case "run_command":
            return _after_tests(results[0].text, steps)
        case "read_file":
            return _after_reading(steps)
        case "edit_file":
            return say("Let me run the tests again.", call("run_command", command=RUN))
        case _:
            return say("There is nothing left to do.")


def _after_tests(output: str, steps: list[Step]) -> Reply:
    """Done, the next repair in what was read already, or the files that the failures point to."""
    ran = re.search(r"^Ran (\d+) tests?", output, re.MULTILINE)
    if not ran:
        return say("The test run says nothing that I can read, so I stop here.")
    if re.search(r"^OK$", output, re.MULTILINE):
        changed = [_args(c)["path"] for s in steps for c in s.reply.calls if c.name == "edit_file"]
        return say(f"All {ran[1]} tests pass now. I changed one line each in {' and '.join(map(str, changed))}.")
    seen = _read(steps)
    if seen:
        return _repair(steps)
    tests = dict.fromkeys(re.findall(r'File "[^"]*?(tests/\w+\.py)", line \d+, in test_', output))
    failed = re.search(r"^FAILED \((.*)\)$", output, re.MULTILINE)
    count = failed[1] if failed else "some tests fail"
    said = f"The run says {count}. The tracebacks name {' and '.join(tests)}; I'll read what is tested there."
    return say(said, *(call("read_file", path=path) for path in tests))


def _after_reading(steps: list[Step]) -> Reply:
    """The modules that the tests import, then the repair."""
    seen = _read(steps)
    modules = re.findall(r"^from (\w+)\.(\w+) import", "\n".join(seen.values()), re.MULTILINE)
    unread = [p for p in dict.fromkeys(f"{a}/{b}.py" for a, b in modules) if p not in seen]
    if unread:
        return say("They test these modules:", *(call("read_file", path=path) for path in (*unread, "README.md")))
    return _repair(steps)


def _repair(steps: list[Step]) -> Reply:
    """The next remedy for a line that was really seen, and not treated yet."""
    edited = {str(_args(c).get("old_string", "")) for s in steps for c in s.reply.calls if c.name == "edit_file"}
    for path, text in _read(steps).items():
        for pattern, better, why in REMEDIES:
            found = pattern.search(text)
            if found and found[0] not in edited:
                edit = call("edit_file", path=path, old_string=found[0], new_string=found.expand(better))
                return say(f"In {path}: {why}.", edit)
    return say("I have read everything that the failures point to and see no cause, so I stop here.")


def _read(steps: list[Step]) -> dict[str, str]:
    """The files that were read, by path."""
    pairs = ((c, r) for s in steps for c, r in zip(s.reply.calls, s.results, strict=True) if c.name == "read_file")
    return {str(_args(c)["path"]): _bare(r) for c, r in pairs if r.status == "ok"}


def _bare(result: Result) -> str:
    """The text of a file without line numbers, should the result have them."""
    return re.sub(r"^ *\d+\t", "", result.text, flags=re.MULTILINE)


def _args(call: Call) -> dict[str, object]:
    return msgspec.json.decode(call.args, type=dict[str, object])
