"""Rules: what is one, which calls it is about, and what the gates make of it."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from noria.core.content import Call, Result, make_call
from noria.core.events import Allow, Ask, Decided, Refuse, Verdict
from noria.guard import globs
from noria.guard.commands import CommandLine
from noria.guard.gates import Gates, Permit, WhenAsked
from noria.guard.modes import MODES, PermissionMode
from noria.guard.offered import advertised
from noria.guard.rules import NAMES, RuleKind, Rules, parse_rule
from noria.tools.registry import builtin
from noria.tools.schema import tool
from noria.tools.toolbox import Toolbox
from noria.tools.workspace import Workspace


@tool
def mcp__files__write(path: str) -> str:
    """Write."""
    return path


@tool(read_only=True)
def mcp__files__read(path: str) -> str:
    """Read."""
    return path


def gates(
    root: Path, rules: Iterable[tuple[RuleKind, str]] = (), mode: PermissionMode = "default",
    asked: WhenAsked = "person", **more: Any,
) -> Gates:  # fmt: skip
    box = Toolbox(builtin().add(mcp__files__write).add(mcp__files__read), Workspace(str(root)))
    made = Rules(box.workspace.root)
    for kind, text in rules:
        made.add(kind, text, f"--{kind}")
    return Gates(box.tools, box.claims, box.workspace.root, mode=mode, asked=asked, rules=made, **more)


def call(name: str, **args: Any) -> Call:
    return msgspec.structs.replace(make_call(name, msgspec.json.encode(args).decode()), id="c1")


def ask(gate: Gates, made: Call) -> Verdict:
    found = asyncio.run(gate.decide(1, made))
    assert not isinstance(found, Decided)
    return found


def word(gate: Gates, made: Call) -> str:
    match ask(gate, made):
        case Allow():
            return "run"
        case Ask():
            return "ask"
        case Refuse(result=result):
            return result.status
        case other:
            raise AssertionError(other)


def refusal(gate: Gates, made: Call) -> Result:
    found = ask(gate, made)
    assert isinstance(found, Refuse)
    return found.result


def read(path: str) -> Call:
    return call("read_file", path=path)


def write(path: str) -> Call:
    return call("write_file", path=path, content="x")


def edit(path: str) -> Call:
    return call("edit_file", path=path, old_string="a", new_string="b")


def patch(*paths: str) -> Call:
    body = "\n".join(f"*** Add File: {path}\n+x" for path in paths)
    return call("apply_patch", patch=f"*** Begin Patch\n{body}\n*** End Patch")


def run(command: str, **more: Any) -> Call:
    return call("run_command", command=command, **more)


# -- what is a rule ----------------------------------------------------------------------------------------------


@pytest.mark.seed("G11", "G12")
@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "is no rule: write tool or tool(pattern), like run_command(git log *)"),
        ("git log *", "is no rule"),
        ("run_command(git", "is no rule"),
        ("run_command()", "has nothing in its parentheses: write run_command alone for every call"),
        ("Bash(git *)", "there is no tool Bash; did you mean run_command?"),
        ("Read(.env)", "did you mean read_file?"),
        ("bash", "did you mean run_command?"),
        ("todoWrite", "did you mean todo_write?"),
        ("read_fil(.env)", "did you mean read_file?"),
        ("zzz", "there is no tool zzz; the tools are read_file, write_file,"),
        ("git_commit(x)", "git_commit takes no pattern: write git_commit alone"),
        ("mcp__a__b(x)", "takes no pattern"),
        ("*(x)", "takes no pattern"),
        ("run_command(git log | sh)", "matched on each command of a line by itself"),
        ("run_command(a && b)", "matched on each command"),
        ("run_command(curl * | sh)", "matched on each command"),
        (
            "run_command(a * b * c * d * e * f * g * h * i * j * k * l * m * n * o * p * q * r * s * t * u * v)",
            "times *",
        ),
        ("run_command(curl *|sh)", "matched on each command"),
        ("run_command(git push; rm *)", "matched on each command"),
        ("run_command(make 2>&1)", "matched on each command"),
        ("run_command(git log > *)", "write_file(path) for where one writes to"),
        ('run_command("rm" *)', "quotes are taken off a command before a rule is matched on it"),
        ("run_command(git commit -m 'wip *')", "so that it never fits: write git commit -m wip *"),
        (r"run_command(rm a\ b)", "write rm a b"),
        ("run_command(rm:*)", "write rm *"),
        ("run_command(PATH=. git *)", "write the command alone"),
        ("mcp__files", "mcp__files names a server and no tool: write mcp__files__* for all of its tools"),
        ("mcp__my_files", "write mcp__my_files__*"),
        ("read_file(!x)", "has no ! before its path"),
        ("read_file(../x)", "has no .."),
        ("read_file(a/../b)", "has no .."),
        ("read_file([a)", "the [ is never closed"),
        ("read_file([z-a])", "it is no pattern"),
        ("web_fetch(https://a.b/c)", "it is no host: write docs.python.org"),
        ("web_fetch(a.b/c)", "it is no host"),
        ("web_fetch(*x.com)", "it is no host"),
    ],
)
def test_what_is_no_rule_says_why(text: str, why: str) -> None:
    """G11, G12, noria's form: a rule names a tool as it is, and never makes one be offered."""
    with pytest.raises(ValueError, match=re.escape(why)) as caught:
        parse_rule("deny", text, "--deny", NAMES)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("kind", "text", "command"),
    [
        ("deny", "run_command(rm  *)", "rm x"),
        ("deny", "run_command( rm\t* )", "rm x"),
        ("ask", "run_command(/bin/rm *)", "rm x"),
        ("deny", "run_command(/usr/bin/rm *)", "env rm x"),
        ("allow", "run_command(git  push *)", "git push origin"),
        ("allow", 'run_command(git commit -m "a  b")', 'git commit -m "a  b"'),
        ("deny", "run_command(npm run test:*)", "npm run test:unit"),
        ("deny", "run_command(git log --format=%h|%s)", "git log '--format=%h|%s'"),
        ("deny", "run_command(curl *&b=2*)", "curl 'x?a=1&b=2'"),
    ],
)
def test_patterns_written_otherwise(kind: RuleKind, text: str, command: str, tmp_path: Path) -> None:
    """Blanks are one, what stands in the system's own folders is the command itself, and marks within a word are it."""
    root = os.path.realpath(tmp_path)
    rules = Rules(root)
    rules.add(kind, text, "--x")
    assert CommandLine(rules, command, root, lambda path: True).ruling().kind == kind


