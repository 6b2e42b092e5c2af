"""Settings: which source wins, which model is meant, and what each mistake says."""

from __future__ import annotations

from pathlib import Path

import pytest

from noria.app.config import load, places
from noria.app.endpoint import local
from noria.app.settings import Options, Settings
from noria.core.errors import UsageError
from noria.models.catalog import Endpoint, Price, Profile
from noria.models.servers import profile_of

KEY = {"OPENAI_API_KEY": "sk-test"}


def settings(tmp_path: Path, toml: str = "", env: dict[str, str] | None = None, **options: object) -> Settings:
    (tmp_path / "config.toml").write_text(toml)
    given = Options(**{"workspace": str(tmp_path), "model": "chat:m", **options})  # type: ignore[arg-type]
    return load(given, {"NORIA_HOME": str(tmp_path), **KEY, **(env or {})})


def mistake(tmp_path: Path, *args: object, **options: object) -> str:
    with pytest.raises(UsageError) as caught:
        settings(tmp_path, *args, **options)  # type: ignore[arg-type]
    text = str(caught.value)
    assert "\n" not in text
    return text


# -- which source wins -------------------------------------------------------------------------------------------


def test_built_in_values(tmp_path: Path) -> None:
    got = settings(tmp_path)
    assert (got.mode, got.sandbox, got.max_steps, got.max_retries, got.tools) == ("default", "auto", 40, 4, ())
    url = "https://api.openai.com/v1"
    profile = profile_of("chat", url, "m")
    told = "OPENAI_API_KEY (or key_env of the model)"
    assert got.models == (
        Endpoint(name="chat:m", model="m", base_url=url, key="sk-test", key_from=told, profile=profile),
    )


def test_flags_beat_environment_beats_file(tmp_path: Path) -> None:
    file = 'max_steps = 1\nmax_retries = 1\npermission_mode = "goal"\ntools = ["read_file"]'
    env = {"NORIA_MAX_STEPS": "2", "NORIA_MAX_RETRIES": "2", "NORIA_TOOLS": "read_file, run_command"}
    got = settings(tmp_path, file, env, max_steps=3)
    assert (got.max_steps, got.max_retries, got.mode) == (3, 2, "goal")
    assert got.tools == ("read_file", "run_command")


def test_places_follow_xdg_and_noria_home(tmp_path: Path) -> None:
    assert places({"NORIA_HOME": str(tmp_path)}) == (str(tmp_path), str(tmp_path))
    assert places({"XDG_CONFIG_HOME": "/c", "XDG_DATA_HOME": "/d"}) == ("/c/noria", "/d/noria")
    home = Path.home()
    usual = (str(home / ".config/noria"), str(home / ".local/share/noria"))
    assert places({}) == usual
    assert places({"XDG_CONFIG_HOME": "relative", "XDG_DATA_HOME": ""}) == usual


def test_another_file_instead_of_the_users(tmp_path: Path) -> None:
    other = tmp_path / "other.toml"
    other.write_text("max_steps = 7")
    assert settings(tmp_path, "max_steps = 1", config=str(other)).max_steps == 7
    assert "cannot read" in mistake(tmp_path, config=str(tmp_path / "none.toml"))


def test_the_environment_in_strings_and_nothing_evaluated(tmp_path: Path) -> None:
    file = '[models.a]\nmodel = "${env:WHO}-$(id)"\nbase_url = "http://${env:HOST}:1/v1"'
    got = settings(tmp_path, file, {"WHO": "me", "HOST": "localhost"}, model="a")
    assert (got.models[0].model, got.models[0].base_url) == ("me-$(id)", "http://localhost:1/v1")
    assert "has no WHO" in mistake(tmp_path, file, {}, model="a")


# -- models ------------------------------------------------------------------------------------------------------


def test_a_configured_model(tmp_path: Path) -> None:
    file = """
        model = "mine"
        [models.mine]
        model = "big-1"
        base_url = "https://models.example/v1"
        key_env = ["FIRST", "SECOND"]
        headers = {x-team = "a"}
        context_window = 1000
        max_output_tokens = 50
        price = {input = 3.0, output = 15.0}
    """
    got = settings(tmp_path, file, {"SECOND": " sk-2 "}, model=None)
    assert got.models == (
        Endpoint(
            name="mine", model="big-1", base_url="https://models.example/v1", key="sk-2", key_from="SECOND",
            headers={"x-team": "a"}, context_window=1_000, max_output_tokens=50, price=Price(3.0, 15.0),
        ),
    )  # fmt: skip


