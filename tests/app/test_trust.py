"""Trust: bound to content, kept outside of what it is about, and nothing is certain that cannot be read."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from noria.app import trust
from noria.app.config import load
from noria.app.settings import Options
from noria.app.trust import asks_for, give, judge, listed, look, named_files, remove
from noria.core.errors import UsageError

CONFIG = """\
max_steps = 7
allow = ["run_command(make *)"]
[[hooks]]
event = "SessionStart"
command = "sh hooks/start.sh --quiet"
[mcp.files]
command = ["python3", "server.py"]
env = {TOKEN = "x"}
[models.own]
base_url = "http://127.0.0.1:9/v1"
"""


@pytest.fixture
def work(tmp_path: Path) -> Path:
    work = tmp_path / "work"
    (work / ".noria" / "skills").mkdir(parents=True)
    (work / "hooks").mkdir()
    (work / ".noria" / "config.toml").write_text(CONFIG)
    (work / ".noria" / "skills" / "a.sh").write_text("echo a\n")
    (work / "hooks" / "start.sh").write_text("echo start\n")
    (work / "server.py").write_text("print()\n")
    (work / "other.py").write_text("print()\n")
    return work


def standing(work: Path, data: Path) -> str:
    return judge(str(work), str(data)).standing


def test_what_counts_is_the_folder_and_what_its_commands_name(work: Path) -> None:
    found = look(str(work))
    assert sorted(found.files) == [".noria/config.toml", ".noria/skills/a.sh", "hooks/start.sh", "server.py"]
    said = asks_for(found)
    assert "hook at SessionStart: sh hooks/start.sh --quiet" in said
    assert "MCP server files: python3 server.py" in said and "  with TOKEN set" in said
    assert "model own at http://127.0.0.1:9/v1" in said and "allow run_command(make *)" in said
    assert "max_steps = 7" in said


@pytest.mark.case("E05")
@pytest.mark.parametrize("path", [".noria/config.toml", ".noria/skills/a.sh", "hooks/start.sh", "server.py"])
def test_a_word_is_bound_to_every_file_that_counts(work: Path, tmp_path: Path, path: str) -> None:
    data = tmp_path / "data"
    assert standing(work, data) == "unknown"
    give(str(work), str(data), look(str(work)))
    assert standing(work, data) == "trusted"
    (work / "other.py").write_text("other\n")
    assert standing(work, data) == "trusted"
    before = (work / path).read_text()
    (work / path).write_text(before + "# more\n")
    found = judge(str(work), str(data))
    assert found.standing == "changed" and found.changes()[0] == f"{path} has changed"
    assert ("+# more" in found.changes()) == path.endswith("config.toml")
    (work / path).write_text(before)
    assert standing(work, data) == "trusted"
    (work / path).unlink()
    assert standing(work, data) == ("nothing" if path.endswith("config.toml") else "changed")


@pytest.mark.case("E05")
@pytest.mark.parametrize(
    ("command", "named"),
    [
        ("sh -c 'python3 tools/a.py --x'", ["tools/a.py"]),
        ("cd tools && ./a.py", ["tools/a.py"]),
        ("""bash -c "cd tools; sh -c './a.py'" """, ["tools/a.py"]),
        ("make -C tools", []),
        ("python3 -m tools.a", ["tools/a.py"]),
        ("python3 -m tools", ["tools/__main__.py"]),
        ("node tools", ["tools/__main__.py"]),
        ("env A=1 PATH=x tools/a.py", ["tools/a.py"]),
        ("run --file=tools/a.py", ["tools/a.py"]),
        ('"${CLAUDE_PROJECT_DIR}"/tools/a.py', ["tools/a.py"]),
        ("$NORIA_PROJECT_DIR/tools/a.py", ["tools/a.py"]),
        ("cat ../x /etc/passwd", []),
        ("true", []),
        ("test -f tools/a.py && tools/a.py | tee out", ["tools/a.py"]),
        ("uv run tools/a.py", ["tools/a.py"]),
    ],
)
def test_what_a_command_names_is_found(work: Path, command: str, named: list[str]) -> None:
    (work / "tools").mkdir()
    for name in ("a.py", "__main__.py"):
        (work / "tools" / name).write_text("print()\n")
    assert {os.path.relpath(path, work) for path in named_files(command, str(work))} == set(named)


def test_a_new_file_changes_it_and_a_no_is_kept_as_well(work: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    give(str(work), str(data), look(str(work)), trusted=False)
    assert standing(work, data) == "refused"
    (work / ".noria" / "new.sh").write_text("")
    assert standing(work, data) == "unknown"  # asked about once more
    give(str(work), str(data), look(str(work)))
    (work / ".noria" / "newer.sh").write_text("")
    assert judge(str(work), str(data)).changes() == [".noria/newer.sh is new"]
    assert [r.workspace for r in listed(str(data))] == [str(work)]
    assert remove(str(work), str(data)) and not remove(str(work), str(data))
    assert standing(work, data) == "unknown" and listed(str(data)) == []


def test_another_folder_of_the_same_content_is_not_trusted_with_it(work: Path, tmp_path: Path) -> None:
    give(str(work), str(tmp_path / "data"), look(str(work)))
    os.rename(work, tmp_path / "moved")
    assert standing(tmp_path / "moved", tmp_path / "data") == "unknown"


@pytest.mark.case("E05")
def test_a_workspace_cannot_trust_itself(work: Path, tmp_path: Path) -> None:
    """A record inside of it counts for nothing; nor does one that another could have written."""
    data = work / ".noria" / "home"
    with pytest.raises(UsageError, match="inside the workspace"):
        give(str(work), str(data), look(str(work)))
    give(str(work), str(tmp_path / "data"), look(str(work)))
    data.mkdir()
    os.rename(tmp_path / "data" / "trust", data / "trust")
    assert standing(work, data) == "unknown"
    (tmp_path / "link").symlink_to(data)
    assert standing(work, tmp_path / "link") == "unknown"
    os.rename(data / "trust", tmp_path / "data" / "trust")
    data.rmdir()
    assert standing(work, tmp_path / "data") == "trusted"
    record = next((tmp_path / "data" / "trust").iterdir())
    record.chmod(0o666)
    assert standing(work, tmp_path / "data") == "unknown"
    record.chmod(0o600)
    record.write_bytes(b"{}")
    assert standing(work, tmp_path / "data") == "unknown"


@pytest.mark.parametrize("what", ["folder link", "pipe", "many", "large", "dangling"])
def test_what_cannot_be_bound_is_not_trusted(
    work: Path, tmp_path: Path, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    odd = work / ".noria" / "odd"
    match what:
        case "folder link":
            odd.symlink_to(tmp_path)
        case "pipe":
            os.mkfifo(odd)
        case "dangling":
            odd.symlink_to(tmp_path / "nothing")
        case "many":
            monkeypatch.setattr(trust, "MANY", 2)
        case _:
            monkeypatch.setattr(trust, "MUCH", 20)
    found = judge(str(work), str(tmp_path / "data"))
    assert found.standing == "unknown" and found.looked.problem
    with pytest.raises(UsageError, match="cannot be trusted"):
        give(str(work), str(tmp_path / "data"), found.looked)
    env = {"NORIA_HOME": str(tmp_path / "data"), "OPENAI_API_KEY": "k"}
    notices = load(Options(model="chat:x", workspace=str(work)), env).notices
    assert "cannot be trusted" in notices[0]


def test_a_configuration_is_read_once_it_is_trusted(work: Path, tmp_path: Path) -> None:
    (work / ".noria" / "config.toml").write_text("max_steps = 7\n")
    env = {"NORIA_HOME": str(tmp_path / "data"), "OPENAI_API_KEY": "k", "NORIA_TRUST": "1"}
    options = Options(model="chat:x", workspace=str(work))
    before = load(options, env)
    assert before.max_steps == 40 and not before.trusted
    assert any("NORIA_TRUST in the environment is no setting" in n for n in before.notices)
    give(str(work), str(tmp_path / "data"), look(str(work)))
    after = load(options, env)
    assert after.max_steps == 7 and after.trusted
    (work / ".noria" / "config.toml").write_text("max_steps = 8\n")
    changed = load(options, env)
    assert changed.max_steps == 40 and not changed.trusted
    assert "it is not as it was trusted (.noria/config.toml has changed)" in changed.notices[0]
    assert load(Options(model="chat:x", workspace=str(work), trust=True), env).max_steps == 8


def test_a_folder_of_agents_alone_is_trusted_by_its_content(tmp_path: Path) -> None:
    """Without a config.toml, too. What is not trusted is not read; a link to a folder cannot be bound."""
    work, home = tmp_path / "work", tmp_path / "home"
    agents = work / ".noria/agents"
    agents.mkdir(parents=True)
    (agents / "own.md").write_text("---\ndescription: The workspace's own.\n---\nDo it.\n")
    env = {"NORIA_HOME": str(home), "OPENAI_API_KEY": "x"}

    def names(**more: bool) -> tuple[list[str], str]:
        found = load(Options(model="chat:x", workspace=str(work), trust=more.get("trust", False)), env)
        return [e.definition.name for e in found.agents], " ".join(found.notices)

    assert standing(work, home) == "unknown"
    assert names() == ([], names()[1]) and f"{agents} is not read" in names()[1]
    assert names(trust=True) == (["own"], "")
    looked = look(str(work))
    assert sorted(looked.files) == [".noria/agents/own.md"] and asks_for(looked) == ["agent .noria/agents/own.md"]
    give(str(work), str(home), looked)
    assert names() == (["own"], "")
    (agents / "more.md").write_text("---\ndescription: Another one.\n---\nDo it.\n")
    assert names()[0] == [] and ".noria/agents/more.md is new" in names()[1]
    (work / ".noria/config.toml").write_text("max_steps = 3\n")
    give(str(work), str(home), look(str(work)))
    assert names()[0] == ["more", "own"] and load(Options(model="chat:x", workspace=str(work)), env).max_steps == 3
    (agents / "link").symlink_to(tmp_path)
    assert "is a link to a folder" in judge(str(work), str(home)).looked.problem and names()[0] == []
    (tmp_path / "bare/.noria").mkdir(parents=True)
    assert standing(tmp_path / "bare", home) == "nothing"


def test_the_users_own_folder_needs_no_trust_where_the_workspace_is_its_home(tmp_path: Path) -> None:
    agents = tmp_path / ".noria/agents"
    agents.mkdir(parents=True)
    (agents / "own.md").write_text("---\ndescription: x\n---\nDo it.\n")
    env = {"NORIA_HOME": str(tmp_path / ".noria"), "OPENAI_API_KEY": "x"}
    found = load(Options(model="chat:x", workspace=str(tmp_path)), env)
    assert [e.definition.name for e in found.agents] == ["own"] and found.notices == ()