@pytest.mark.parametrize("name", NAMES)
def test_every_tool_has_rules(name: str) -> None:
    rule = parse_rule("ask", f" {name} ", "--ask", NAMES)
    assert (rule.text, rule.shown, rule.binds(name)) == (name, f"ask {name} (--ask)", True)


@given(st.text(max_size=40), st.sampled_from(["run_command", "read_file", "web_fetch", "write_file"]))
def test_any_text_is_a_rule_or_says_why(text: str, name: str) -> None:
    for each in (text, f"{name}({text})"):
        try:
            rule = parse_rule("allow", each, "x", NAMES)
        except ValueError as error:
            assert str(error)
        else:
            assert parse_rule("allow", rule.text, "x", NAMES) == rule
            Rules("/w").path("read", "/w/a")


@pytest.mark.parametrize(
    ("pattern", "fits", "not_"),
    [
        ("git *", ["git", "git log", "git a b"], ["gitx", "git-log", "x git", "Git log"]),
        ("git log", ["git log"], ["git", "git log x", "git  log"]),
        ("git log*", ["git log", "git logs x"], ["git"]),
        ("*", ["", "a", "a b\nc"], []),
        ("npm run test:*", ["npm run test:unit"], ["npm run test"]),
        ("a * c", ["a b c", "a b b c"], ["a c", "a b c d"]),
        ("a * c *", ["a b c", "a b c d"], ["a c"]),
        (r"ls \*.py", ["ls *.py"], ["ls a.py"]),
        (r"a\\b", [r"a\b"], ["ab"]),
        (r"a\b", [r"a\b"], ["ab"]),
        ("a.b", ["a.b"], ["axb"]),
        ("**", ["x"], []),
        ("* --force", ["git push --force"], ["git push --force x"]),
    ],
)
def test_command_patterns(pattern: str, fits: list[str], not_: list[str]) -> None:
    compiled = globs.command_pattern(pattern)
    assert [t for t in fits if not compiled.fits(t)] == [] and [t for t in not_ if compiled.fits(t)] == []


