"""What a hook answers and what that means; names, matchers, and arguments in the other form."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noria.guard import hook_names as names
from noria.guard.hook_protocol import GUARDS, LONGEST, Answer, Said, read, short

EVENTS = ("SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "PermissionRequest", "PreModelRequest",
          "PreCompact", "Stop", "Notification")  # fmt: skip


def before(out: Any, **more: Any) -> Said:
    return read("PreToolUse", Answer(out=out if isinstance(out, str) else json.dumps(out), **more))


@pytest.mark.parametrize(
    ("out", "said"),
    [
        ("", Said()),
        ("  \n", Said()),
        ({}, Said()),
        ({"suppressOutput": True, "unknown": [1]}, Said()),
        ({"decision": "block", "reason": "no"}, Said(word="deny", reason="no")),
        ({"decision": "block"}, Said(word="deny", reason="it gave no reason")),
        ({"decision": "approve", "reason": "fine"}, Said(word="allow", reason="fine")),
        ({"continue": False}, Said(halt="it gave no reason")),
        ({"continue": False, "stopReason": "late"}, Said(halt="late")),
        ({"systemMessage": "hello"}, Said(message="hello")),
        ({"additionalContext": "ctx"}, Said(context="ctx")),
        ({"hookSpecificOutput": {"permissionDecision": "defer"}}, Said(word="ask")),
    ],
)
def test_the_json_of_a_hook(out: Any, said: Said) -> None:
    got = before(out)
    assert (got.failed, got.word, got.reason, got.halt, got.message, got.context, got.updated) == (
        said.failed, said.word, said.reason, said.halt, said.message, said.context, said.updated,
    )  # fmt: skip


def test_the_newer_word_beats_the_older_and_says_why() -> None:
    both = {"decision": "approve", "reason": "old", "hookSpecificOutput": {"permissionDecision": "deny"}}
    assert (before(both).word, before(both).reason) == ("deny", "old")
    more = {"permissionDecision": "allow", "updatedInput": {"a": 1}, "additionalContext": "ctx"}
    said = before({"hookSpecificOutput": {"hookEventName": "PreToolUse", **more}})
    assert (said.word, said.updated, said.context) == ("allow", {"a": 1}, "ctx")
    asked = {"decision": {"behavior": "deny", "message": "no", "interrupt": True}}
    said = read("PermissionRequest", Answer(out=json.dumps({"hookSpecificOutput": asked})))
    assert (said.word, said.reason, said.halt) == ("deny", "no", "no")


@pytest.mark.parametrize(
    "out",
    ["{", "{'a': 1}", "[]", "null", "true", "ok", '{"decision": 1}', '{"decision": "perhaps"}', '{"continue": "no"}',
     '{"hookSpecificOutput": 3}', '{"hookSpecificOutput": {"permissionDecision": "perhaps"}}', '{} {}',
     '{"hookSpecificOutput": {"updatedInput": "x"}}', '{"hookSpecificOutput": {"hookEventName": "Stop"}}',
     '{"a": ' * 5_000, '{"reason": "\\ud800"}'],
)  # fmt: skip
def test_what_is_not_the_json_of_a_hook_is_no_verdict(out: str) -> None:
    assert before(out).failed


@given(st.sampled_from(EVENTS), st.integers(-64, 255), st.text(max_size=80), st.text(max_size=80))
def test_a_status_and_what_was_printed_are_a_verdict_or_say_why_not(
    event: str, status: int, out: str, err: str
) -> None:
    """Whatever comes: nothing raises; before a tool only silence, a JSON object, or exit 2 is a verdict; only JSON that
    says so allows."""
    said = read(event, Answer(status, out, err))
    assert said.word != "allow" or out.strip().startswith("{")
    if status == 2:
        assert said.failed or (said.word == "deny" and said.reason)
    elif status:
        how = f"it could not be started (exit {status})" if status in (126, 127) else f"it exited with {status}"
        assert said.failed.startswith(how) and not said.word
    elif event in GUARDS and out.strip() and not out.strip().startswith("{"):
        assert said.failed
    assert len(said.reason) <= LONGEST + 50 and len(said.context) <= LONGEST + 50


@pytest.mark.case("L02")
@pytest.mark.parametrize(
    ("err", "started"),
    [
        ("python3: can't open file '/no/such.py': [Errno 2] No such file or directory", False),
        ("/usr/bin/python3.11: can't open file 'x.py': [Errno 2]", False),
        ('Can\'t open perl script "x.pl": No such file or directory', False),
        ("sh: 0: cannot open x.sh: No such file", False),
        ("/bin/bash: -c: line 1: syntax error near unexpected token `fi'", False),
        ("x.sh: line 3: unexpected EOF while looking for matching `\"'", False),
        ("usage: x.py [-h]\nx.py: error: unrecognized arguments: --a", False),
        ("awk: cannot open /no/such.awk (No such file or directory)", False),
        ("gawk: fatal: cannot open source file `x.awk' for reading: No such file or directory", False),
        ("jq: error: Could not open file rules.json: No such file or directory", False),
        ("grep: denied.txt: No such file or directory", False),
        ("make: *** No rule to make target 'check'.  Stop.", False),
        ("error: Failed to spawn: `check.py`\n  Caused by: No such file or directory (os error 2)", False),
        ("grep: denied.txt: No such file or directory\nnot allowed all the same", True),
        ("make: *** [Makefile:2: check] Error 1", True),
        ("you can't open file '.env'", True),
        ("this usage: is an error: no", True),
        ("", True),
    ],
)
def test_a_failed_start_that_exits_with_2_is_no_word_against_a_tool(err: str, started: bool) -> None:
    said = read("PreToolUse", Answer(2, "", err))
    assert bool(said.failed) == (not started) and (said.word == "deny") == started
    assert started or "it could not be started" in said.failed


def test_free_text_is_context_only_where_it_is_meant_so() -> None:
    found = {event: read(event, Answer(out="hello")) for event in EVENTS}
    assert {e for e, said in found.items() if said.context} == {"SessionStart", "UserPromptSubmit", "PreCompact"}
    assert {e for e, said in found.items() if said.failed} == {"PreToolUse", "PermissionRequest", "PreModelRequest"}


def test_a_text_is_made_safe_and_short() -> None:
    assert short("a\x1b[31m\ud800\n\tb") == "a\ufffd[31m?\n\tb"
    cut = short("x" * 50_000)
    assert len(cut) < LONGEST + 50 and "[... 40,000 characters ...]" in cut


@pytest.mark.seed("H17")
@pytest.mark.parametrize(
    ("matcher", "tool", "fits"),
    [
        ("", "run_command", True), ("*", "mcp__a__b", True), ("run_command", "run_command", True),
        ("Bash", "run_command", True), ("bash", "run_command", False), ("run", "run_command", False),
        ("Edit|Write", "write_file", True), ("Edit, Write", "edit_file", True), ("Edit|Write", "apply_patch", True),
        ("Edit|Write", "read_file", False), ("mcp__.*", "mcp__a__b", True), ("mcp__a__.*", "mcp__b__c", False),
        ("^(run|Web).*", "web_fetch", True), (".*", "anything", True), ("Read", "read_file", True),
        ("Task", "subagent", True), ("Notebook.*", "edit_file", False),
    ],
)  # fmt: skip
def test_matchers(matcher: str, tool: str, fits: bool) -> None:
    """H17, noria's form: a matcher is exact names, or a regular expression over the name; what a hook may do does not
    hang on its name."""
    assert names.matches(matcher, names.names_of(tool)) == fits
    assert names.wrong_matcher(matcher) == ""


def test_the_form_follows_the_word_of_the_matcher() -> None:
    assert names.common("Bash", "run_command") == "Bash"
    assert names.common("Write", "apply_patch") == "Write"
    for matcher in ("", "*", "run_command", "run_command|Bash", ".*"):
        assert names.common(matcher, "run_command") == ""
    assert names.common("mcp__a__b", "mcp__a__b") == ""


ARGS = st.fixed_dictionaries(
    {}, optional={
        "command": st.text(), "timeout": st.integers(0, 10_000), "background": st.booleans(), "cwd": st.text(),
        "content": st.text(), "edits": st.lists(st.integers()), "items": st.lists(st.text()), "name": st.text(),
    },
)  # fmt: skip


@given(st.sampled_from(sorted(set(names.COMMON) - names.AS_IT_IS)), ARGS)
def test_what_a_hook_leaves_alone_comes_back_as_it_was(tool: str, args: dict[str, Any]) -> None:
    name = names.COMMON[tool][0]
    [(told, said)] = names.told(tool, name, args, "/work", ())
    assert told in names.COMMON[tool]
    assert names.meant(tool, said) == args


def test_paths_are_whole_in_the_common_form() -> None:
    [(name, said)] = names.told("read_file", "Read", {"path": "a/b"}, "/work", ())
    assert (name, said) == ("Read", {"file_path": "/work/a/b"})
    assert names.told("edit_file", "Edit", {"path": "a", "edits": []}, "/w", ())[0][0] == "Edit"
    edits = names.told("apply_patch", "Edit", {"patch": "p"}, "/work", ("/work/a", "/work/b"))
    assert [(n, a["file_path"]) for n, a in edits] == [("Edit", "/work/a"), ("Edit", "/work/b")]


def test_a_hook_sees_all_that_is_put_into_a_file() -> None:
    """In the fields that scripts look at, whichever tool it is."""
    edits = [{"old_string": "a", "new_string": "eval(x)"}, {"old_string": "b", "new_string": "c"}]
    for multi, name in ((True, "MultiEdit"), (False, "Edit")):
        [(told, said)] = names.told("edit_file", "Edit", {"path": "f", "edits": edits}, "/w", (), multi=multi)
        assert (told, said["new_string"], said["old_string"]) == (name, "eval(x)\nc", "a\nb")
        assert names.meant("edit_file", said | {"file_path": "f"}) == {"path": "f", "edits": edits}
        assert names.readable_back("edit_file", said, {**said, "edits": edits[:1]})
        assert not names.readable_back("edit_file", said, {**said, "new_string": "clean"})  # of which of them?
    patch = (
        "*** Begin Patch\n*** Add File: new.py\n+eval(x)\n+y\n*** Update File: old.py\n*** Move to: moved.py\n@@\n"
        " kept\n-gone\n+come\n*** Delete File: bad.py\n*** End Patch"
    )
    writes = ("/w/new.py", "/w/old.py", "/w/moved.py", "/w/bad.py")
    said = dict(args for _, args in ((n, (a["file_path"], a)) for n, a in names.told(
        "apply_patch", "Write", {"patch": patch}, "/w", writes)))  # fmt: skip
    assert said["/w/new.py"]["content"] == said["/w/new.py"]["new_string"] == "eval(x)\ny\n"
    assert said["/w/moved.py"]["new_string"] == said["/w/old.py"]["new_string"] == "come\n"
    assert said["/w/old.py"]["old_string"] == "gone\n" and said["/w/bad.py"]["content"] == ""
    assert said["/w/new.py"]["patch"] == patch
