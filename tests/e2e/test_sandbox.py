"""The sandbox around the commands of a run: on by default, told where there is none, refused where it must be."""

from __future__ import annotations

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
from typing import Any

import pytest

from noria.testing import ModelServer
from noria.testing.request import Request
from noria.testing.script import Turn
from tests.e2e.run import Place, processes_with
from tests.guard.test_escapes import _can
from tests.tools.helpers import soon

WITHOUT = """
import sys
import tempfile
from noria.guard import sandbox_bwrap, sandbox_landlock
sandbox_bwrap.program = lambda: ""
if sys.argv.pop(1) == "neither":
    sandbox_landlock.version = lambda: 0
from noria.__main__ import main
sys.exit(main())
"""
"""noria on a machine that has no bubblewrap, or neither."""


def do(*commands: str) -> list[Any]:
    """One reply for each command, and a last one."""
    return [*({"text": "", "calls": [["run_command", {"command": c}]]} for c in commands), {"text": "Done."}]


def results(server: ModelServer) -> list[str]:
    """What the last request says of the calls."""
    return [m["content"] for m in server.requests[-1]["messages"] if m["role"] == "tool"]


def without(place: Place, which: str, *more: str) -> subprocess.CompletedProcess[str]:
    """A run there."""
    command = [sys.executable, "-c", WITHOUT, which, *place.arguments("go", *more)]
    env = {k: v for k, v in place.env.items() if k != "NORIA_SANDBOX"}
    return subprocess.run(command, cwd=place.work, env=env, capture_output=True, text=True, timeout=60)


@pytest.mark.seed("G22", "Z28")
def test_commands_are_in_it_by_default_in_every_mode_that_runs_them(tmp_path: pathlib.Path) -> None:
    """noria's form: there is nothing to be configured for it."""
    if why := _can("bubblewrap"):
        pytest.skip(why)
    commands = [
        "touch /etc/noria-was-here", "cat $NORIA_HOME/journal.db | wc -c; ls $NORIA_HOME", "echo x > made; cat made",
        "exec 5<>/dev/tcp/192.0.2.1/80", "exec 5<>/dev/tcp/192.0.2.2/80", "cat /proc/1/environ",
    ]  # fmt: skip
    with ModelServer(do(*commands)) as server:
        place = Place(tmp_path, server.url)
        (place.home / ".ssh").mkdir()
        status, _, err = place.run("go")
        said = results(server)
    assert status == 0 and "without a sandbox" not in err
    assert "Read-only file system" in said[0] and "[sandbox: commands can write in" in said[0]
    assert said[1].split()[-1] != "journal.db" and said[2] == "x\n"
    assert "Network is unreachable" in said[3] and "[sandbox: commands have no network" in said[3]
    assert "Network is unreachable" in said[4] and "[sandbox" not in said[4]
    assert "Permission denied" in said[5] and "sk-test" not in json.dumps(said)
    assert not os.path.exists("/etc/noria-was-here") and not (place.work / ".noria").exists()


@pytest.mark.case("A02")
def test_the_agents_key_is_in_no_process_that_a_command_sees(tmp_path: pathlib.Path) -> None:
    """In the sandbox there is no process of noria's; without one, noria has overwritten the key in its own."""
    if why := _can("bubblewrap"):
        pytest.skip(why)
    key = f"sk-test-{os.urandom(8).hex()}"  # others run beside this
    look = f"cat /proc/[0-9]*/environ /proc/$PPID/environ 2>/dev/null | tr '\\0' '\\n' | grep -c {key[8:]}; true"
    with ModelServer(do(look)) as server:
        (place := Place(tmp_path / "with", server.url)).env["OPENAI_API_KEY"] = key
        place.run("go")
        assert results(server)[0] == "0\n"
    with ModelServer(do(look)) as server:
        (place := Place(tmp_path / "without", server.url)).env["OPENAI_API_KEY"] = key
        place.run("go", "--sandbox", "off")
        assert results(server)[0] == "0\n"


def test_where_there_is_no_bubblewrap_landlock_is_used_and_said(tmp_path: pathlib.Path) -> None:
    if why := _can("landlock"):
        pytest.skip(why)
    with ModelServer(do("touch /etc/noria-was-here", "echo x > made; cat made; mktemp")) as server:
        done = without(Place(tmp_path, server.url), "landlock")
        said = results(server)
    assert done.returncode == 0 and done.stderr.count("a sandbox of Landlock") == 1
    assert "Permission denied" in said[0] and said[1].startswith("x\n/tmp/noria-")
    assert not os.path.exists("/etc/noria-was-here") and not os.path.exists(os.path.dirname(said[1].split()[-1]))