@given(st.text(max_size=30))
def test_an_escaped_text_fits_itself_alone(text: str) -> None:
    compiled = globs.command_pattern(globs.escaped(text))
    assert compiled.whole and compiled.fits(text) and not compiled.fits(text + "x")


@given(
    st.lists(st.sampled_from(["rm", " ", "a", "*", "\0", "git"]), max_size=6).map("".join),
    st.sampled_from(["rm *", "*a", "git * a"]),
)
def test_what_fits_might_fit(text: str, pattern: str) -> None:
    """And what might not fit does not, whatever the unknown turns out to be."""
    compiled = globs.command_pattern(pattern)
    if compiled.fits(text):
        assert compiled.might_fit(text)
    for filling in ("", "rm", " x", "a", "git b a"):
        if compiled.fits(text.replace("\0", filling)):
            assert compiled.might_fit(text)


@pytest.mark.seed("G21")
@pytest.mark.parametrize(
    ("pattern", "fits", "not_"),
    [
        (".env", ["/w/.env", "/w/a/b/.env", "/w/.env/x"], ["/w/.envs", "/w/x.env", "/x/.env", "/w"]),
        (".env.*", ["/w/.env.local", "/w/a/.env.x"], ["/w/.env"]),
        ("/etc/passwd", ["/etc/passwd"], ["/w/etc/passwd", "/etc/passwd2"]),
        ("/etc", ["/etc", "/etc/a/b"], ["/etcx"]),
        (".git/**", ["/w/.git/config", "/w/.git/a/b"], ["/w/.git", "/w/a/.git/config"]),
        ("src/*.py", ["/w/src/a.py"], ["/w/src/a/b.py", "/w/x/src/a.py"]),
        ("src/**/*.py", ["/w/src/a.py", "/w/src/a/b/c.py"], ["/w/a.py"]),
        ("**/secret", ["/w/secret", "/w/a/b/secret", "/w/secret/x"], ["/w/secrets"]),
        ("./a", ["/w/a", "/w/a/b"], ["/w/b/a"]),
        ("a/", ["/w/a/b", "/w/x/a/b"], ["/w/a"]),
        ("*.lock", ["/w/yarn.lock", "/w/a/x.lock"], ["/w/lock"]),
        ("a[0-9].txt", ["/w/a1.txt"], ["/w/ab.txt"]),
        ("a[!0-9]", ["/w/ab"], ["/w/a1", "/w/a/"]),
        (r"a\*", ["/w/a*"], ["/w/ab"]),
        ("?", ["/w/a", "/w/b/a"], ["/w/ab"]),
        ("*", ["/w/a", "/w/a/b"], ["/x"]),
        ("**", ["/w/a", "/w/a/b"], ["/x"]),
        ("/**", ["/x", "/w/a"], []),
        ("/tmp/**/x", ["/tmp/x", "/tmp/a/b/x"], ["/tmp/a"]),
    ],
)
def test_path_patterns(pattern: str, fits: list[str], not_: list[str]) -> None:
    compiled = globs.path_pattern(pattern)
    assert [p for p in fits if not compiled.fits(p, "/w")] == [] and [p for p in not_ if compiled.fits(p, "/w")] == []


def test_home_is_home() -> None:
    compiled = globs.path_pattern("~/.ssh/**", "/home/me")
    assert compiled.fits("/home/me/.ssh/id", "/w") and not compiled.fits("/home/you/.ssh/id", "/w")
    assert globs.path_pattern("~").fits(os.path.expanduser("~/x"), "/w")


@pytest.mark.parametrize(
    ("pattern", "fits", "not_"),
    [
        ("docs.python.org", ["docs.python.org"], ["python.org", "xdocs.python.org", "docs.python.org.evil.com"]),
        ("Docs.Python.org.", ["docs.python.org"], []),
        ("*.example.com", ["a.example.com", "a.b.example.com"], ["example.com", "evilexample.com"]),
        ("*", ["a", "b.c"], []),
        ("localhost", ["localhost"], []),
        ("10.0.0.1", ["10.0.0.1"], ["10.0.0.11"]),
        ("münchen.de", ["xn--mnchen-3ya.de"], []),
    ],
)
def test_hosts(pattern: str, fits: list[str], not_: list[str]) -> None:
    compiled = globs.host_pattern(pattern)
    assert all(globs.host_fits(compiled, h) for h in fits) and not any(globs.host_fits(compiled, h) for h in not_)


# -- what the gates make of them ---------------------------------------------------------------------------------


