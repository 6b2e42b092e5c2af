"""Rules from files, variables and flags: where each was said, their examples, and what a person is told of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from noria.app.config import load, read
from noria.app.settings import Options
from noria.app.shown import check
from noria.app.would import is_call, would
from noria.core.errors import UsageError

RULES = """\
allow = [
  "run_command(git *)",
  {rule = "run_command(npm test *)", matches = ["npm test", "npm test a"], misses = ["npm testx", "npm test; rm a"]},
]
deny = ["run_command(rm *)", "read_file(.env)"]
"""


def at(tmp_path: Path, text: str, own: str = "") -> tuple[Options, dict[str, str]]:
    (tmp_path / "config.toml").write_text(text)
    work = tmp_path / "work"
    (work / ".noria").mkdir(parents=True, exist_ok=True)
    if own:
        (work / ".noria" / "config.toml").write_text(own)
    env = {"NORIA_HOME": str(tmp_path), "OPENAI_API_KEY": "sk-1", "NORIA_MODEL": "chat:m"}
    return Options(workspace=str(work)), env


def problems(tmp_path: Path, text: str, **env: str) -> list[str]:
    options, places = at(tmp_path, text)
    return [p.replace(f"{tmp_path}/", "") for p in check(options, places | env).problems]


@pytest.mark.seed("Z36")
def test_rules_of_all_sources_join(tmp_path: Path) -> None:
    """The user's, the workspace's once it is trusted, the environment's, the flags'; each knows where it was said."""
    options, env = at(tmp_path, RULES, 'deny = ["web_fetch(a.example)"]\n')
    env |= {"NORIA_DENY": "run_command(dd *), write_file(a,b)", "NORIA_ASK": '["mcp__a__*"]'}
    said = {"allow": ("run_command(make *)",), "deny": ("git_commit",)}

    def rules(**more: object) -> list[tuple[str, str, str]]:
        made = Options(workspace=options.workspace, **said, **more)  # type: ignore[arg-type]
        return [(k, t, s.replace(f"{tmp_path}/", "")) for k, t, s in load(made, env).rules]

    untrusted = [
        ("allow", "run_command(git *)", "config.toml"), ("allow", "run_command(npm test *)", "config.toml"),
        ("deny", "run_command(rm *)", "config.toml"), ("deny", "read_file(.env)", "config.toml"),
        ("ask", "mcp__a__*", "NORIA_ASK"), ("deny", "run_command(dd *)", "NORIA_DENY"),
        ("deny", "write_file(a,b)", "NORIA_DENY"), ("allow", "run_command(make *)", "--allow"),
        ("deny", "git_commit", "--deny"),
    ]  # fmt: skip
    assert rules() == untrusted
    trusted = rules(trust=True)
    assert ("deny", "web_fetch(a.example)", "work/.noria/config.toml") in trusted and len(trusted) == 10


@pytest.mark.case("E05")
def test_a_folder_cannot_loosen_before_it_is_trusted(tmp_path: Path) -> None:
    options, env = at(tmp_path, "", 'allow = ["*"]\n')
    assert load(options, env).rules == ()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('deny = ["Bash(rm *)"]', "config.toml:1: deny: Bash(rm *): there is no tool Bash; did you mean run_com"),
        ('ask = [\n "read_file(a)",\n "git_commit(x)"]', "config.toml:3: ask: git_commit(x): git_commit takes no pat"),
        ('deny = ["run_command(a | b)"]', "config.toml:1: deny: run_command(a | b): a pattern is matched on each com"),
        ('deny = [{rule = "run_command(rm *)", matches = ["sudo rm a", "ls"]}]',
         "config.toml:1: deny: run_command(rm *) should match 'ls', and does not"),
        ('\ndeny = [{rule = "run_command(rm *)", misses = ["env rm a"]}]',
         "config.toml:2: deny: run_command(rm *) should not match 'env rm a', and does"),
        ('allow = [{rule = "run_command(git *)", matches = ["git log | sh"]}]', "should match 'git log | sh', and doe"),
        ('deny = [{rule = "read_file(.env)", matches = ["a/.env"], misses = [".env/x"]}]', "should not match '.env/x'"),
        ('ask = [{rule = "web_fetch(*.a.b)", matches = ["https://x.a.b/c", "a.b"]}]', "should match 'a.b', and does"),
        ('allow = [{rule = "run_command(git *)", matches = ["git log > x"]}]', "match 'git log > x', and does not"),
        ('ask = [{rule = "mcp__a__*", matches = ["mcp__a__b"], misses = ["mcp__a__c"]}]', "not match 'mcp__a__c'"),
        ('deny = [{rule = "write_file", matches = ["edit_file"], misses = ["apply_patch"]}]', "match 'apply_patch'"),
        ('deny = [{matches = ["a"]}]', "config.toml:1: deny[0]: it lacks the key rule"),
        ('deny = [{rule = "read_file", match = ["a"]}]', "there is no key deny[0].match; did you mean matches?"),
        ('deny = [{rule = "read file"}]', 'deny[0].rule: "read file" is no rule'),
        ("deny = [3]", "config.toml:1: deny[0]: 3 is no rule: write tool or tool(pattern)"),
    ],
)  # fmt: skip
def test_a_rule_that_will_not_do_is_named_with_its_line(tmp_path: Path, text: str, problem: str) -> None:
    found = problems(tmp_path, text)
    assert len(found) == 1 and problem in found[0], found


def test_variables_and_flags_are_named_too(tmp_path: Path) -> None:
    assert problems(tmp_path, "", NORIA_DENY="Bash(x)")[0].startswith(
        "NORIA_DENY: deny: Bash(x): there is no tool Bash"
    )
    options, env = at(tmp_path, "")
    with pytest.raises(UsageError, match="--deny: deny: git_commit"):
        load(Options(workspace=options.workspace, deny=("git_commit(x)",)), env)
    assert check(Options(workspace=options.workspace, deny=("x y",)), env).problems[0].startswith("--deny: deny[0]")
    assert problems(tmp_path, RULES) == []


def test_a_run_does_not_begin_with_an_example_that_is_not_kept(tmp_path: Path) -> None:
    options, env = at(tmp_path, 'deny = [{rule = "run_command(rm *)", matches = ["mv a"]}]')
    with pytest.raises(
        UsageError, match=r"config.toml:1: deny: run_command\(rm \*\) should match 'mv a', and does not"
    ):
        load(options, env)


# -- explained ---------------------------------------------------------------------------------------------------


def explained(tmp_path: Path, word: str, text: str = RULES, **more: object) -> list[str]:
    options, env = at(tmp_path, text)
    options = Options(workspace=options.workspace, **more)  # type: ignore[arg-type]
    return [line.replace(f"{tmp_path}/", "") for line in would(word, read(options, env), options)]


def test_what_would_become_of_a_command_part_by_part(tmp_path: Path) -> None:
    assert explained(tmp_path, "run_command(git push && rm f > x)") == [
        "run_command(git push && rm f > x) in default mode: denied, by the rule deny run_command(rm *) (config.toml:5)",
        "  git push: allowed by allow run_command(git *) (config.toml:2)",
        "  rm f: denied by deny run_command(rm *) (config.toml:5)",
        "  > x: no rule is about it; a write",
        "  in other modes: denied in accept-edits, blocked in plan, denied in goal, denied in debug",
    ]
    assert explained(tmp_path, "run_command(git log | sh)", "")[:3] == [
        "run_command(git log | sh) in default mode: asked, by the mode",
        "  git log: only reads",
        "  sh: no rule is about it; what the shell reads from its input cannot be known",
    ]
    assert explained(tmp_path, "run_command(npm test a)", permission_mode="debug")[0] == (
        "run_command(npm test a) in debug mode: run, by the rule allow run_command(npm test *) (config.toml:3)"
    )
    assert "\n  $x f: ... f may turn out to be it" not in explained(tmp_path, "run_command($x f)")[0]
    assert "for it may be what a rule is about: deny run_command(rm *)" in explained(tmp_path, "run_command($x f)")[0]


@pytest.mark.parametrize(
    ("word", "first"),
    [
        ("read_file(.env)", "denied, by the rule deny read_file(.env) (config.toml:5)"),
        ("grep(.env)", "denied, by the rule deny read_file(.env) (config.toml:5)"),
        ("read_file(a)", "run, by the mode"),
        ("write_file(a)", "asked, by the mode"),
        ("apply_patch(a)", "asked, by the mode"),
        ("web_fetch(a.example)", "asked, by the mode"),
        ("web_fetch(https://b.example/x)", "asked, by the rule ask web_fetch(b.example) (--ask)"),
        ("mcp__a__b", "asked, by the mode"),
        ("git_commit", "asked, by the mode"),
        ("ask_user", "asked, by the mode"),
        ("exit_plan", "blocked, by the mode"),
        ("todo_write", "run, by the mode"),
    ],
)
def test_what_would_become_of_any_call(tmp_path: Path, word: str, first: str) -> None:
    assert is_call(word)
    assert explained(tmp_path, word, ask=("web_fetch(b.example)",))[0] == f"{word} in default mode: {first}"


def test_what_is_no_call(tmp_path: Path) -> None:
    assert not is_call("model") and not is_call("models.a.price") and not is_call("deny")
    with pytest.raises(UsageError, match="there is no tool rea_file; did you mean read_file"):
        explained(tmp_path, "rea_file(x)")
    with pytest.raises(UsageError, match="todo_write is explained by its name alone"):
        explained(tmp_path, "todo_write(x)")