def test_where_there_is_neither_it_is_said_once_or_nothing_runs(tmp_path: pathlib.Path) -> None:
    with ModelServer(do("echo one", "echo two")) as server:
        done = without(Place(tmp_path / "auto", server.url), "neither")
        assert done.returncode == 0 and results(server) == ["one\n", "two\n"]
        assert done.stderr.count("commands run without a sandbox: ") == 1 and "install bubblewrap" in done.stderr
    with ModelServer(do("echo one")) as server:
        for which in ("neither", "landlock"):  # strict is whole, or nothing
            done = without(Place(tmp_path / which, server.url), which, "--sandbox", "strict")
            assert done.returncode == 2 and "--sandbox strict: there is no sandbox here" in done.stderr
            assert "install bubblewrap" in done.stderr and "Traceback" not in done.stderr
        assert not server.requests
        done = without(Place(tmp_path / "off", server.url), "neither", "--sandbox", "off")
        assert done.returncode == 0 and "sandbox" not in done.stderr


def test_strict_runs_where_there_is_one(tmp_path: pathlib.Path) -> None:
    if why := _can("bubblewrap"):
        pytest.skip(why)
    with ModelServer(do("echo one")) as server:
        assert Place(tmp_path, server.url).run("go", "--sandbox", "strict")[0] == 0
        assert results(server) == ["one\n"]


def test_a_workspace_that_keeps_it_from_being_made_gets_nothing_run(tmp_path: pathlib.Path) -> None:
    """It would be a way to be run without."""
    if why := _can("bubblewrap"):
        pytest.skip(why)
    code = WITHOUT.replace(
        'sandbox_bwrap.program = lambda: ""', "sandbox_bwrap._places = lambda plan: ['--no' + 'pe'] * bool(plan.places)"
    )
    with ModelServer(do("echo one")) as server:
        place = Place(tmp_path, server.url)
        command = [sys.executable, "-c", code, "neither", *place.arguments("go")]
        subprocess.run(command, cwd=place.work, env=place.env, capture_output=True, text=True, timeout=60)
        assert "nothing was run" in results(server)[0] and "--sandbox off" in results(server)[0]


def test_an_output_that_was_kept_is_seen_by_the_commands_after_it(tmp_path: pathlib.Path) -> None:
    """Its folder is made with the sandbox: what is written into it later is seen in there, by grep too. The rest of
    noria's own is not."""

    def script(request: Request) -> Turn:
        done = [str(m["content"]) for m in request["messages"] if m["role"] == "tool"]
        if not done:
            return {"calls": [["run_command", {"command": "seq 100000"}]]}
        kept = re.search(r"the whole is in (\S+)", done[0])
        if len(done) > 1 or kept is None:
            return {"text": "Done."}
        grep = {"pattern": "^88888$", "path": kept[1], "mode": "content"}
        look = f"sed -n 77777p {kept[1]}; head -c 6 {tmp_path / 'home' / 'journal.db'}"
        return {"calls": [["run_command", {"command": look}], ["grep", grep]]}

    with ModelServer(script) as server:
        Place(tmp_path, server.url).run("go")
        _, seen, found = results(server)
    assert seen.splitlines()[0] == "77777" and "88888:88888" in found
    if not _can("bubblewrap"):
        assert "SQLite" not in seen


@pytest.mark.seed("G22")
def test_the_doctor_says_what_it_holds(tmp_path: pathlib.Path) -> None:
    """It is tried; where there is a way out, that is said."""
    place = Place(tmp_path, "http://127.0.0.1:9")

    def told(before: list[str], sandbox: str) -> str:
        words = [sys.executable, *before, "doctor"]
        env = place.env | {"NORIA_SANDBOX": sandbox}
        done = subprocess.run(words, cwd=place.work, env=env, capture_output=True, text=True, timeout=60)
        return next(line for line in done.stdout.splitlines() if " sandbox: " in line)

    plain = ["-m", "noria"]
    assert "off: commands run as you do" in told(plain, "off")
    assert "there is no sandbox here" in told(["-c", WITHOUT, "neither"], "auto")
    assert "install bubblewrap" in told(["-c", WITHOUT, "neither"], "strict")
    if not _can("bubblewrap"):
        line = told(plain, "auto")
        assert "bubblewrap holds files outside the workspace" in line and "the network" in line
    if not _can("landlock"):
        line = told(["-c", WITHOUT, "landlock"], "auto")
        assert "does not hold" in line and "hooks and configuration of git" in line.partition("does not hold")[2]


@pytest.mark.case("A02")
def test_it_leaves_nothing_when_noria_is_killed(tmp_path: pathlib.Path) -> None:
    if why := _can("bubblewrap"):
        pytest.skip(why)
    mark = f"noria-sandboxed-{os.getpid()}"
    hidden = f"env -i setsid bash -c 'exec -a {mark} sleep 600' >/dev/null 2>&1 & exec -a {mark} sleep 600"
    with ModelServer(do(hidden)) as server:
        process = Place(tmp_path, server.url).start("go")
        assert soon(lambda: len(processes_with(mark)) >= 2, 20)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        assert soon(lambda: not processes_with(mark), 5)