@pytest.mark.seed("G07", "G10", "G13", "G16", "G17", "G18")
@pytest.mark.parametrize("order", [1, -1])
def test_deny_over_ask_over_allow_wherever_they_come_from(tmp_path: Path, order: int) -> None:
    """G07, G10, G13, G16 to G18, noria's form: no order of rules counts, and no list means only its own; the rule that
    said it is named with its source."""
    rules: list[tuple[RuleKind, str]] = [("allow", "write_file"), ("ask", "write_file(a)"), ("deny", "write_file(b)")]
    gate = gates(tmp_path, rules[::order])
    assert [word(gate, write(p)) for p in ("a", "b", "c")] == ["ask", "denied", "run"]
    told = refusal(gate, write("b"))
    assert told.text == (
        f"ERROR: write_file was not run: {tmp_path}/b is forbidden by the rule deny write_file(b) (--deny). Do not "
        "retry it, in this form or another; do what can be done without it, and say what is left"
    )
    assert word(gate, read("x")) == "run"  # an allow does not mean only these


@pytest.mark.seed("G14", "G08", "C05", "C06", "D03")
def test_a_tool_that_is_denied_whole_is_not_offered_and_does_not_run(tmp_path: Path) -> None:
    """G14, C06, noria's form: `deny = ["*"]` leaves nothing; what is denied is neither offered nor run."""
    gate = gates(tmp_path, [("deny", "write_file"), ("deny", "mcp__files__*"), ("deny", "web_fetch(*)")])
    names = [t.name for t in advertised("default", builtin().add(mcp__files__write), "person", gate)]
    assert not {"write_file", "edit_file", "apply_patch", "mcp__files__write", "web_fetch"} & set(names)
    assert "read_file" in names and "web_search" in names
    told = refusal(gate, call("edit_file"))
    assert told.status == "denied" and "the rule deny write_file (--deny) forbids it" in told.text
    nothing = gates(tmp_path, [("deny", "*")], "goal")
    assert advertised("goal", builtin(), "person", nothing) == []
    assert word(nothing, read("a")) == word(nothing, run("ls")) == "denied"


def test_an_allow_turns_ask_into_run_and_never_blocked_or_denied(tmp_path: Path) -> None:
    every: list[tuple[RuleKind, str]] = [("allow", "*")]
    for mode in MODES:
        plain, allowed = gates(tmp_path, [], mode), gates(tmp_path, every, mode)
        for made in (
            read("a"), write("a"), run("make"), run("ls"), call("git_commit", message="a"), read("/etc/hosts"),
            write("/etc/x"), call("mcp__files__write", path="a"), call("web_fetch", url="https://a.example/"),
        ):  # fmt: skip
            before, after = word(plain, made), word(allowed, made)
            assert after == ("run" if before == "ask" else before), (mode, made)
    question = call("ask_user", questions=[{"question": "a?", "options": ["a", "b"]}])
    assert word(gates(tmp_path, every), question) == "ask"  # only a person answers it
    assert word(gates(tmp_path, every, "plan"), call("exit_plan", plan="a")) == "ask"


def test_an_ask_rule_asks_in_every_mode_and_is_denied_in_goal(tmp_path: Path) -> None:
    rules: list[tuple[RuleKind, str]] = [("ask", "read_file(a)"), ("ask", "run_command(make *)"), ("allow", "*")]
    for mode in MODES:
        gate = gates(tmp_path, rules, mode)
        expected = "denied" if mode == "goal" else "ask"
        assert word(gate, read("a")) == expected
        assert word(gate, run("make x")) == ("denied" if mode in ("goal", "plan") else "ask")
    told = refusal(gates(tmp_path, rules, "goal"), read("a")).text
    assert "the rule ask read_file(a) (--ask) wants it asked about, and goal mode never asks" in told
    told = refusal(gates(tmp_path, rules, asked="deny"), read("a")).text
    assert "(--ask) wants it asked about, and nobody can be asked here" in told and "--on-ask pause" in told
    assert "--allow" not in told  # no allow helps
    assert ask(gates(tmp_path, rules, asked="pause"), read("a")) == Ask()