def test_model_keys_in_the_environment(tmp_path: Path) -> None:
    env = {"NORIA_MODELS_MY_MODEL_BASE_URL": "http://localhost:9/v1", "NORIA_MODEL": "my-model"}
    got = settings(tmp_path, '[models.my-model]\nmodel = "x"', env, model=None)
    assert (got.models[0].model, got.models[0].base_url) == ("x", "http://localhost:9/v1")


def test_base_url_from_flag_then_table_then_variable(tmp_path: Path) -> None:
    env = {"OPENAI_BASE_URL": "http://variable/v1"}
    file = '[models.a]\nbase_url = "http://table/v1"'
    assert settings(tmp_path, file, env, model="a", base_url="http://flag/v1").models[0].base_url == "http://flag/v1"
    assert settings(tmp_path, file, env, model="a").models[0].base_url == "http://table/v1"
    assert settings(tmp_path, file, env).models[0].base_url == "http://variable/v1"


@pytest.mark.seed("X05")
@pytest.mark.parametrize(
    ("name", "dialect", "model", "url", "key", "auth"),
    [
        ("chat:m", "chat", "m", "https://open/v1", "sk-open", "bearer"),
        ("responses:m", "responses", "m", "https://open/v1", "sk-open", "bearer"),
        ("gpt-5.1", "responses", "gpt-5.1", "https://open/v1", "sk-open", "bearer"),
        ("o3", "responses", "o3", "https://open/v1", "sk-open", "bearer"),
        ("messages:m", "messages", "m", "https://ant", "sk-ant", "x-api-key"),
        ("claude-sonnet-4-5", "messages", "claude-sonnet-4-5", "https://ant", "sk-ant", "x-api-key"),
        ("gemini:g", "gemini", "g", "https://goo", "gem", "x-goog-api-key"),
        ("gemini-3-pro", "gemini", "gemini-3-pro", "https://goo", "gem", "x-goog-api-key"),
    ],
)
def test_a_name_s_dialect_address_and_key(
    tmp_path: Path, name: str, dialect: str, model: str, url: str, key: str, auth: str
) -> None:
    env = {"OPENAI_API_KEY": "sk-open", "ANTHROPIC_API_KEY": "sk-ant", "GEMINI_API_KEY": "gem", "GOOGLE_API_KEY": "goo"}
    urls = {"OPENAI_BASE_URL": "https://open/v1", "ANTHROPIC_BASE_URL": "https://ant"}
    urls["GOOGLE_GEMINI_BASE_URL"] = "https://goo"
    got = settings(tmp_path, "", env | urls, model=name).models[0]
    assert (got.dialect, got.model, got.base_url, got.key, got.auth) == (dialect, model, url, key, auth)
    usual = settings(tmp_path, "", env, model=name).models[0].base_url
    vendors = {"messages": "https://api.anthropic.com", "gemini": "https://generativelanguage.googleapis.com"}
    assert usual == vendors.get(dialect, "https://api.openai.com/v1")
    if dialect == "gemini":
        assert settings(tmp_path, "", {"GOOGLE_API_KEY": "goo"}, model=name).models[0].key == "goo"
        assert settings(tmp_path, "", env, model=name).models[0].context_window == (1_048_576 if model != "g" else 0)


def test_a_window_that_is_known_or_set(tmp_path: Path) -> None:
    """Without one, compaction would begin at 120,000 characters, far too early for these models."""
    env = {"ANTHROPIC_API_KEY": "k"}
    assert settings(tmp_path, "", env, model="claude-sonnet-4-5").models[0].context_window == 200_000
    assert settings(tmp_path, "", env, model="chat:gpt-4.1-mini").models[0].context_window == 1_047_576
    assert settings(tmp_path, "", env, model="chat:other").models[0].context_window == 0
    file = '[models.a]\nmodel = "claude-x"\ncontext_window = 1000000\ndialect = "messages"'
    assert settings(tmp_path, file, env, model="a").models[0].context_window == 1_000_000


