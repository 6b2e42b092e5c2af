"""What becomes of command lines under rules: a table of them, and laws over composed ones."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from noria.core.content import Call, make_call
from noria.core.events import Allow, Ask, Refuse, Verdict
from noria.core.ports import Claims
from noria.guard.command import bash_grammar, bash_parser, parse
from noria.guard.commands import CommandLine
from noria.guard.gates import Gates
from noria.guard.modes import PermissionMode, inside
from noria.guard.rules import RuleKind, Rules
from noria.tools.registry import ToolSet
from noria.tools.shell import run_command
from noria.tools.toolbox import Toolbox
from noria.tools.workspace import Workspace
from tests.guard import lines


def command(text: str, **more: object) -> Call:
    made = make_call("run_command", msgspec.json.encode({"command": text, **more}).decode())
    return msgspec.structs.replace(made, id="c1")


def place(root: Path) -> Path:
    """A workspace with some files."""
    for folder in ("src", "out"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    for name in ("a", "f", ".env", "src/x", "yarn.lock", "package.json", "list"):
        (root / name).touch()
    return root


def ruled(root: Path, rules: Iterable[tuple[str, str]]) -> Rules:
    made = Rules(os.path.realpath(root))
    for kind, text in rules:
        made.add(_kind(kind), text, f"--{kind}")
    return made


def _kind(text: str) -> RuleKind:
    assert text in ("allow", "ask", "deny")
    return text  # type: ignore[return-value]


def gates(root: Path, rules: Iterable[tuple[str, str]], mode: PermissionMode = "default") -> Gates:
    box = Toolbox(ToolSet().add(run_command), Workspace(str(root)))
    return Gates(box.tools, box.claims, box.workspace.root, mode=mode, asked="person", rules=ruled(root, rules))


def verdict(gate: Gates, text: str) -> Verdict:
    found = gate.at_once(1, command(text))
    assert found is not None
    return found


def said(found: Verdict) -> str:
    match found:
        case Allow():
            return "run"
        case Ask():
            return "asked"
        case Refuse(result=result):
            assert "forbidden by the rule deny " in result.text, result.text
            return "denied"
        case _:
            raise AssertionError(found)


def listed(text: str) -> list[str]:
    return [line.replace("⏎", "\n") for line in text.strip().split("\n")]


ALLOWED, ASKED, DENIED = listed(lines.ALLOWED), listed(lines.ASKED), listed(lines.DENIED)
EVERY = [*ALLOWED, *ASKED, *DENIED]


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Gates:
    return gates(place(tmp_path_factory.mktemp("work")), lines.RULES)


@pytest.mark.case("E01")
@pytest.mark.seed("G20", "G21", "Z43")
@pytest.mark.parametrize("text", ALLOWED)
def test_what_is_allowed_runs(house: Gates, text: str) -> None:
    assert said(verdict(house, text)) == "run"


@pytest.mark.case("E01", "E02")
@pytest.mark.parametrize("text", ASKED)
def test_what_no_rule_allows_is_asked(house: Gates, text: str) -> None:
    assert said(verdict(house, text)) == "asked"


@pytest.mark.case("E01")
@pytest.mark.seed("G20", "G21", "Z43")
@pytest.mark.parametrize("text", DENIED)
def test_what_is_denied_is_denied(house: Gates, text: str) -> None:
    """G20, G21, noria's form: patterns are of each command by itself, so `curl * | sh` is `curl *` and `sh`."""
    assert said(verdict(house, text)) == "denied"


def test_the_table_is_what_it_should_be() -> None:
    """At least 250 commands, about a third of each kind, no two that differ only in names, and every production of the
    grammar at least once."""
    assert len(EVERY) >= 250 and len(set(EVERY)) == len(EVERY)
    assert all(len(each) > 0.28 * len(EVERY) for each in (ALLOWED, ASKED, DENIED))
    names = re.compile(r"\b([a-z]|[a-z]\.\w+|src|out|list|yarn|bob|all|\d+)\b")
    shapes = Counter(names.sub("N", text) for text in EVERY)
    assert [shape for shape, times in shapes.items() if times > 1] == []
    assert grammar() - seen() == set()