def test_a_hook_never_beats_a_rule(tmp_path: Path) -> None:
    seen: list[str] = []

    async def permits(effect: int, made: Call, args: str) -> Verdict | Permit | None:
        seen.append(made.args)
        return Permit(args)

    async def rewrites(effect: int, made: Call, args: str) -> Verdict | Permit | None:
        return Allow(write(".env").args)

    rules: list[tuple[RuleKind, str]] = [
        ("deny", "write_file(.env)"),
        ("ask", "write_file(a)"),
        ("allow", "write_file(c)"),
    ]
    gate = gates(tmp_path, rules, hooks=[permits])
    assert word(gate, write(".env")) == "denied" and seen == []  # it is not even asked
    assert word(gate, write("a")) == "ask" and word(gate, write("b")) == "run"
    assert word(gates(tmp_path, rules, hooks=[rewrites]), write("c")) == "denied"

    async def asks(effect: int, made: Call, args: str) -> Verdict | Permit | None:
        return Ask()

    assert word(gates(tmp_path, rules, hooks=[asks]), write("c")) == "ask"  # nor does an allow beat a hook that asks


@pytest.mark.seed("G21", "Z43", "Z29")
def test_a_rule_on_one_writing_tool_binds_all_and_one_on_reading_too(tmp_path: Path) -> None:
    for named in ("write_file", "edit_file", "apply_patch"):
        gate = gates(tmp_path, [("deny", f"{named}(.env)"), ("allow", f"{named}(docs/**)")])
        assert [word(gate, made) for made in (write(".env"), edit(".env"), patch("a", ".env"))] == ["denied"] * 3
        assert [word(gate, made) for made in (write("docs/a"), edit("docs/a"), patch("docs/a", "docs/b"))] == [
            "run"
        ] * 3
        assert word(gate, patch("docs/a", "b")) == "ask"  # all of it has to be covered
        assert word(gate, read(".env")) == "run"
    for named in ("read_file", "grep", "glob", "list_dir"):
        gate = gates(tmp_path, [("deny", f"{named}(secret)")])
        for made in (
            read("secret/a"), call("grep", pattern="x", path="secret"), call("glob", pattern="*", path="secret"),
            call("list_dir", path="secret/b"), call("git_diff", paths=["secret/a"]), run("cat secret/a"),
            run("ls secret"),
        ):  # fmt: skip
            assert word(gate, made) == "denied", made
        assert word(gate, call("grep", pattern="x")) == "run"


@pytest.mark.seed("G21", "Z43")
@pytest.mark.parametrize("kind", ["deny", "ask"])
def test_what_may_not_be_read_is_not_shown_by_a_refused_write_either(tmp_path: Path, kind: RuleKind) -> None:
    """A write of what was not read, or that does not fit, says what the file holds. A new one holds nothing."""
    (tmp_path / ".env").write_text("SECRET=1\n")
    (tmp_path / "link").symlink_to(".env")
    for named in ("read_file", "grep"):
        for mode in ("accept-edits", "default"):
            gate = gates(tmp_path, [(kind, f"{named}(.env)"), ("allow", "write_file")], mode=mode)
            for made in (write(".env"), edit(".env"), patch("a", ".env"), write("link"), edit("link")):
                assert word(gate, made) == ("denied" if kind == "deny" else "ask"), made
            assert word(gate, write("other/.envrc")) == word(gate, write("sub/.env")) == "run"


@pytest.mark.case("E03")
@pytest.mark.seed("G19")
def test_paths_are_judged_where_they_really_lead(tmp_path: Path) -> None:
    root, out = tmp_path / "w", tmp_path / "out"
    for folder in (root / "real", root / "conf", out):
        folder.mkdir(parents=True)
    (root / "box").symlink_to(out)
    (root / "inner").symlink_to(root / "real")
    (root / "config").symlink_to(root / "conf")
    (out / "a").write_text("x")
    gate = gates(
        root, [("deny", "write_file(real/**)"), ("allow", "write_file(box/**)"), ("deny", "write_file(config/x)")]
    )
    assert word(gate, write("inner/a")) == word(gate, write("./real/../inner/b")) == "denied"
    assert word(gate, write("conf/x")) == word(gate, write("config/x")) == "denied"  # the rule's own path is a link
    assert word(gate, write("box/a")) == "run"  # the rule names the link, and so what it leads to
    assert word(gate, run("cp a inner/b")) == word(gate, run("echo > inner/b")) == "denied"
    outside = gates(root, [("allow", f"read_file({out})"), ("deny", "read_file(~/.ssh)")])
    assert word(outside, read("box/a")) == word(outside, read(str(out / "a"))) == "run"
    assert word(outside, read("/etc/hosts")) == "ask" and word(outside, read("~/.ssh/id")) == "denied"


