"""The file tools as a set: what they are called, what they take, what they claim, and that nothing makes them fail in
a way of their own."""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from noria.core.content import make_call
from noria.core.ports import Claims
from noria.guard.modes import KINDS, MODES, judge
from noria.runtime.schedule import conflict
from noria.tools.registry import builtin
from noria.tools.toolbox import Toolbox
from noria.tools.workspace import Workspace
from tests.tools.helpers import Bench, call


@pytest.mark.seed("C01", "E01", "E02", "E04", "E12", "E20", "X11")
def test_names_and_arguments() -> None:
    """Each from a file of its own, its schema from the function; `read_file` and `edit_file` as in the interface."""
    arguments = {
        tool.name: {name: name in tool.schema.get("required", ()) for name in tool.schema["properties"]}
        for tool in builtin()
        if tool.name in ("read_file", "write_file", "edit_file", "apply_patch", "list_dir")
    }
    assert arguments == {
        "read_file": {"path": True, "offset": False, "limit": False},
        "write_file": {"path": True, "content": True},
        "edit_file": {"path": True, "old_string": False, "new_string": False, "replace_all": False, "edits": False},
        "apply_patch": {"patch": True},
        "list_dir": {"path": False},
    }
    assert builtin().names()[:5] == ["read_file", "write_file", "edit_file", "apply_patch", "list_dir"]
    for tool in builtin():
        if tool.name in arguments:
            assert tool.read_only == (tool.name in ("read_file", "list_dir"))
            assert len(msgspec.json.encode(tool.schema)) < 800 and len(tool.description) < 120


@pytest.mark.seed("C05", "E02", "Z30")
def test_a_patch_is_judged_as_the_other_tools_that_write() -> None:
    assert KINDS["apply_patch"] == KINDS["write_file"] == KINDS["edit_file"] == "write"
    assert [judge(mode, "write") for mode in MODES] == ["ask", "run", "blocked", "run", "blocked"]


@pytest.mark.seed("X10", "E06")
def test_what_overlaps_by_its_files(tmp_path: Path) -> None:
    """X10, noria's form: only what conflicts waits, by the files that a patch names."""
    bench = Bench(tmp_path)

    def claims(name: str, **args: Any) -> Claims:
        return bench.box.claims(call(name, **args))

    def patch(*names: str) -> Claims:
        body = "".join(f"*** Add File: {name}\n+x\n" for name in names)
        return claims("apply_patch", patch=f"*** Begin Patch\n{body}*** End Patch")

    one, other = patch("a", "d/b"), patch("c", "d/e")
    assert not conflict(one, other)
    assert conflict(one, patch("x", "./d/../a"))
    for reader in (claims("read_file", path="a"), claims("grep", pattern="x"), claims("list_dir", path="d")):
        assert conflict(one, reader)
    assert not conflict(one, claims("read_file", path="c"))
    assert conflict(one, claims("write_file", path="d/b", content="x"))
    move = claims("apply_patch", patch="*** Begin Patch\n*** Update File: a\n*** Move to: z\n@@\n-a\n+b\n*** End Patch")
    assert conflict(move, claims("read_file", path="a")) and conflict(move, claims("read_file", path="z"))


@pytest.mark.case("D06")
def test_file_tools_go_on_when_the_workspace_was_removed(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    outside = tmp_path / "other.txt"
    outside.write_text("there\n")
    shutil.rmtree(bench.root)
    assert bench.do("read_file", path=str(outside)).text == "there\n"
    assert "No such file" in bench.do("read_file", path="a").text
    assert "does not exist" in bench.do("list_dir").text
    assert bench.do("write_file", path="a", content="x\n").text == "wrote a (new, 1 line, 2 bytes)"
    shutil.rmtree(bench.root)
    assert bench.do("apply_patch", patch="*** Begin Patch\n*** Add File: d/a\n+x\n*** End Patch").status == "ok"
    assert (bench.root / "d/a").read_text() == "x\n"


_names = st.sampled_from(
    ["f", "g.py", "n.ipynb", "d", "d/x", "link", "../up", "pipe", "nul\0", "", " ", "é\n", "x" * 300]
)
_words = st.sampled_from(
    ["a", "b\n", "", "é", "\r\n", "*** End Patch", "@@", "-a", "+b", " c", "\U0001f600", "\x1b[0m"]
)
_texts = st.lists(_words, max_size=6).map("".join)
_calls = st.one_of(
    st.fixed_dictionaries({"path": _names}, optional={"offset": st.integers(1, 4), "limit": st.integers(1, 4)}).map(
        lambda args: ("read_file", args)
    ),
    st.fixed_dictionaries({"path": _names, "content": _texts}).map(lambda args: ("write_file", args)),
    st.fixed_dictionaries(
        {"path": _names, "old_string": _texts, "new_string": _texts}, optional={"replace_all": st.booleans()}
    ).map(lambda args: ("edit_file", args)),
    st.fixed_dictionaries({"path": _names}).map(lambda args: ("list_dir", args)),
    st.tuples(st.sampled_from(["Add", "Update", "Delete"]), _names, st.lists(_words, max_size=4)).map(
        lambda it: (
            "apply_patch",
            {"patch": "\n".join(["*** Begin Patch", f"*** {it[0]} File: {it[1]}", *it[2], "*** End Patch"])},
        )
    ),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(_calls, max_size=6))
def test_whatever_is_asked_for_is_answered_in_their_own_words(calls: list[tuple[str, dict[str, Any]]]) -> None:
    """No call ends in an exception's name, and none leaves a temporary file."""
    import tempfile

    with tempfile.TemporaryDirectory() as place:
        root = Path(place) / "w"
        (root / "d").mkdir(parents=True)
        (root / "f").write_bytes(b"a\r\nb\n\xe9")
        (root / "g.py").write_text("a = 1\n")
        (root / "n.ipynb").write_text('{"cells": [{"cell_type": "code", "source": ["a\\n", "b"]}]}')
        os.symlink("f", root / "link")
        os.mkfifo(root / "pipe")

        async def work() -> None:
            box = Toolbox(builtin(), Workspace(str(root)))
            try:
                for name, args in calls:
                    made = make_call(name, msgspec.json.encode(args).decode())
                    result = await (await box.prepare(1, made)).run()
                    assert f"{name} failed" not in result.text, (name, args, result.text)
                    assert result.text
            finally:
                await box.close()

        asyncio.run(work())
        assert not list(Path(place).rglob(".noria-*"))
