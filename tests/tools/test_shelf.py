"""What a model is told of the tools without loading them, and the tools themselves."""

from __future__ import annotations

import subprocess
import sys

import msgspec
import pytest

from noria.tools.agents import NOBODY
from noria.tools.registry import AGENTS, builtin, loaded
from noria.tools.schema import Tool
from noria.tools.shelf import PLACE, Shelved, entries
from noria.tools.web import Web
from noria.tools.workspace import Workspace
from tests.tools.shelf import document


@pytest.mark.seed("C01", "X11")
def test_the_file_is_what_the_tools_say() -> None:
    """Where this fails, run `make docs`."""
    with open(PLACE, encoding="utf-8") as file:
        assert file.read() == document()


def test_a_shelved_tool_is_the_tool(tmp_path: object) -> None:
    assert loaded().names() == [*builtin().names(), *AGENTS] == builtin(agents=NOBODY).names()
    for shelved, real in zip((*builtin(), *(Shelved(entries()[name]) for name in AGENTS)), loaded(), strict=True):
        assert isinstance(shelved, Shelved) and not isinstance(real, Shelved)
        assert (shelved.spec, shelved.missing, shelved.off) == (real.spec, real.missing, real.off)
        assert (shelved.description, shelved.schema, shelved.typed) == (real.description, real.schema, real.typed)
        assert all(getattr(shelved, slot) == getattr(real, slot) for slot in Tool.__slots__ if slot != "_derived")
        with pytest.raises(AttributeError):
            _ = shelved.nothing  # type: ignore[attr-defined]


def test_what_a_session_gives_is_given_when_it_is_loaded() -> None:
    off = builtin(Web(why="no backend")).get("web_search")
    assert off is not None and off.missing == "no backend"
    given = builtin(Web()).get("web_fetch")
    assert given is not None and given.check({"url": 3}) and not given.check({"url": "https://x.example/"})


def test_a_tool_that_is_not_used_is_not_loaded() -> None:
    code = (
        "import sys\nfrom noria.tools.registry import builtin\n"
        "specs = [t.spec for t in builtin() if not t.missing]\n"
        "print([m for m in sys.modules if m.startswith('noria.tools.')])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    found = msgspec.json.decode(out.replace("'", '"'), type=set[str])
    unused = ("files", "edit", "patch", "git", "grep", "glob", "listing", "shell", "tasks", "todo", "ask", "process")
    assert not found & {f"noria.tools.{name}" for name in unused}


def test_claims_of_a_shelved_tool(tmp_path: object) -> None:
    read = builtin().get("read_file")
    assert read is not None
    work = Workspace(str(tmp_path))
    assert read.claims({"path": "a"}, work).reads == (f"{work.root}/a",)
    assert len(entries()) == len(loaded())
