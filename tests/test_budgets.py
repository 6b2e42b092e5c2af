"""Import budgets, by the number of modules: what a start loads. Times belong in benchmarks."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys

from noria.testing import ModelServer
from tests.e2e.run import Place


def _loaded(code: str, env: dict[str, str] | None = None, cwd: pathlib.Path | None = None) -> set[str]:
    """The modules that are loaded after `code`, beyond those of a bare interpreter."""
    done = subprocess.run(
        [sys.executable, "-I", "-c", f"import sys; before = set(sys.modules)\n{code}\n"
         "print('\\nLOADED', *sorted(set(sys.modules) - before))"],
        capture_output=True, text=True, check=True, env=env, cwd=cwd, timeout=60,
    )  # fmt: skip
    return set(done.stdout.rpartition("LOADED")[2].split())


def test_version_and_help_load_next_to_nothing() -> None:
    for flag in ("--version", "--help"):
        loaded = _loaded(f"sys.argv = ['noria', {flag!r}]\nfrom noria.__main__ import main\nmain()")
        assert len(loaded) <= 6, sorted(loaded)


UNUSED = {
    "noria.app.models", "noria.models.local", "noria.models.windows", "noria.telemetry.ledger", "noria.core.images",
    "noria.app.agents", "noria.app.asks", "noria.app.delegate", "noria.agents.definition", "noria.tools.agents",
}  # fmt: skip
"""What a run needs only where something is refused, listed or added up."""
HEAVY = {
    "email", "http", "urllib.request", "xml", "unittest", "multiprocessing", "concurrent.futures.process", "pydantic",
    "httpx", "requests", "aiohttp", "openai", "anthropic", "rich", "prompt_toolkit", "tree_sitter_bash", "tomllib",
    "shutil", "tempfile", "difflib",
}  # fmt: skip


def test_a_headless_run_loads_a_fixed_set(tmp_path: pathlib.Path) -> None:
    """From the start to the result, with a command run on the way."""
    with ModelServer([{"text": "", "calls": [["run_command", {"command": "true"}]]}]) as server:
        place = Place(tmp_path, server.url)
        code = f"sys.argv = {['noria', *place.arguments('go')]!r}\nfrom noria.__main__ import main\nassert main() == 0"
        loaded = _loaded(code, {k: v for k, v in place.env.items() if k != "PYTHONPATH"}, place.work)
    roots = {m.partition(".")[0] for m in loaded}
    assert "noria.models.chat" in loaded and "sqlite3" in loaded
    assert not (roots | loaded) & HEAVY, sorted((roots | loaded) & HEAVY)
    assert not loaded & UNUSED, sorted(loaded & UNUSED)
    # how many of them are Python's own depends on its version
    own = {m for m in loaded if m.partition(".")[0] == "noria"}
    assert len(own) <= 130, f"{len(own)} modules: {sorted(own)}"
    assert len(loaded) <= 310, f"{len(loaded)} modules: {sorted(loaded)}"


def test_the_first_request_has_room_for_every_tool_that_can_work(tmp_path: pathlib.Path) -> None:
    """At most 9 kB in the chat dialect, the question to a person included; a kilobyte more where a person has turned on
    searching the web and memory."""
    sizes: list[int] = []
    for more in (
        {},
        {"NORIA_WEB_SEARCH": "searxng", "NORIA_WEB_SEARCH_URL": "http://127.0.0.1:9", "NORIA_MEMORY": "true"},
    ):
        with ModelServer([{"text": "done"}]) as server:
            place = Place(tmp_path / str(len(more)), server.url)
            arguments = [a if a != "goal" else "default" for a in place.arguments("go")]
            command = [sys.executable, "-m", "noria", *arguments, "--on-ask", "pause"]
            subprocess.run(command, env=place.env | more, cwd=place.work, check=True, capture_output=True, timeout=60)
            request = {k: v for k, v in server.requests[0].items() if not k.startswith("_")}
        names = [t["function"]["name"] for t in request["tools"]]
        assert names[-1] == "ask_user" and ("web_search" in names) == ("memory_save" in names) == bool(more)
        sizes.append(len(json.dumps(request, separators=(",", ":"))))
    assert sizes[0] <= 9_000 and sizes[1] <= 10_000, sizes


def test_agents_cost_a_run_that_has_none_nothing(tmp_path: pathlib.Path) -> None:
    """Its first request is the same to the byte, whether or not there is a folder for them; with some it has room."""
    requests: list[str] = []
    for files in (None, [], [f"agent{k}" for k in range(30)]):
        with ModelServer([{"text": "done"}]) as server:
            place = Place(tmp_path / str(len(requests)), server.url)
            if files is not None:
                (place.home / "agents").mkdir()
            for name in files or ():
                text = f"---\ndescription: {name * 15}\n---\nDo it.\n"
                (place.home / f"agents/{name}.md").write_text(text)
            place.work = tmp_path / "work"
            place.work.mkdir(exist_ok=True)
            assert place.run("go")[0] == 0
            request = {k: v for k, v in server.requests[0].items() if not k.startswith("_")}
            requests.append(json.dumps(request, separators=(",", ":")))
    assert requests[0] == requests[1] and "subagent" not in requests[0]
    assert "- more: see agent_list" in requests[2] and len(requests[2]) <= 10_000, len(requests[2])


def test_the_environment_of_the_tests_is_not_noria_s_own() -> None:
    assert not os.environ.get("NORIA_HOME"), "unset NORIA_HOME before the tests"
