"""Where settings come from: each source, how they are joined, and what the environment's names mean."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noria.app.config import load, read
from noria.app.mistakes import line_of
from noria.app.settings import Config, Options, Settings
from noria.app.sources import Source, merged, plain, read_environment
from noria.core.errors import UsageError

KEY = {"OPENAI_API_KEY": "sk-test"}


def config(tmp_path: Path, user: str = "", env: dict[str, str] | None = None, **options: object) -> Config:
    (tmp_path / "config.toml").write_text(user)
    given = Options(**{"workspace": str(tmp_path / "work"), **options})  # type: ignore[arg-type]
    (tmp_path / "work").mkdir(exist_ok=True)
    return read(given, {"NORIA_HOME": str(tmp_path), **KEY, **(env or {})}).config


def of_workspace(tmp_path: Path, text: str) -> Path:
    own = tmp_path / "work" / ".noria" / "config.toml"
    own.parent.mkdir(parents=True, exist_ok=True)
    own.write_text(text)
    return own


# -- which source wins -------------------------------------------------------------------------------------------


@pytest.mark.seed("U10")
def test_built_in_then_user_then_workspace_then_environment_then_flags(tmp_path: Path) -> None:
    """U10, noria's form: the workspace's file, once trusted, beats the user's; every key has its NORIA_<KEY>."""
    of_workspace(tmp_path, "max_steps = 3\nmax_retries = 3\nmodel = 'chat:workspace'")
    user = "max_steps = 2\nmax_retries = 2\nmodel = 'chat:user'\nsandbox = 'off'"
    env = {"NORIA_MAX_STEPS": "4", "NORIA_MAX_RETRIES": "4"}
    got = config(tmp_path, user, env, trust=True, max_steps=5)
    assert (got.max_steps, got.max_retries, got.model, got.sandbox) == (5, 4, "chat:workspace", "off")
    assert got.permission_mode == "default"


@pytest.mark.seed("U10")
def test_what_is_set_to_its_built_in_value_is_set_and_the_empty_list_clears(tmp_path: Path) -> None:
    of_workspace(tmp_path, "max_steps = 40\ntools = []")
    user = "max_steps = 7\ntools = ['read_file']\nfallback_models = ['chat:a', 'chat:b']"
    got = config(tmp_path, user, {"NORIA_FALLBACK_MODELS": "chat:c"}, trust=True)
    assert (got.max_steps, got.tools, got.fallback_models) == (40, [], ["chat:c"])
    assert config(tmp_path, user, {"NORIA_FALLBACK_MODELS": "[]", "NORIA_TOOLS": " "}).fallback_models == []
    assert config(tmp_path, user, {"NORIA_TOOLS": " "}).tools == ["read_file"]


def test_rules_and_hooks_join_and_tables_are_merged_key_by_key(tmp_path: Path) -> None:
    hook = "[[hooks]]\nevent = 'Stop'\ncommand = '{}'\n"
    of_workspace(tmp_path, "deny = ['b']\n" + hook.format("two") + "[models.a]\nmodel = 'x'\n[models.b]\nmodel = 'y'")
    user = "deny = ['a']\nallow = ['read_file(src/**)']\n" + hook.format("one") + "[models.a]\nbase_url = 'http://u/v1'"
    env = {"NORIA_DENY": "run_command(rm *, now), c", "NORIA_ALLOW": '["web_fetch(a.b)"]'}
    got = config(tmp_path, user, env, trust=True)
    assert got.deny == ["a", "b", "run_command(rm *, now)", "c"]
    assert got.allow == ["read_file(src/**)", "web_fetch(a.b)"]
    assert [h.command for h in got.hooks] == ["one", "two"]
    assert (got.models["a"].model, got.models["a"].base_url, got.models["b"].model) == ("x", "http://u/v1", "y")


def test_the_workspaces_file_is_read_with_trust_only(tmp_path: Path) -> None:
    own = of_workspace(tmp_path, "max_steps = 3")
    assert config(tmp_path).max_steps == 40
    given = Options(workspace=str(tmp_path / "work"), model="chat:m")
    notices = load(given, {"NORIA_HOME": str(tmp_path), **KEY}).notices
    how = "--trust reads it, noria trust from now on"
    assert notices == (f"{own} is not read, for what it asks for could run commands: {how}",)
    assert config(tmp_path, trust=True).max_steps == 3


def test_the_users_own_file_in_the_workspace_is_no_strangers(tmp_path: Path) -> None:
    """NORIA_HOME may be the workspace's .noria folder."""
    own = of_workspace(tmp_path, "max_steps = 3")
    found = read(Options(workspace=str(tmp_path / "work")), {"NORIA_HOME": str(own.parent)})
    assert (found.config.max_steps, found.notices) == (3, [])


