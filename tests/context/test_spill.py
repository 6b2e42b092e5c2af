"""Spill files: private, bounded, plainly named, removed when they are old."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noria.context.spill import KEEP_SECONDS, SpillFolder, file_name, sweep


@pytest.mark.seed("D07")
def test_the_folder_and_its_files_are_private_and_made_late(tmp_path: Path) -> None:
    folder = SpillFolder(str(tmp_path / "a" / "b"))
    path = folder.path("12-run_command.txt")
    assert not (tmp_path / "a").exists()
    file = folder.open(path)
    file.write(b"one")
    file.write(b" two")
    file.close()
    file.close()
    assert Path(path).read_bytes() == b"one two"
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    assert stat.S_IMODE(os.stat(tmp_path / "a" / "b").st_mode) == 0o700
    again = folder.open(path)
    again.discard()
    again.discard()
    assert not os.path.exists(path)
    folder.clear()
    assert not (tmp_path / "a" / "b").exists()


def test_a_file_is_bounded(tmp_path: Path) -> None:
    folder = SpillFolder(str(tmp_path / "s"), limit=5)
    file = folder.open(folder.path("o"))
    file.write(b"abc")
    assert not file.full
    file.write(b"def")
    file.write(b"ghi")
    assert file.full
    file.close()
    assert (tmp_path / "s" / "o").read_bytes() == b"abcde"


def test_a_folder_is_bounded(tmp_path: Path) -> None:
    """A session that prints without end does not fill the disk: what comes late is kept in part, and said to be."""
    folder = SpillFolder(str(tmp_path / "s"), limit=3 << 20, whole=4 << 20)
    kept: list[tuple[int, bool]] = []
    for name in "abcd":
        file = folder.open(folder.path(name))
        file.write(b"x" * (3 << 20))
        file.write(b"x")
        file.close()
        kept.append((os.path.getsize(file.path), file.full))
    assert kept == [(3 << 20, True)] * 2 + [(1 << 20, True)] * 2
    again = SpillFolder(str(tmp_path / "s"), limit=3 << 20, whole=4 << 20)
    file = again.open(again.path("e"))
    file.write(b"x" * (2 << 20))
    assert file.full and again.used == 9 << 20
    file.discard()
    assert again.used == 8 << 20


def test_nothing_is_written_outside_the_folder(tmp_path: Path) -> None:
    folder = SpillFolder(str(tmp_path / "s"))
    with pytest.raises(PermissionError):
        folder.open(str(tmp_path / "elsewhere.txt"))
    (tmp_path / "target").write_text("kept")
    folder.open(folder.path("x")).close()
    os.symlink(tmp_path / "target", folder.path("link"))
    with pytest.raises(OSError):
        folder.open(folder.path("link"))
    assert (tmp_path / "target").read_text() == "kept"


def test_a_folder_that_is_open_to_others_is_closed_and_one_of_others_refused(tmp_path: Path) -> None:
    (tmp_path / "s").mkdir(mode=0o755)
    folder = SpillFolder(str(tmp_path / "s"))
    folder.open(folder.path("x")).close()
    assert stat.S_IMODE(os.stat(tmp_path / "s").st_mode) == 0o700
    os.symlink(tmp_path, tmp_path / "link")
    linked = SpillFolder(str(tmp_path / "link"))
    with pytest.raises(PermissionError, match="somebody else"):
        linked.open(linked.path("x"))


@given(st.text(max_size=200))
def test_any_name_becomes_a_plain_one(name: str) -> None:
    plain = file_name(name)
    assert plain and len(plain) <= 100 and not plain.startswith(".")
    assert all(c.isascii() and (c.isalnum() or c in "._-") for c in plain)
    assert file_name(plain) == plain


@pytest.mark.seed("Z31")
def test_what_is_old_is_swept_away(tmp_path: Path) -> None:
    """Z31: outputs are cut at character borders (see tests/tools/test_result.py) and do not pile up."""
    now = 1_000_000_000.0
    for name, age in (("old", KEEP_SECONDS + 60), ("young", 60.0), ("old-but-used", KEEP_SECONDS + 60)):
        folder = SpillFolder(str(tmp_path / name))
        folder.open(folder.path("o")).close()
        os.utime(tmp_path / name / "o", (now - age, now - age))
        os.utime(tmp_path / name, (now - age, now - age))
    os.utime(tmp_path / "old-but-used" / "o", (now, now))
    (tmp_path / "a file").write_text("x")
    os.symlink(tmp_path / "young", tmp_path / "link")
    assert sweep(str(tmp_path), now) == [str(tmp_path / "old")]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a file", "link", "old-but-used", "young"]
    assert sweep(str(tmp_path / "nowhere"), now) == []