@pytest.mark.seed("G22", "Z30")
def test_what_asks_to_run_outside_waits_for_a_person_over_a_restart(tmp_path: pathlib.Path) -> None:
    """With a rule that allows every command. The word is given to another process, which then runs it, once."""
    if why := _can("bubblewrap"):
        pytest.skip(why)
    with tempfile.TemporaryDirectory(prefix="noria-test-", dir=os.path.expanduser("~")) as elsewhere:
        line = f"echo did >> {elsewhere}/x"
        with ModelServer(do(line, f"NORIA_SANDBOX=off {line}")) as server:
            place = Place(tmp_path, server.url)
            noria = [sys.executable, "-m", "noria", "-p", "--model", "it", "--base-url", server.url]
            more = ("--allow", "run_command", "--on-ask", "pause", "--output-format", "json")
            done = subprocess.run(
                [*noria, "go", *more], cwd=place.work, env=place.env, capture_output=True, text=True, timeout=60,
                stdin=subprocess.DEVNULL,
            )  # fmt: skip
            result = json.loads(done.stdout)
            assert done.returncode == 4 and not os.path.exists(f"{elsewhere}/x"), result
            (waits,) = result["pending"]
            assert waits["arguments"] == {"command": f"NORIA_SANDBOX=off {line}"}
            assert "make the call again with NORIA_SANDBOX=off" in results(server)[0]
            said = json.dumps({"type": "decision", "id": waits["id"], "allow": True})
            more = ("--resume", result["session"], "--input-format", "stream-json", "--output-format", "stream-json")
            done = subprocess.run(
                [*noria, *more], cwd=place.work, env=place.env, capture_output=True, text=True, timeout=60,
                input=said + "\n",
            )  # fmt: skip
            shown = [json.loads(each) for each in done.stdout.splitlines()]
            assert [each["unboxed"] for each in shown if each["type"] == "approval"] == [True]
            assert shown[-1]["outcome"] == "completed" and done.returncode == 0, done.stderr
            assert pathlib.Path(f"{elsewhere}/x").read_text() == "did\n"


@pytest.mark.seed("Z43", "G22")
def test_what_rules_deny_to_be_read_no_program_reads(tmp_path: pathlib.Path) -> None:
    """Whatever opens it: a script of which nothing is known at the gates, for one."""
    if why := _can("bubblewrap"):
        pytest.skip(why)
    script = "import os\nfor p in ('.e' + 'nv', 'sub/.e' + 'nv', 'keys/k', 'plain'):\n"
    script += "    try: print(p, open(p).read())\n    except OSError as e: print(p, e.strerror)\n"
    with ModelServer(do("python3 look.py", "mv keys k; cat k/k; ls keys", "sh look.sh")) as server:
        place = Place(tmp_path, server.url)
        for name in (".env", "sub/.env", "keys/k", "plain"):
            (place.work / name).parent.mkdir(exist_ok=True)
            (place.work / name).write_text("sesame")
        (place.work / "look.py").write_text(script)
        (place.work / "look.sh").write_text("cat .env")
        place.run("go", "--deny", "read_file(.env)", "--deny", "read_file(keys/**)")
        said = results(server)
    assert "[sandbox: .env cannot be read by commands: it has keys, or a rule denies it" in said[2]
    assert said[0].splitlines() == [
        ".env Permission denied", "sub/.env Permission denied", "keys/k No such file or directory", "plain sesame",
    ]  # fmt: skip
    assert "sesame" not in said[1] and (place.work / "keys/k").read_text() == "sesame"


def test_a_repository_can_be_cloned_into_an_empty_workspace(tmp_path: pathlib.Path) -> None:
    """Nothing stands in it that was not there before."""
    if why := _can("bubblewrap"):
        pytest.skip(why)
    place_of = tmp_path / "source"
    subprocess.run(["git", "init", "-q", str(place_of)], check=True)
    (place_of / "a.txt").write_text("a\n")
    who = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    subprocess.run(["git", "-C", str(place_of), "add", "."], check=True)
    subprocess.run(["git", "-C", str(place_of), *who, "commit", "-qm", "a"], check=True)
    with ModelServer(do(f"ls -A; git clone -q {place_of} . && cat a.txt")) as server:
        place = Place(tmp_path / "run", server.url)
        for each in place.work.iterdir():
            each.unlink()
        (place.home / ".noria").mkdir(exist_ok=True)
        status, _, err = place.run("go", "--add-dir", str(place_of))
        (said,) = results(server)
    assert status == 0 and "without a sandbox" not in err
    assert said == "a\n"