tables = st.dictionaries(
    st.sampled_from(["model", "max_steps", "deny", "hooks", "tools", "models"]),
    st.one_of(
        st.integers(),
        st.lists(st.integers(), max_size=2),
        st.dictionaries(st.sampled_from("ab"), st.one_of(st.integers(), st.dictionaries(st.just("x"), st.integers()))),
    ),
)


@given(tables, tables, tables)
def test_joining_is_associative_and_the_last_word_counts(
    a: dict[str, object], b: dict[str, object], c: dict[str, object]
) -> None:
    """Whatever their types (mistakes are found elsewhere); but a table over something that was none is left out."""
    kinds = [{k: type(v) for k, v in t.items()} for t in (a, b, c)]
    if any(x[k] is not y[k] for x in kinds for y in kinds for k in x.keys() & y.keys()):
        return
    s = [Source(str(n), t) for n, t in enumerate((a, b, c))]
    inner = [v for t in (a, b, c) for v in (t.get("models"),) if isinstance(v, dict)]
    if len({type(v[k]) for v in inner for k in v}) > 1:
        return
    assert merged([Source("", merged(s[:2])), s[2]]) == merged([s[0], Source("", merged(s[1:]))]) == merged(s)
    assert all(merged(s)[k] == v for k, v in c.items() if k not in ("deny", "hooks") and not isinstance(v, dict))


# -- the environment ---------------------------------------------------------------------------------------------


def said(env: dict[str, str], *files: dict[str, object]) -> dict[str, object]:
    return read_environment({f"NORIA_{k}": v for k, v in env.items()}, [Source("f", f) for f in files])[0].table


def test_tables_in_the_environment() -> None:
    known: dict[str, object] = {"models": {"My-Model.2": {}}}
    assert said({"MODELS_MY_MODEL_2_CONTEXT_WINDOW": "9"}, known) == {"models": {"My-Model.2": {"context_window": "9"}}}
    assert said({"MODELS_A_PRICE_INPUT": "1.5"}) == {"models": {"a": {"price": {"input": "1.5"}}}}
    assert said({"MODELS_A_HEADERS_X_TEAM": "t"}) == {"models": {"a": {"headers": {"x-team": "t"}}}}
    assert said({"MODELS_A_KEY_ENV": "ONE, TWO", "MODELS_B_KEY_ENV": "ONE"}) == {
        "models": {"a": {"key_env": ["ONE", "TWO"]}, "b": {"key_env": "ONE"}}
    }
    assert said({"MCP_FILES_ENV_API_Token": "t", "MCP_FILES_COMMAND": "npx -y server"}) == {
        "mcp": {"files": {"env": {"API_Token": "t"}, "command": ["npx", "-y", "server"]}}
    }
    assert said({"HOOKS": '[{"event": "Stop", "command": "x"}]'}) == {"hooks": [{"event": "Stop", "command": "x"}]}


def test_variables_complete_what_a_file_says(tmp_path: Path) -> None:
    """Half of a table in a file, half in the environment: only the whole is held against what it must have."""
    got = config(tmp_path, "[models.a]\nprice = {input = 3}", {"NORIA_MODELS_A_PRICE_OUTPUT": "15"})
    assert got.models["a"].price is not None and got.models["a"].price.output == 15.0
    with pytest.raises(UsageError, match=r"config\.toml:2: models\.a\.price: it lacks the key output"):
        config(tmp_path, "[models.a]\nprice = {input = 3}")


@given(st.sampled_from(sorted(set(Config.__struct_fields__) - {"models", "mcp", "hooks"})))
def test_every_key_has_its_variable(key: str) -> None:
    source, strange = read_environment({f"NORIA_{key.upper()}": "1"}, [])
    assert (list(source.table), strange) == ([key], [])
    assert source.named == {(key,): f"NORIA_{key.upper()}"}


@given(st.text(st.characters(codec="ascii", exclude_characters="\0="), max_size=30))
def test_any_variable_is_a_key_or_strange(name: str) -> None:
    source, strange = read_environment({f"NORIA_{name}": "x"}, [])
    assert bool(source.table) != bool(strange) or name in ("HOME", "TASK")


def test_noria_s_own_variables_are_no_keys() -> None:
    assert read_environment({"NORIA_HOME": "/x", "NORIA_TASK": "1"}, [])[1] == []
    assert plain("My-Model.2") == "my_model_2"