def grammar() -> set[str]:
    """Every named production of the grammar."""
    from tree_sitter import Language

    language = Language(bash_grammar())
    kinds = range(language.node_kind_count)
    named = (k for k in kinds if language.node_kind_is_named(k) and language.node_kind_is_visible(k))
    return {name for k in named if (name := language.node_kind_for_id(k))}


def seen() -> set[str]:
    """The productions in the table."""
    found: set[str] = set()
    for text in EVERY:
        left = [bash_parser().parse(text.encode()).root_node]
        while left:
            node = left.pop()
            found.add(node.type)
            left += node.children
    return found


# -- the cases by themselves -------------------------------------------------------------------------------------

E01 = (("allow", "run_command(git *)"), ("deny", "run_command(rm *)"))
CHAINED = r"""
git log && rm f
git log; rm f
git log | sh
git log || rm f
git log & rm f
git log⏎rm f
(rm f)
{ rm f; }
git log > ~/.bashrc
bash -c "rm f"
env rm f
nice rm f
xargs rm <list
\rm f
"rm" f
command rm f
"""


@pytest.mark.case("E01")
@pytest.mark.parametrize("mode", ["default", "accept-edits", "goal", "debug"])
@pytest.mark.parametrize("text", listed(CHAINED))
def test_e01_each_part_is_judged_by_itself(tmp_path: Path, text: str, mode: PermissionMode) -> None:
    found = verdict(gates(place(tmp_path), E01, mode), text)
    assert not isinstance(found, Allow)
    if "rm" in text and "bashrc" not in text:
        assert said(found) == "denied"


@pytest.mark.case("E01")
def test_e01_the_benign_ones_run_without_a_prompt(tmp_path: Path) -> None:
    gate = gates(place(tmp_path), (*E01, ("allow", "run_command(head *)")))
    assert said(verdict(gate, "git log | head")) == said(verdict(gate, 'echo "a && b"')) == "run"
    assert said(verdict(gate, "git log 'a")) == "asked"


NOT_READING = r"""
git diff --output=x
git -c core.fsmonitor=./h.sh status
git -c alias.x='!touch x' x
git -p status
rg --pre ./h.sh a f
find . -exec touch x \;
find . -delete
sort -o x f
sed -i s/a/b/ f
awk 'BEGIN{system("touch x")}'
tee x
BASH_ENV=./h.sh bash -c true
"""


@pytest.mark.case("E02")
@pytest.mark.parametrize("rules", [(), (("deny", "run_command(rm *)"), ("allow", "run_command(make *)"))])
def test_e02_without_a_rule_for_them_none_runs(tmp_path: Path, rules: tuple[tuple[str, str], ...]) -> None:
    gate = gates(place(tmp_path), rules)
    assert [t for t in listed(NOT_READING) if said(verdict(gate, t)) != "asked"] == []
    for text in ("git log -p", "git diff", "rg a", "find . -name x", "sort f"):
        assert said(verdict(gate, text)) == "run", text


# -- laws --------------------------------------------------------------------------------------------------------

WRAPS = (
    "env {}", "env A=1 {}", "nice -n 3 {}", "timeout 5 {}", "timeout -k 1 -s KILL 5 {}", "nohup {}", "setsid {}",
    "stdbuf -oL {}", "command {}", "builtin {}", "exec {}", "time {}", "sudo {}", "sudo -u bob {}", "doas {}",
    "xargs {}",
    "xargs -n 1 {}", "ls | xargs -0 {}", "find . -exec {} \\;", "find . -name a -execdir {} +", "busybox {}",
    "watch {}",
    "strace -f {}", "ssh h {}", "uv run {}", "flock a {}", "coproc {}", "ionice -c 3 {}", "parallel {} ::: a",
    "git bisect run {}", "chroot / {}",
)  # fmt: skip
"""What runs the simple command that it is given."""
AROUND = (
    "( {} )", "{{ {}; }}", "! ( {} )", "if true; then {}; fi", "if {}; then :; fi", "while false; do {}; done",
    "for i in a; do {}; done", "case a in a) {};; esac", "f() {{ {}; }}; f", "echo $({})", 'x="$({})"', "cat <({})",
    "true && {}", "false || {}", "ls; {}", "ls | {}", "{} & wait", "ls\n{}", "{} > /dev/null 2>&1", "[[ -n $({}) ]]",
    "echo ${{x:-$({})}}", "cat <<E\n$({})\nE", "{} # x\n", "# x\n{}",
)  # fmt: skip
"""What has a line in it."""
SPELLED = (
    "rm f", "rm", "\\rm f", '"rm" f', "r''m f", "/bin/rm f", "/usr/bin/rm -rf f", "./rm f", "rm -rf *", 'rm "$x"',
)  # fmt: skip


def quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


@st.composite
def wrapped(draw: st.DrawFn, seeds: tuple[str, ...]) -> str:
    """A command out of the seeds, with whatever may stand around it. Wrappers take a simple command; only a script may
    have a whole line in it."""
    text = draw(st.sampled_from(seeds))
    for _ in range(draw(st.integers(0, 3))):
        text = draw(st.sampled_from(WRAPS)).format(text)
    for _ in range(draw(st.integers(0, 3))):
        around = draw(st.sampled_from((*AROUND, "sh", "eval", "trap", "sudo sh")))
        match around:
            case "sh" | "sudo sh":
                text = f"{around} -c {quoted(text)}"
            case "eval":
                text = f"eval {quoted(text)}"
            case "trap":
                text = f"trap {quoted(text)} EXIT"
            case _:
                text = around.format(text)
    return text


def ruling(rules: Rules, text: str) -> str:
    root = rules.workspace
    return CommandLine(rules, text, root, lambda path: inside(path, (root,))).ruling().kind


@pytest.mark.case("E01")
@settings(max_examples=400)
@given(wrapped(SPELLED))
def test_a_denied_command_stays_denied_under_any_wrapping(text: str) -> None:
    """What cannot be parsed, itself or as the script of a shell within it, is asked about; so is arithmetic, which a
    group becomes right behind `$(`: nothing is run in it by name."""
    rules = ruled(Path("/nowhere"), [("deny", "run_command(rm *)"), ("allow", "run_command(*)")])
    root = rules.workspace
    found = CommandLine(rules, text, root, lambda path: inside(path, (root,))).ruling()
    unparsed = parse(text).unclear or found.why.startswith("it could not be parsed as bash")
    if unparsed or len(text) > 4_000 or "$((" in text:
        assert found.kind in ("ask", "deny")
    else:
        assert found.kind == "deny", text


@pytest.mark.case("E01")
@settings(max_examples=400)
@given(wrapped(("tar c a", "./git x", "gitx", "$x", "PATH=. git log", "python -c 1")), st.sampled_from(("", "git x; ")))
def test_an_allow_never_lets_through_what_it_does_not_cover(text: str, before: str) -> None:
    """Whatever stands around it, where the wrappers themselves are allowed."""
    names = ("git", "ls", "echo", "cat", "sudo", "find", "xargs", "env", "wait")
    rules = ruled(Path("/nowhere"), [("allow", f"run_command({name} *)") for name in names])
    assert ruling(rules, before + text) in ("", "ask"), text


@settings(max_examples=200)
@given(wrapped(("git push", "git log -p", "/usr/bin/git fetch")))
def test_an_allow_says_nothing_else_than_allow_or_nothing(text: str) -> None:
    rules = ruled(Path("/nowhere"), [("allow", "run_command(git *)")])
    assert ruling(rules, text) in ("allow", "")


@pytest.mark.parametrize("char", ["\U0010ffff", "\U000b7e58", "\U0001f600", "漢", "ƀ"])
def test_no_character_ends_the_process(char: str) -> None:
    """The parser's scanner looks beyond its table of characters behind a brace: such a line is not given to it."""
    for text in (f"{char}{{{char}1..2{char}", f"echo {{{char}}}", f"a{char}=1 ls", f"$a{char}", f"ls ${{a{char}"):
        done = subprocess.run(
            [sys.executable, "-c", "import sys; from noria.guard.command import parse; parse(sys.argv[1])", text],
            check=False,
        )
        assert done.returncode == 0, text
    assert [w.text for w in parse(f"rm 'x{char}' y{char}z").commands[0].words] == ["rm", f"x{char}", f"y{char}z"]


@given(st.text(max_size=60))
def test_any_text_is_judged(text: str) -> None:
    rules = ruled(Path("/nowhere"), lines.RULES)
    assert ruling(rules, text) in ("", "allow", "ask", "deny")
    assert isinstance(rules.exact_rule(command(text.encode("utf-8", "replace").decode()), Claims()), str)