@pytest.mark.case("I05")
def test_a_server_s_profile(tmp_path: Path) -> None:
    file = """
        [models.a]
        base_url = "http://localhost:1/v1"
        max_output_tokens = 9
        [models.a.profile]
        output_parameter = "max_completion_tokens"
        images = false
    """
    got = settings(tmp_path, file, {"NORIA_MODELS_A_PROFILE_BRIDGE": "true"}, model="a").models[0]
    assert got.profile == Profile(output_parameter="max_completion_tokens", images=False, bridge=True)
    wrong = file.replace("images", "image")
    assert "there is no key models.a.profile.image; did you mean images?" in mistake(tmp_path, wrong, {}, model="a")


def test_the_way_of_the_key_can_be_set(tmp_path: Path) -> None:
    file = '[models.a]\ndialect = "messages"\nauth = "bearer"\nbase_url = "https://gate/v1"'
    assert settings(tmp_path, file, {"ANTHROPIC_API_KEY": "k"}, model="a").models[0].auth == "bearer"


@pytest.mark.parametrize(
    ("dialect", "url", "auth"),
    [
        ("chat", "https://me.openai.azure.com", "api-key"), ("responses", "https://me.openai.azure.com", "api-key"),
        ("messages", "https://eu-aiplatform.googleapis.com/v1/projects/p/locations/eu", "bearer"),
        ("messages", "https://bedrock-mantle.eu-west-1.api.aws/anthropic", "bearer"),
        ("messages", "https://api.anthropic.com", "x-api-key"), ("chat", "https://gate.example/v1", "bearer"),
    ],
)  # fmt: skip
def test_how_the_key_goes_along_is_known_of_clouds(tmp_path: Path, dialect: str, url: str, auth: str) -> None:
    """By the address alone; `auth` in the configuration goes over it."""
    file = f'[models.a]\ndialect = "{dialect}"\nbase_url = "{url}"\nkey_env = "K"\n'
    assert settings(tmp_path, file, {"K": "k"}, model="a").models[0].auth == auth
    assert settings(tmp_path, file + 'auth = "query"', {"K": "k"}, model="a").models[0].auth == "query"


def test_fallbacks_in_order(tmp_path: Path) -> None:
    got = settings(tmp_path, fallback_models=("chat:b", "chat:c"))
    assert [m.model for m in got.models] == ["m", "b", "c"]


@pytest.mark.parametrize(
    "url",
    ["http://localhost:1/v1", "http://127.0.0.1:1", "http://[::1]:1/v1", "http://192.168.0.9/v1", "http://gpu:8000/v1"],
)
def test_a_local_server_needs_no_key(tmp_path: Path, url: str) -> None:
    got = settings(tmp_path, "", {"OPENAI_API_KEY": ""}, base_url=url)
    assert (got.models[0].key, got.models[0].auth) == ("", "none")


def test_what_is_local() -> None:
    assert not any(
        local(u)
        for u in ("https://api.openai.com/v1", "http://8.8.8.8/v1", "http://172.32.0.1", "http://[2001:db8::1]/v1")
    )
    assert all(local(u) for u in ("http://172.16.0.1", "http://10.1.2.3/v1", "http://box.local/v1"))


def test_a_key_from_a_command_is_not_shown(tmp_path: Path) -> None:
    got = settings(tmp_path, '[models.a]\nkey_command = "printf secret-9"', {"OPENAI_API_KEY": ""}, model="a")
    assert got.models[0].key == "secret-9"
    assert "secret-9" not in repr(got)
    assert "key_command of a failed" in mistake(tmp_path, '[models.a]\nkey_command = "false"', {}, model="a")


