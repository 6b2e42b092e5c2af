"""memory_save and memory_search: Markdown files that a person can read and change, safe with several writers."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noria.tools.memory import OFF, Memory, memory_save, memory_search
from noria.tools.notes import KINDS, Notes
from tests.tools.helpers import Bench


def bench(tmp: Path) -> Bench:
    given_ = Memory(str(tmp / "memory"))
    return Bench(tmp, *(each.bound(given_, off="") for each in (memory_save, memory_search)))


@pytest.mark.seed("E04", "M05", "M08")
def test_what_is_saved_is_found_and_kept_once(tmp_path: Path) -> None:
    """M08: stored once, and the result says whether it was new; M05: found by its words, without a vector store."""
    box = bench(tmp_path)
    assert box.do("memory_save", kind="lesson", text="Tests need `make db` first.").text == "remembered"
    assert box.do("memory_save", kind="lesson", text="tests  need `MAKE db` first").text == "that is known already"
    box.do("memory_save", kind="preference", text="Answers in French,\nplease")
    box.do("memory_save", kind="fact", text="The database is called orders")
    found = box.do("memory_search", query="how do the TESTS find their database?").text.splitlines()
    assert len(found) == 2 and any("orders" in line for line in found)
    assert re.fullmatch(r"- \[lesson, \d{4}-\d\d-\d\d\] Tests need `make db` first\.", found[1])
    assert box.do("memory_search", query="french").text.endswith("Answers in French,\nplease")
    assert len(box.do("memory_search", query="the", limit=1).text.splitlines()) == 1
    assert box.do("memory_search", query="zebra").text == "nothing was remembered of that"


def test_the_files_are_a_person_s_to_read_and_change(tmp_path: Path) -> None:
    box = bench(tmp_path)
    box.do("memory_save", kind="correction", text="Use pnpm\n- not npm")
    notes = Notes(str(tmp_path / "memory"), str(box.root))
    path = Path(notes.path("correction"))
    assert re.fullmatch(r"- \d{4}-\d\d-\d\d: Use pnpm\n  - not npm\n", path.read_text())
    assert path.parent.parent == tmp_path / "memory" and path.parent.name.startswith("w-")
    assert path.stat().st_mode & 0o777 == 0o600 and path.parent.stat().st_mode & 0o777 == 0o700
    path.write_text("# Mine\n\n* by hand, no day\n- 2020-01-01: old\n\n  with more\nno note")
    box.do("memory_save", kind="correction", text="new one")
    assert [(n.day, n.text) for n in notes.all()][:2] == [("", "by hand, no day"), ("2020-01-01", "old\nwith more")]
    assert notes.all()[-1].text == "new one"


def test_preferences_hold_everywhere_and_the_rest_in_one_workspace(tmp_path: Path) -> None:
    folder = str(tmp_path / "memory")
    here, there = Notes(folder, "/a/project"), Notes(folder, "/b/project")
    here.save("preference", "short answers")
    here.save("fact", "port 8080")
    assert [n.text for n in there.all()] == ["short answers"] and len(here.all()) == 2
    assert here.own != there.own


@pytest.mark.seed("M04", "C09")
def test_while_memory_is_off_nothing_is_offered_or_kept(tmp_path: Path) -> None:
    """M04, C09, noria's form: not advertised; a call is answered that memory is disabled."""
    box = Bench(tmp_path)
    for name, args in (("memory_save", {"kind": "fact", "text": "x"}), ("memory_search", {"query": "x"})):
        tool = box.box.tools.get(name)
        assert tool is not None and tool.missing == OFF
        said = box.do(name, **args)
        assert said.status == "error" and "long-term memory is disabled" in said.text


@pytest.mark.parametrize(
    ("name", "args", "said"),
    [
        ("memory_save", {"kind": "fact", "text": " "}, "the text is empty"),
        ("memory_save", {"kind": "fact", "text": "x" * 3_000}, "at most 2,000 characters"),
        ("memory_save", {"kind": "secret", "text": "x"}, "kind must be one of"),
        ("memory_search", {"query": "?!"}, "the query has no words"),
    ],
)
def test_what_is_no_note(tmp_path: Path, name: str, args: dict[str, str], said: str) -> None:
    result = bench(tmp_path).do(name, **args)
    assert result.status == "error" and said in result.text
    assert not (tmp_path / "memory").exists()


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "memory").write_text("in the way")
    assert "could not be kept" in bench(tmp_path).do("memory_save", kind="fact", text="x").text


def test_many_writers_lose_nothing_and_repeat_nothing(tmp_path: Path) -> None:
    """Four processes save the same hundred notes at once."""
    code = (
        "import sys; from noria.tools.notes import Notes\n"
        f"notes = Notes({str(tmp_path / 'memory')!r}, '/w')\n"
        "for n in range(100): notes.save('fact', f'note number {n} of all\\nsecond line')\n"
    )
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    running = [subprocess.Popen([sys.executable, "-c", code], env=env) for _ in range(4)]
    assert [each.wait(60) for each in running] == [0] * 4
    found = [n.text for n in Notes(str(tmp_path / "memory"), "/w").all()]
    assert sorted(found) == sorted(f"note number {n} of all\nsecond line" for n in range(100))


@given(kind=st.sampled_from(KINDS), texts=st.lists(st.text(min_size=1, max_size=80).filter(str.strip), max_size=6))
def test_any_text_comes_back(tmp_path_factory: pytest.TempPathFactory, kind: str, texts: list[str]) -> None:
    notes = Notes(str(tmp_path_factory.mktemp("m")), "/w")
    new = [text for text in texts if notes.save(kind, text)]
    assert len(notes.all()) == len(new)
    for text in texts:
        assert not notes.save(kind, text)
