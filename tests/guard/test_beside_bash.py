"""What is said to only read is run in a real bash, and writes nothing: lines into which something was put, where a
reader and the shell might differ on where a word, a quote or a command ends."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from noria.guard.command import parse
from noria.guard.commands import CommandLine
from noria.guard.harmless import only_reads
from noria.guard.modes import inside
from noria.guard.rules import Rules

BASH = shutil.which("bash", path="/usr/bin:/bin") or ""

LINES = (
    "echo 'touch M'", 'echo "a; touch M"', "cat <<'E'\ntouch M\nE\n", 'cat <<"E"\n$(touch M)\nE\n',
    "ls # touch M\nls", 'grep "touch M" a', "echo a\\;touch M", "echo '$(touch M)'", 'echo "\\$(touch M)"',
    "case x in a) echo touch M;; esac", "if true; then echo touch M; fi", "for f in touch M; do echo $f; done",
    '[[ "touch M" == a ]]', '[ "touch M" = a ] && ls', "echo ${x:-touch M}", "echo ${x/touch/M}",
    "echo $'a\\'; touch M'",
    "(echo touch M)", "{ echo touch M; }", "echo a | grep touch M", "cat a |\ngrep 'touch M'",
    "echo touch M > /dev/null",
    "x='touch M'; echo \"$x\"", "while read l; do echo touch M; done < a", 'echo "`echo touch M`"',
    "cat <(echo touch M)", "sed 's/touch M/b/' a", "awk '{print \"touch M\"}' a", "cat <<-'E'\n\ttouch M\n\tE\n",
    "cat <<E\n\\$(touch M)\nE\n", "cat <<'A' <<'B'\ntouch M\nA\ntouch M\nB\n", "bash -c 'echo touch M'",
    "! echo touch M", "echo \\\ntouch M", 'echo "$(cat <<\'E\'\ntouch M\nE\n)"', 'echo "${x:-"touch M"}"',
    "test -f 'touch M'", "echo a #'\ntrue touch M", "sort a 2>&1 b", "printf '%s\\n' 'touch M'",
)  # fmt: skip
PIECES = (
    "'", '"', "\\", "`", "$", "$(", ")", "(", "{", "}", "\n", "#", " #", "<<", "<<E", "<<-E", "E\n", "\nE\n", ";", ";;",
    "&", "&&", "|", "||", "<", ">", "<(", ">(", "[", "]", "[[", "]]", "!", "=", "~", "*", "?", "$'", '$"', "${",
    "'\\''", "\t", " ", "\\\n", "esac", "done", "fi", " in ", " do ", "case x in",
    "x)", "0", "2", "-", "--", "@(", "\\'", '\\"',
    "''", "a=(", "((", "))", "$((", "|&", "&>", ">&", "<&", "<>", "<<<", "==", " [ ", " ] ", "touch M", "$x",
)  # fmt: skip


@st.composite
def changed(draw: st.DrawFn) -> str:
    """One of the lines, or two, with up to four pieces put in or characters left out."""
    line = draw(st.sampled_from(LINES))
    if draw(st.booleans()):
        line += draw(st.sampled_from(("; ", "\n", " && ", " | "))) + draw(st.sampled_from(LINES))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(line)))
        left = draw(st.integers(0, 2))
        line = line[:at] + (draw(st.sampled_from(PIECES)) if left < 2 else "") + line[at + left // 2 :]
    return line


def left_by(line: str) -> set[str]:
    """What a line leaves in an empty folder but for its two files."""
    with tempfile.TemporaryDirectory() as folder:
        for name in ("a", "b"):
            with open(os.path.join(folder, name), "w") as file:
                file.write("x\n")
        with suppress(subprocess.TimeoutExpired):
            subprocess.run(
                [BASH, "-c", line], cwd=folder, env={"PATH": "/usr/bin:/bin", "HOME": "/nonexistent"}, timeout=5,
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip
        return set(os.listdir(folder)) - {"a", "b"}


@pytest.mark.case("E02")
@pytest.mark.skipif(not BASH, reason="there is no bash")
@settings(max_examples=300, deadline=None, derandomize=True)
@given(changed())
def test_what_is_said_to_only_read_writes_nothing(line: str) -> None:
    if "touch" in line and not parse(line).unclear and not only_reads(line, "/tmp", lambda path: True):
        assert left_by(line) == set(), line


@pytest.mark.case("E01")
@pytest.mark.skipif(not BASH, reason="there is no bash")
@settings(max_examples=200, deadline=None, derandomize=True)
@given(changed())
def test_what_is_denied_does_not_run(line: str) -> None:
    """Where everything else is allowed."""
    rules = Rules("/tmp")
    rules.add("deny", "run_command(touch *)", "--deny")
    rules.add("allow", "run_command(*)", "--allow")
    found = CommandLine(rules, line, "/tmp", lambda path: inside(path, ("/tmp",))).ruling()
    if found.kind == "allow" and ">" not in line:  # what is redirected is a write, which the rule says nothing of
        assert left_by(line) == set(), line