# -- mistakes ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"model": None}, "no model: pass --model chat:NAME, or set NORIA_MODEL, or one of mine"),
        ({"model": "nonsense"}, "unknown model nonsense: write chat:nonsense for an OpenAI-compatible server, or"),
        ({"model": "chat:"}, "names no model"),
        ({"model": "gemini:x"}, "no key for gemini:x at https://generativelanguage.googleapis.com: set GEMINI_API_KEY"),
        ({"model": "gemini-3"}, "set GEMINI_API_KEY or GOOGLE_API_KEY in the environment"),
        ({"model": "messages:x"}, "no key for messages:x at https://api.anthropic.com: set ANTHROPIC_API_KEY"),
        ({"model": "opus"}, "unknown model opus"),
        ({"fallback_models": ("nonsense",)}, "unknown model nonsense"),
        ({"base_url": "localhost:8000"}, "is no address of a server: write it like"),
        ({"base_url": "http://h:port/v1"}, "is no address of a server"),
        ({"workspace": "/nowhere/at/all"}, "the workspace /nowhere/at/all does not exist; pass a folder"),
        ({"permission_mode": "yolo"}, "there is no permission mode 'yolo'; choose one of default, accept-edits"),
        ({"sandbox": "loose"}, "there is no sandbox 'loose'; choose one of auto, strict, off"),
        ({"max_cost": 1.0}, "--max-cost needs the price of chat:m"),
        ({"system_file": "/nowhere.md"}, "cannot read /nowhere.md"),
    ],
)  # fmt: skip
def test_flags_that_will_not_do(tmp_path: Path, options: dict[str, object], says: str) -> None:
    assert says in mistake(tmp_path, '[models.mine]\nmodel = "x"', **options)


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ("max_step = 3", "there is no key max_step; did you mean max_steps?"),
        ('[models.a]\nbaseurl = "x"', "there is no key models.a.baseurl; did you mean base_url?"),
        ('max_steps = "many"', 'config.toml:1: max_steps must be a whole number, not "many"'),
        ("max_steps = -1", "max_steps must not be negative"),
        ('[models.a]\ndialect = "telepathy"', "config.toml:2: there is no dialect 'telepathy'; choose one of chat,"),
        ("\nmax_steps =", "config.toml:2: this is not TOML: invalid value"),
        (
            '\ndeny = [\n"ls",\n"git_commit(x)"]',
            "config.toml:4: deny: git_commit(x): git_commit takes no pattern",
        ),
        (
            '\ndeny = ["run_command(a | b)"]',
            "config.toml:2: deny: run_command(a | b): a pattern is matched on each",
        ),
        ('[[hooks]]\nevent = "Stop"\nmcp = "a"', "config.toml): mcp = 'a' is not of the form server/tool"),
        ('\n[mcp.a]\nurl = "a"', "'a' is no address: write it like https://host/mcp"),
        ("\n[mcp.a]\ncommand = []", "a server has either command (a list of words) or url"),
        ("\n[mcp.a]\nurl = 'http://x'\ntimeout = 0", "timeout"),
        ('[[hooks]]\nevent = "Stop"\npython = "a"', "config.toml): python = 'a' is not of the form module:function"),
        ('[[hooks]]\nevent = "Stop"\nurl = "a"', "config.toml): 'a' is no address: write it like https://host/path"),
    ],
)
def test_a_file_that_will_not_do(tmp_path: Path, config: str, says: str) -> None:
    text = mistake(tmp_path, config)
    assert says in text
    assert str(tmp_path / "config.toml") in text or "negative" in text


def test_a_missing_key_names_the_variable(tmp_path: Path) -> None:
    text = mistake(tmp_path, "", {"OPENAI_API_KEY": " "})
    assert text == "no key for chat:m at https://api.openai.com/v1: set OPENAI_API_KEY in the environment"
    assert "a character that cannot be sent" in mistake(tmp_path, "", {"OPENAI_API_KEY": "sk-\u2026"})


def test_the_workspace_may_not_be_a_file(tmp_path: Path) -> None:
    assert "is not a folder" in mistake(tmp_path, workspace=str(tmp_path / "config.toml"))


def test_an_unknown_variable_is_a_notice(tmp_path: Path) -> None:
    got = settings(tmp_path, "", {"NORIA_MAX_STEP": "3"})
    assert got.notices == ("NORIA_MAX_STEP in the environment is no setting; did you mean NORIA_MAX_STEPS?",)


def test_the_workspaces_own_configuration_is_not_trusted(tmp_path: Path) -> None:
    (tmp_path / ".noria").mkdir()
    (tmp_path / ".noria/config.toml").write_text("max_steps = 1")
    got = settings(tmp_path)
    assert got.max_steps == 40
    assert "is not read" in got.notices[0]