# -- all keys ----------------------------------------------------------------------------------------------------

EVERYTHING = """
model = "sonnet"
fallback_models = ["chat:other"]
max_steps = 41
max_retries = 5
permission_mode = "goal"
sandbox = "off"
allow = ["run_command(git log *)"]
tools = ["read_file"]

[models.sonnet]
dialect = "chat"
model = "big-1"
base_url = "https://models.example/v1"
keys_env = ["FIRST", "SECOND"]
headers = {x-team = "a", x-who = "${env:WHO}"}
auth = "api-key"
context_window = 200000
max_output_tokens = 8192
price = {input = 3.0, output = 15.0, cached = 0.3}
temperature = 0.5
reasoning_effort = "low"
stream = false

[mcp.files]
command = ["npx", "-y", "server", "."]
env = {A = "b"}

[mcp.far]
url = "https://far.example/mcp"
headers = {x = "y"}
"""


def whole(tmp_path: Path, **options: object) -> Settings:
    (tmp_path / "config.toml").write_text(EVERYTHING)
    env = {"NORIA_HOME": str(tmp_path), **KEY, "SECOND": "sk-2", "WHO": "me"}
    return load(Options(**{"workspace": str(tmp_path), **options}), env)  # type: ignore[arg-type]


@pytest.mark.seed("U01")
def test_every_key_of_the_interface(tmp_path: Path) -> None:
    """U01, noria's form: max_iterations is max_steps; fallback_model is fallback_models; temperature, max_tokens
    (max_output_tokens), stream and thinking (reasoning_effort) are the model's; auto_approve and the permission mode
    are permission_mode; the allow and deny lists are rules; output_format, workspace and system_prompt are flags; the
    waits between retries, the memory's folder and the size of a result are not to be set."""
    got = whole(tmp_path, system_file=str(tmp_path / "config.toml"))
    assert (got.max_steps, got.max_retries, got.mode, got.sandbox, got.tools) == (41, 5, "goal", "off", ("read_file",))
    first, other = got.models
    assert (other.name, first.name, first.model, first.key, first.auth) == (
        "chat:other", "sonnet", "big-1", "sk-2", "api-key",
    )  # fmt: skip
    assert first.headers == {"x-team": "a", "x-who": "me"}
    assert (first.context_window, first.max_output_tokens, first.temperature) == (200_000, 8_192, 0.5)
    assert (first.reasoning_effort, first.stream) == ("low", False)
    assert first.price is not None and (first.price.input, first.price.cached) == (3.0, 0.3)
    assert [rule[:2] for rule in got.rules] == [("allow", "run_command(git log *)")]
    assert (got.mcp["files"].command[0], got.mcp["far"].url) == ("npx", "https://far.example/mcp")
    assert got.secrets == ("FIRST", "SECOND", "WHO")
    assert got.notices == ()
    assert got.system == EVERYTHING


# -- lines -------------------------------------------------------------------------------------------------------

values = st.sampled_from(
    ["1", '"a"', "[\n  1,\n  2, # two\n]", '"""\na = 1\n[b]\n"""', "{x = 1, y = 2}", "'''\n\n'''", "true"]
)


@given(st.lists(st.tuples(st.integers(0, 3), values, st.booleans()), min_size=1, max_size=12), st.data())
def test_the_line_of_a_value_is_where_its_statement_begins(
    statements: list[tuple[int, str, bool]], data: st.DataObject
) -> None:
    text, lines = "", dict[tuple[str | int, ...], int]()
    prefix: tuple[str | int, ...] = ()
    for number, (blanks, value, header) in enumerate(statements):
        text += "\n" * blanks + "# about it\n" * (blanks == 2)
        if header:
            prefix = (f"t{number}",)
            lines[prefix] = text.count("\n") + 1
            text += f"[t{number}]\n"
        lines[(*prefix, f"k{number}")] = text.count("\n") + 1
        text += f"k{number} = {value}\n"
    path = data.draw(st.sampled_from(sorted(lines, key=str)))
    assert line_of(text, path) == lines[path]


def test_lines_of_tables_in_lists_and_inline() -> None:
    text = "a = {b = {c = 1}}\n[[hooks]]\nx = 1\n\n[[hooks]]\n# why\nx = 2\ny = [\n 1,\n 2]\n"
    assert line_of(text, ("a", "b", "c")) == 1
    assert (line_of(text, ("hooks", 0)), line_of(text, ("hooks", 1))) == (2, 5)
    assert (line_of(text, ("hooks", 1, "x")), line_of(text, ("hooks", 1, "y", 1))) == (7, 8)
