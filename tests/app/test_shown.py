"""The configuration shown, checked and explained: every mistake with its line, no secret anywhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from noria.app.config import gather, read
from noria.app.mistakes import mistakes
from noria.app.settings import Config, HookEntry, McpEntry, ModelEntry, Options
from noria.app.shown import MASK, MEANS, check, explain, show
from noria.cli.usage import USAGE
from noria.core.errors import UsageError
from noria.models.idle import Idle
from noria.models.known import Price
from noria.models.profiles import Profile


def at(tmp_path: Path, text: str) -> tuple[Options, dict[str, str]]:
    (tmp_path / "config.toml").write_text(text)
    return Options(workspace=str(tmp_path)), {"NORIA_HOME": str(tmp_path)}


def problems(tmp_path: Path, text: str, **env: str) -> list[str]:
    options, places = at(tmp_path, text)
    return [p.replace(f"{tmp_path}/", "") for p in check(options, places | env).problems]


MISTAKES = {
    "an unknown key": ("max_step = 3", "config.toml:1: there is no key max_step; did you mean max_steps?"),
    "one in a model": (
        "[models.a]\n\nbaseurl = 'x'",
        "config.toml:3: there is no key models.a.baseurl; did you mean base_url?",
    ),
    "a wrong type": ("model = 5", "config.toml:1: model must be text in quotes, not 5"),
    "text for a number": (
        "# steps\nmax_steps = '3'", 'config.toml:2: max_steps must be a whole number, not "3"',
    ),
    "a number that is none": ("max_steps = 1.5", "config.toml:1: max_steps must be a whole number, not 1.5"),
    "a negative one": ("max_retries = -1", "config.toml:1: max_retries must not be negative"),
    "a word that is none of those": (
        "sandbox = 'offf'", "config.toml:1: there is no sandbox 'offf'; choose one of auto, strict, off"
    ),
    "no TOML": ("max_steps = 3\nmax_steps 4", "config.toml:2: this is not TOML: expected '=' after a key"),
    "a key twice": ("max_steps = 3\n\nmax_steps = 4", "config.toml:3: this is not TOML: cannot overwrite a value"),
    "a text that does not end": ('model = "x', "config.toml:1: this is not TOML: unterminated string"),
    "a rule that is none": (
        "deny = ['read file']",
        'config.toml:1: deny[0]: "read file" is no rule: write tool or tool(pattern), like run_command(git log *)',
    ),
    "a table that should be one": ("models = 3", "config.toml:1: models must be a table, not 3"),
    "a model that is no table": ("[models]\na = 'x'", 'config.toml:2: models.a must be a table, not "x"'),
    "a key in place of its variable": (
        "[models.a]\nkey_env = 'sk-secret-1'",
        "config.toml:2: models.a.key_env names a variable of the environment (like OPENAI_API_KEY)",
    ),
    "a variable that is not there": (
        "[models.a]\nmodel = '${env:NOWHERE}'",
        "config.toml:2: the environment has no NOWHERE: set it, or take ${env:NOWHERE} out",
    ),
    "one that does not end": ("model = '${env:NO'", "config.toml:1: ${env: has no } behind it"),
    "half a price": ("[models.a]\nprice = {input = 1}", "config.toml:2: models.a.price: it lacks the key output"),
    "another price": (
        "[models.a]\nprice = {input = 1, output = 2, cache = 3}",
        "config.toml:2: there is no key models.a.price.cache; did you mean cached?",
    ),
    "a hook at no event": ("[[hooks]]\nevent = 'PreTool'\ncommand = 'x'", "config.toml:2: there is no event 'PreTool'"),
    "a hook that does nothing": ("[[hooks]]\nevent = 'Stop'", "config.toml:1: hooks[0]: it lacks the key command"),
    "a hook of two kinds": (
        "[[hooks]]\nevent = 'Stop'\ncommand = 'x'\nurl = 'http://a'",
        "config.toml:1: hooks[0]: it has more than one of command, url, python, mcp",
    ),
    "a matcher": (
        "[[hooks]]\nevent = 'Stop'\ncommand = 'x'\nmatcher = '('",
        "config.toml:1: hooks[0]: the matcher '(' is no regular expression: missing )",
    ),
    "a server that is nowhere": ("[mcp.a]", "config.toml:1: mcp.a: a server has either command"),
    "a temperature": ("[models.a]\ntemperature = 9", "config.toml:2: models.a.temperature must be from 0 to 2, not 9"),
    "a tool": ("tools = ['read_fil']", "config.toml:1: there is no tool 'read_fil'; did you mean read_file?"),
    "a model that nobody knows": ("model = 'nobody'", "config.toml:1: unknown model nobody: write chat:nobody"),
    "a name that is nearly one": (
        "\nmodel = 'sonet'\n[models.sonnet]\ndialect = 'messages'",
        "config.toml:2: unknown model sonet: did you mean sonnet? The names are sonnet",
    ),
    "a fallback that nobody knows": (
        "fallback_models = [\n  'chatt:x']\nmodel = 'chat:m'\n[models.'chat:m']\nauth = 'none'",
        "config.toml:1: unknown model chatt:x: did you mean chat:x?",
    ),
    "another program's word for a dialect": (
        "model = 'anthropic:claude-x'",
        "config.toml:1: unknown model anthropic:claude-x: did you mean messages:claude-x?",
    ),
    "an address that is none": (
        "model = 'a'\n[models.a]\nbase_url = 'localhost:8000'",
        "config.toml:3: base_url of model 'a': 'localhost:8000' is no address of a server",
    ),
    "another program's word for a key": (
        "max_iterations = 3", "config.toml:1: there is no key max_iterations; did you mean max_steps?",
    ),
    "in small and capital letters": ("mcpServers = 3", "config.toml:1: there is no key mcpServers; did you mean mcp?"),
    "a model's key in the wrong place": (
        "temperature = 1", "config.toml:1: there is no key temperature; it is a model's: models.NAME.temperature",
    ),
    "nearly one of a model's": (
        "max_output = 1",
        "config.toml:1: there is no key max_output; did you mean a model's models.NAME.max_output_tokens?",
    ),
    "what is a flag": (
        "system_prompt = 'x'", "config.toml:1: there is no key system_prompt; it is a flag: --system-prompt",
    ),
    "a number in quotes": (
        "[[hooks]]\nevent = 'Stop'\ncommand = 'x'\ntimeout = '10'",
        'config.toml:4: hooks[0].timeout must be a number, not "10"',
    ),
    "a number beyond its bounds": (
        "[[hooks]]\nevent = 'Stop'\ncommand = 'x'\ntimeout = 0",
        "config.toml:4: hooks[0].timeout must be more than 0 and at most 86400, not 0",
    ),
    "a table in place of a list": (
        "[hooks]\nevent = 'Stop'", 'config.toml:1: hooks must be a list, not {"event":"Stop"}: write [[hooks]]',
    ),
    "one in place of a list": (
        "deny = 'run_command'", 'config.toml:1: deny must be a list, not "run_command": write ["run_command"]',
    ),
    "true in place of a word": (
        "sandbox = true", "config.toml:1: there is no sandbox true; choose one of auto, strict, off",
    ),
    "a folder": ("sandbox_write = 'build'", "config.toml:1: sandbox_write"),
}  # fmt: skip


@pytest.mark.parametrize("kind", MISTAKES)
def test_each_mistake_has_its_place_and_says_what_to_do(tmp_path: Path, kind: str) -> None:
    text, says = MISTAKES[kind]
    found = problems(tmp_path, text)
    assert len(found) == 1
    assert found[0].startswith(says)
    assert "\n" not in found[0] and "sk-secret" not in found[0]


def test_all_mistakes_are_listed_and_a_run_tells_the_first(tmp_path: Path) -> None:
    text = "model = 5\nmax_step = 3\n[models.a]\ndialect = 'chatt'\n[[hooks]]\nevent = 'Stop'\n"
    found = problems(tmp_path, text, NORIA_MAX_RETRIES="few")
    assert [p.partition(": ")[0] for p in found] == [
        "config.toml:1", "config.toml:2", "config.toml:4", "NORIA_MAX_RETRIES",
    ]  # fmt: skip
    options, env = at(tmp_path, text)
    with pytest.raises(UsageError) as caught:
        read(options, env)
    assert str(caught.value).endswith("not 5 (and 2 more: noria config check lists them)")


@pytest.mark.parametrize(
    ("content", "says"),
    [(b"\xff\xfe", "is not UTF-8 text"), (b"a = '\x00'", "this is not TOML"), (b"\xef\xbb\xbfmax_steps = 3", "")],
)
def test_bytes(tmp_path: Path, content: bytes, says: str) -> None:
    (tmp_path / "config.toml").write_bytes(content)
    found = check(Options(workspace=str(tmp_path)), {"NORIA_HOME": str(tmp_path)}).problems
    assert (found == []) if not says else (len(found) == 1 and says in found[0])


def test_a_folder_in_place_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "config.toml").mkdir()
    found = check(Options(workspace=str(tmp_path)), {"NORIA_HOME": str(tmp_path)}).problems
    assert len(found) == 1 and "cannot read" in found[0] and "Is a directory" in found[0]


def test_a_hook_of_a_server_that_is_not_configured_is_noted(tmp_path: Path) -> None:
    text = "[mcp.a]\nurl = 'http://x'\n" + "".join(f"[[hooks]]\nevent = 'Stop'\nmcp = '{s}/t'\n" for s in "ab")
    options, env = at(tmp_path, text)
    found = check(options, env)
    assert found.problems == []
    notes = [n.replace(f"{tmp_path}/", "") for n in found.notes]
    assert notes == [
        "config.toml:3: the hook mcp = 'b/t' names a server that no [mcp.NAME] table has",
        "no model is set: each run needs --model, or set model = ... in config.toml",
    ]


def test_checking_runs_no_command(tmp_path: Path) -> None:
    marker = tmp_path / "ran"
    text = f"model = 'a'\n[models.a]\nkey_command = 'touch {marker}'\nbase_url = 'https://x.example/v1'"
    options, env = at(tmp_path, text)
    assert check(options, env).problems == []
    assert show(read(options, env), env)
    assert not marker.exists()


SECRETS = """
[models.a]
base_url = "https://me:SECRET@x.example/v1?key=SECRET"
key_env = "MY_KEY"
headers = {authorization = "Bearer SECRET", x-more = "${env:MY_KEY}"}
[models.b]
key_command = "pass show b"
[models.c]
model = "x"
[mcp.m]
command = ["x"]
env = {TOKEN = "SECRET"}
"""


def test_values_have_origins_and_secrets_are_masked(tmp_path: Path) -> None:
    options, env = at(tmp_path, SECRETS)
    env |= {"MY_KEY": "SECRET", "NORIA_MAX_STEPS": "3", "NORIA_MODELS_C_HEADERS_X": "SECRET"}
    lines = {line.key: (line.text, line.origin) for line in show(read(options, env), env)}
    file = f"{tmp_path}/config.toml"
    assert "SECRET" not in str(lines)
    assert lines["max_steps"] == ("3", ["NORIA_MAX_STEPS"])
    assert lines["sandbox"] == ('"auto"', ["built-in"])
    assert lines["models.a.base_url"] == (f'"https://{MASK}@x.example/v1?{MASK}"', [f"{file}:3"])
    assert lines["models.a.headers.authorization"] == (f'"{MASK}"', [f"{file}:5"])
    assert lines["models.a.headers.x-more"] == ('"${env:MY_KEY}"', [f"{file}:5"])
    assert lines["models.a.key"] == (f'"{MASK}"', ["MY_KEY"])
    assert lines["models.b.key"] == (f'"{MASK}"', ["key_command"])
    assert lines["models.c.key"] == ("null", ["OPENAI_API_KEY is not set"])
    assert lines["mcp.m.env.TOKEN"][0] == f'"{MASK}"'


def test_the_guide_is_true(tmp_path: Path) -> None:
    """Its example is a configuration without a mistake, and has every key."""
    guide = (Path(__file__).resolve().parents[2] / "docs/guides/configuration.md").read_text()
    text = guide.partition("```toml\n")[2].partition("```")[0]
    options, env = at(tmp_path, text)
    assert mistakes(gather(options, env).sources) == []
    assert [key for key in MEANS if key.split(".")[-1] not in text and "profile" not in key] == []


def test_lists_that_join_name_all_their_places(tmp_path: Path) -> None:
    options, env = at(tmp_path, "deny = ['a']")
    lines = {line.key: line for line in show(read(options, env | {"NORIA_DENY": "b"}), env)}
    assert (lines["deny"].text, lines["deny"].origin) == ('["a","b"]', [f"{tmp_path}/config.toml:1", "NORIA_DENY"])


def test_what_a_table_holds_is_explained_too() -> None:
    tables = {"models.NAME": ModelEntry, "models.NAME.price": Price, "models.NAME.idle": Idle, "hooks": HookEntry}
    tables |= {"mcp.NAME": McpEntry, "models.NAME.profile": Profile}
    for name, kind in tables.items():
        assert {f"{name}.{field}" for field in kind.__struct_fields__} <= set(MEANS), name


def test_what_a_mistake_names_can_be_explained(tmp_path: Path) -> None:
    """`hooks[0].timeout`, as a mistake has it; a table says which keys it has; no flag is told that there is not."""
    options, env = at(tmp_path, "[[hooks]]\nevent = 'Stop'\ncommand = 'x'\ntimeout = 5\n")
    found = read(options, env)
    assert explain("hooks[0].timeout", found, env)[:1] == ["hooks.timeout: seconds it may take"]
    assert any("config.toml:1" in line for line in explain("hooks[0].timeout", found, env))
    assert "  keys          input, output, cached, written, written_hour" in explain("models.a.price", found, env)
    assert "  flag          --deny" in explain("deny[3]", found, env)
    for key in Config.__struct_fields__:
        told = [line.split()[1] for line in explain(key, found, env) if line.startswith("  flag")]
        assert all(flag in USAGE for flag in told), key
    for wrong in ("", "models.", "models..price"):
        with pytest.raises(UsageError, match="there is no key"):
            explain(wrong, found, env)


def test_every_key_is_explained(tmp_path: Path) -> None:
    options, env = at(tmp_path, "max_steps = 7\n[models.a]\nmodel = 'x'")
    found = read(options, env)
    assert set(Config.__struct_fields__) <= set(MEANS)
    for key in MEANS:
        lines = explain(key.replace("NAME", "a"), found, env)
        assert lines[0].startswith(key.replace("NAME", "a"))
    text = "\n".join(explain("max_steps", found, env))
    for part in ("built-in      40", "environment   NORIA_MAX_STEPS", "flag          --max-steps", "now           7"):
        assert part in text
    assert "one of        chat, responses, messages, gemini" in "\n".join(explain("models.a.dialect", found, env))
    with pytest.raises(UsageError, match="there is no key max_step; did you mean max_steps"):
        explain("max_step", found, env)
