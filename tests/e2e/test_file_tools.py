"""The file tools with the real `noria -p`: what is sent, what is on the disk afterwards, what the result says of it."""

from __future__ import annotations

import base64
import json
import os
import pathlib
from typing import Any

import pytest

from noria.testing import ModelServer, Turn
from tests.e2e.history import check_history
from tests.e2e.run import Place
from tests.tools.test_pictures import png


def call(name: str, **args: Any) -> Turn:
    return {"text": "", "calls": [[name, args]]}


def checked(server: ModelServer) -> None:
    assert server.violations == []
    for request in server.requests:
        check_history(request)


def results(server: ModelServer) -> list[str]:
    """What the last request says of every call."""
    return [m["content"] for m in server.requests[-1]["messages"] if m["role"] == "tool"]


def test_the_result_says_what_became_of_files(tmp_path: pathlib.Path) -> None:
    patch = (
        "*** Begin Patch\n*** Add File: new.txt\n+x\n*** Update File: a.txt\n@@\n-one\n+1\n"
        "*** Delete File: gone.txt\n*** End Patch"
    )
    bad = "*** Begin Patch\n*** Update File: a.txt\n@@\n-1\n+2\n*** Update File: b.txt\n@@\n-no\n+2\n*** End Patch"
    script = [call("apply_patch", patch=patch), call("apply_patch", patch=bad), {"text": "Done."}]
    with ModelServer(script) as server:
        place = Place(tmp_path, server.url)
        for name in ("a", "b", "gone"):
            (place.work / f"{name}.txt").write_text("one\n")
        status, result, _ = place.run("go")
        checked(server)
        said = results(server)
    assert status == 0
    told = {
        word: paths for word, paths in result["files"].items() if word in ("created", "changed", "deleted", "failed")
    }
    assert told == {
        "created": ["new.txt"], "changed": ["a.txt"], "deleted": ["gone.txt"], "failed": ["a.txt", "b.txt"],
    }  # fmt: skip
    assert said[0].startswith("created new.txt (1 line)\nchanged a.txt (+1 -1)\ndeleted gone.txt")
    assert said[1].startswith("ERROR: section 2 of 2: hunk 1 of b.txt (line 7 of the patch) does not fit")
    assert sorted(os.listdir(place.work)) == ["a.txt", "b.txt", "new.txt"]
    assert (place.work / "a.txt").read_text() == "1\n"


@pytest.mark.case("E03", "C04")
def test_a_patch_with_one_path_outside_is_not_run_at_all(tmp_path: pathlib.Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "a").write_text("secret\n")
    names = ("box/a", "../../outside/a", str(outside / "a"), "link", "box/new", "~/../outside/a")
    patches = [f"*** Begin Patch\n*** Add File: in.txt\n+x\n*** Add File: {name}\n+x\n*** End Patch" for name in names]
    patches.append("*** Begin Patch\n*** Update File: own\n*** Move to: box/own\n@@\n-one\n+x\n*** End Patch")
    with ModelServer([*(call("apply_patch", patch=patch) for patch in patches), {"text": "Done."}]) as server:
        place = Place(tmp_path / "run", server.url)
        os.symlink(outside, place.work / "box")
        os.symlink(outside / "a", place.work / "link")
        (place.work / "own").write_text("one\n")
        place.env["HOME"] = str(tmp_path / "home")
        status, result, _ = place.run("go")
        checked(server)
        said = results(server)
    assert status == 0 and len(said) == len(patches)
    for text in said:
        assert f"{outside}" in text and "outside the workspace" in text
    assert len(result["denials"]) == len(patches)
    assert {p.name: p.read_text() for p in outside.iterdir()} == {"a": "secret\n"}
    assert sorted(os.listdir(place.work)) == ["box", "link", "own"]


@pytest.mark.case("B05")
@pytest.mark.parametrize("end", ["cut", "stop"])
def test_a_call_that_was_cut_writes_nothing(tmp_path: pathlib.Path, end: Any) -> None:
    half = '{"path": "R.md", "content": "# A\\n# B\\n# '
    patch = '{"patch": "*** Begin Patch\\n*** Add File: R.md\\n+# A\\n+# B\\n+'
    turns: list[Turn] = [
        {"text": "", "calls": [["write_file", half]], "end": end},
        {
            "text": "",
            "calls": [["write_file", {"path": "whole.md", "content": "x\n"}], ["write_file", half]],
            "end": end,
        },
        {"text": "", "calls": [["apply_patch", patch]], "end": end},
    ]
    with ModelServer([*turns, {"text": "Done."}]) as server:
        place = Place(tmp_path, server.url)
        place.run("go")
        checked(server)
        said = results(server)
    assert not (place.work / "R.md").exists()
    assert said and any("cut" in text or "invalid JSON arguments" in text for text in said)


@pytest.mark.parametrize("dialect", ["chat", "responses", "messages"])
def test_an_image_that_is_read_is_sent_as_one(tmp_path: pathlib.Path, dialect: str) -> None:
    data = png(5, 4)
    with ModelServer([call("read_file", path="shot.png"), {"text": "A red picture."}]) as server:
        place = Place(tmp_path, server.url, dialect)
        (place.work / "shot.png").write_bytes(data)
        status, result, err = place.run("look")
        assert (status, result["text"]) == (0, "A red picture."), err
        assert server.violations == []
        sent = json.dumps(dict(server.requests[-1]))
    assert base64.b64encode(data).decode() in sent
    assert f"shot.png (image/png, 5x4, {len(data)} bytes)" in sent


@pytest.mark.case("C06")
def test_what_was_patched_before_a_resume_is_known_after_it(tmp_path: pathlib.Path) -> None:
    patch = "*** Begin Patch\n*** Add File: a.txt\n+one\n*** End Patch"
    more = "*** Begin Patch\n*** Update File: a.txt\n@@\n-one\n+two\n*** End Patch"
    script = [call("apply_patch", patch=patch), call("apply_patch", patch=more), {"text": "First."}]
    with ModelServer(script) as server:
        place = Place(tmp_path, server.url)
        assert place.run("go", "--session", "s")[0] == 0
    script = [*script[:2], call("write_file", path="a.txt", content="three\n"), {"text": "Second."}]
    with ModelServer(script) as server:
        place.url = server.url
        status, result, _ = place.run("on", "--session", "s")
        checked(server)
        said = results(server)
    assert (status, result["files"]["changed"]) == (0, ["a.txt"]), said
    assert (place.work / "a.txt").read_text() == "three\n"