@pytest.mark.case("E03")
def test_a_link_that_is_put_in_place_after_the_word_is_seen(tmp_path: Path) -> None:
    for folder in ("docs", "src"):
        (tmp_path / folder).mkdir()
    gate = gates(tmp_path, [("allow", "write_file(docs/**)"), ("deny", "write_file(src/x)")])
    made = write("docs/a/b")
    assert word(gate, made) == "run" and gate.strayed(made) == ""
    assert word(gate, made) == "run"
    (tmp_path / "docs" / "a").symlink_to(tmp_path / "src")
    assert "it was allowed by a rule, and what it means has changed since" in gate.strayed(made)
    made = write("docs/c")
    assert word(gate, made) == "run"
    (tmp_path / "docs" / "c").symlink_to(tmp_path / "src" / "x")
    assert "is forbidden by a rule" in gate.strayed(made)


def test_hosts_and_servers(tmp_path: Path) -> None:
    gate = gates(
        tmp_path,
        [
            ("allow", "web_fetch(*.python.org)"),
            ("deny", "web_fetch(evil.example)"),
            ("allow", "mcp__files__*"),
            ("ask", "mcp__files__read"),
        ],
    )
    urls = ("https://docs.python.org/3", "https://DOCS.python.org.:443/", "https://python.org", "http://evil.example/x")
    assert [word(gate, call("web_fetch", url=u)) for u in urls] == ["run", "run", "ask", "denied"]
    assert word(gate, call("web_fetch", url="https://docs.python.org@other.example/")) == "ask"
    assert (
        word(gate, call("mcp__files__write", path="a")) == "run"
        and word(gate, call("mcp__files__read", path="a")) == "ask"
    )


@pytest.mark.parametrize(
    ("mode", "expected"), [("default", "ask"), ("accept-edits", "run"), ("goal", "run"), ("debug", "ask")]
)
def test_a_redirection_is_a_write(tmp_path: Path, mode: PermissionMode, expected: str) -> None:
    rules: list[tuple[RuleKind, str]] = [("allow", "run_command(make *)")]
    gate = gates(tmp_path, rules, mode)
    assert word(gate, run("make > a")) == expected
    assert word(gate, run("make > /elsewhere/a")) == ("denied" if mode == "goal" else "ask")
    assert word(gate, run("make > $x")) == ("run" if mode == "goal" else "ask")
    assert word(gates(tmp_path, [*rules, ("deny", "edit_file(a)")], mode), run("make > a")) == "denied"
    assert word(gates(tmp_path, [*rules, ("allow", "edit_file(a)")], mode), run("make > a")) == (
        "ask" if mode == "debug" else "run"
    )
    assert word(gates(tmp_path, [("deny", "write_file")], mode), run("make > a")) == "denied"


def test_a_command_in_another_folder_is_judged_there(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    gate = gates(
        tmp_path, [("allow", "run_command(make *)"), ("deny", "read_file(sub/a)"), ("deny", "write_file(sub/b)")]
    )
    assert word(gate, run("cat a", cwd="sub")) == word(gate, run("cd sub && cat a")) == "denied"
    assert word(gate, run("make > b", cwd="sub")) == word(gate, run("cd sub; make > b")) == "denied"
    assert word(gate, run("make", cwd="sub")) == "run" and word(gate, run("make", cwd="/")) == "ask"
    moved = gates(tmp_path, [("deny", "read_file(sub/a)")], folder=lambda: str(tmp_path / "sub"))
    assert word(moved, run("cat a")) == "denied"


def test_nobody_is_there_and_the_rule_that_would_help_is_named(tmp_path: Path) -> None:
    gate = gates(tmp_path, asked="deny")
    for made, rule in (
        (write("a b"), "--allow 'write_file(./a b)'"),
        (run("make 'x y'"), "--allow 'run_command(make '\\''x y'\\'')'"),
        (run("ls *.py | tee x"), "--allow 'run_command(ls \\*.py | tee x)'"),
        (read("/etc/hosts"), f"--allow 'read_file({os.path.realpath('/etc/hosts')})'"),
        (call("web_fetch", url="https://a.example/x"), "--allow 'web_fetch(a.example)'"),
        (call("git_commit", message="x"), "--allow 'git_commit'"),
    ):
        assert rule in refusal(gate, made).text, refusal(gate, made).text


# -- the exact rule ----------------------------------------------------------------------------------------------


@pytest.mark.case("E04")
@pytest.mark.parametrize(
    ("made", "other"),
    [
        (run("git push origin a"), run("git push origin b")),
        (run("make x"), run("make x y")),
        (run("make x && tar c a"), run("make x && tar c b")),
        (run("make * | sh -c 'tar c a'"), run("make a | sh -c 'tar c a'")),
        (run("make > a"), run("make > b")),
        (run("FOO=1 make"), run("FOO=2 make")),
        (run('bash -c "make; tar x"'), run('bash -c "make; tar y"')),
        (run("sudo make\nmake"), run("sudo make")),
        (run("for i in *; do make $i; done"), run("for i in a; do make $i; done")),
        (write("a"), write("sub/a")),
        (write("a*[b]"), write("axb")),
        (edit("a"), write("b")),
        (read("/etc/hosts"), read("/etc/passwd")),
        (call("web_fetch", url="https://a.example/x"), call("web_fetch", url="https://b.example/x")),
    ],
)
def test_the_exact_rule_covers_what_was_shown_and_no_more(tmp_path: Path, made: Call, other: Call) -> None:
    gate = gates(tmp_path)
    assert (word(gate, made), word(gate, other)) == ("ask", "ask")
    rule = gate.exact_rule(made)
    gate.rules.add("allow", rule, "always")
    assert (word(gate, made), word(gate, other)) == ("run", "ask"), rule
    assert parse_rule("allow", rule, "x", NAMES).text == rule
    gate.rules.add("deny", made.name, "--deny")
    assert word(gate, made) == "denied"


@pytest.mark.parametrize("text", ["ls 'a", "make $((x))", ""])
def test_no_rule_covers_what_is_not_understood(tmp_path: Path, text: str) -> None:
    gate = gates(tmp_path)
    assert gate.exact_rule(run(text)) == ""
    gate.rules.add("allow", f"run_command({globs.escaped(text) or '*'})", "x")
    if text:
        assert word(gate, run(text)) == "ask"
    assert gate.exact_rule(patch("a", "b")) == ""


@pytest.mark.case("E04")
def test_a_childs_rules_are_its_parents_and_more(tmp_path: Path) -> None:
    """Deny beats whatever the parent was answered; what is added to the child's is not the parent's."""
    parent = Rules(str(tmp_path))
    parent.add("allow", "run_command(git push origin a)", "always")
    child = parent.heir()
    child.add("deny", "run_command(git push *)", "agent")
    assert len(parent) == 1 and len(child) == 2
    parent.add("allow", "run_command(make)", "this session")  # what a person says while it is at work
    assert len(child) == 3 and len(parent) == 2
    box = Toolbox(builtin(), Workspace(str(tmp_path)))
    for rules, expected in ((parent, "run"), (child, "denied")):
        gate = Gates(box.tools, box.claims, box.workspace.root, asked="person", rules=rules)
        assert word(gate, run("git push origin a")) == expected
        assert word(gate, run("git push origin b")) == ("denied" if rules is child else "ask")


# -- what is withheld from searches ------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["deny", "ask"])
def test_a_withheld_file_is_in_no_search(tmp_path: Path, kind: RuleKind) -> None:
    (tmp_path / "src").mkdir()
    for name in (".env", "src/.env", "a", "src/a"):
        (tmp_path / name).write_text("needle\n")
    gate = gates(tmp_path, [(kind, "read_file(.env)")])
    box = Toolbox(builtin(), Workspace(str(tmp_path)))
    box.hidden = gate.hidden

    async def result(made: Call) -> str:
        return (await (await box.prepare(1, made)).run()).text

    async def work() -> list[str]:
        asked = [call("grep", pattern="needle", mode=mode) for mode in ("files", "content", "count")]
        asked += [call("glob", pattern="**/*"), call("list_dir"), call("list_dir", path="src")]
        return [await result(made) for made in asked]

    shown = asyncio.run(work())
    assert all(".env" not in text and "a" in text for text in shown), shown
    assert "[1 more that a rule withholds from being read]" in shown[4]
    if kind == "ask":  # asked for by its name, and allowed by a person, it is shown
        assert "needle" in asyncio.run(result(call("grep", pattern="needle", path=".env", mode="content")))
