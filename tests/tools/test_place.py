"""Files are put in place whole: old or new, all or none, whatever happens."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from noria.tools import place as placing
from noria.tools.place import Put, place
from noria.tools.result import ToolError
from noria.tools.textfile import load


def put(path: Path, data: bytes | None, *, new: bool = False) -> Put:
    return Put(str(path), path.name, data, None if new else load(str(path), path.name))


def names(folder: Path) -> list[str]:
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*"))


@pytest.mark.case("C04")
def test_what_was_put_in_place_is_taken_back_where_a_later_one_fails(tmp_path: Path) -> None:
    """The last of four goes away once all have been checked: the three before it are in place by then."""
    for name in ("changed", "deleted", "gone"):
        (tmp_path / name).write_text(f"old {name}\n")
    (tmp_path / "changed").chmod(0o751)
    inode = (tmp_path / "changed").stat().st_ino
    puts = [
        put(tmp_path / "changed", b"new\n"),
        put(tmp_path / "deep/er/created", b"new\n", new=True),
        put(tmp_path / "deleted", None),
        Put(str(tmp_path / "gone"), "gone", None),
    ]

    def meanwhile() -> bool:
        (tmp_path / "gone").unlink()
        return False

    with pytest.raises(ToolError, match="gone: No such file or directory; nothing was written"):
        place(puts, meanwhile)
    assert names(tmp_path) == ["changed", "deleted"]
    assert (tmp_path / "changed").read_text() == "old changed\n"
    assert (tmp_path / "deleted").read_text() == "old deleted\n"
    found = (tmp_path / "changed").stat()
    assert found.st_ino == inode and stat.S_IMODE(found.st_mode) == 0o751  # the same file, not a copy of it
    place(puts[:3])
    assert names(tmp_path) == ["changed", "deep", "deep/er", "deep/er/created"]


@pytest.mark.case("E03")
@pytest.mark.parametrize("what", ["change", "create", "delete", "deep"])
def test_a_folder_that_becomes_a_link_leads_nothing_outside(tmp_path: Path, what: str) -> None:
    """A path is resolved and judged before it is written to: a folder of it may be swapped for a link in between."""
    outside = tmp_path / "outside"
    for folder in (outside, tmp_path / "in"):
        folder.mkdir()
        (folder / "a").write_text("old\n")
    where = {"create": "new", "deep": "er/new"}.get(what, "a")
    wanted = put(tmp_path / "in" / where, None if what == "delete" else b"new\n", new=where != "a")

    def swap() -> bool:
        (tmp_path / "in").rename(tmp_path / "was")
        (tmp_path / "in").symlink_to(outside)
        return False

    with pytest.raises(ToolError, match="is another since a moment ago; nothing was written"):
        place([wanted], swap)
    with pytest.raises(ToolError, match="is another since a moment ago; nothing was written"):
        place([wanted])
    with pytest.raises(ToolError, match="somewhere else since a moment ago"):
        load(str(tmp_path / "in/a"), "in/a")
    assert names(outside) == ["a"] and (outside / "a").read_text() == "old\n"
    assert set(names(tmp_path / "was")) <= {"a", "er"} and (tmp_path / "was/a").read_text() == "old\n"


def test_many_folders_are_opened_once_each(tmp_path: Path) -> None:
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    open_now = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 100
    resource.setrlimit(resource.RLIMIT_NOFILE, (open_now + 150, before[1]))
    try:
        place([put(tmp_path / f"{k % 20}/{k}", b"x", new=True) for k in range(400)])
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert len([n for n in names(tmp_path) if "/" in n]) == 400


@pytest.mark.case("C04")
def test_a_change_of_any_of_them_stops_all(tmp_path: Path) -> None:
    for name in "abc":
        (tmp_path / name).write_text("old\n")
    puts = [put(tmp_path / name, b"mine\n") for name in "abc"]
    (tmp_path / "b").write_text("theirs\n")
    with pytest.raises(ToolError, match="b changed while it was being written; nothing was written"):
        place(puts)
    assert [(tmp_path / name).read_text() for name in "abc"] == ["old\n", "theirs\n", "old\n"]
    assert names(tmp_path) == ["a", "b", "c"]
    with pytest.raises(ToolError, match="interrupted; nothing was written"):
        place([put(tmp_path / "a", b"mine\n"), put(tmp_path / "n/d", b"new\n", new=True)], lambda: True)
    assert names(tmp_path) == ["a", "b", "c"]


@pytest.mark.case("C04")
@pytest.mark.parametrize("nameless", [True, False])
def test_where_files_cannot_be_without_a_name_they_have_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nameless: bool
) -> None:
    if not nameless:
        monkeypatch.setattr(placing, "OPEN", 0)
    (tmp_path / "a").write_text("old\n")
    place([put(tmp_path / "a", b"new\n"), put(tmp_path / "b", b"new\n", new=True)])
    assert names(tmp_path) == ["a", "b"] and (tmp_path / "a").read_text() == "new\n"
    with pytest.raises(ToolError, match="made by somebody else"):
        place([put(tmp_path / "a", b"newer\n"), put(tmp_path / "b", b"newer\n", new=True)])
    assert names(tmp_path) == ["a", "b"] and (tmp_path / "a").read_text() == "new\n"


@pytest.mark.case("C05")
def test_extended_attributes_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_text("old\n")
    try:
        os.setxattr(path, "user.origin", b"somewhere")
    except (OSError, AttributeError):
        pytest.skip("there are no extended attributes here")
    place([put(path, b"new\n")])
    assert os.getxattr(path, "user.origin") == b"somewhere" and path.read_text() == "new\n"


FULL = """
import resource, signal, sys
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, 1_000))
from noria.tools.place import Put, place
from noria.tools.result import ToolError
from noria.tools.textfile import load
a, b = sys.argv[1:]
try:
    place([Put(a, "a", b"new", load(a, "a")), Put(b, "b", b"x" * 2_000, None)])
except ToolError as error:
    print(error, end="")
"""


@pytest.mark.case("C04", "C05")
def test_a_disk_that_takes_no_more(tmp_path: Path) -> None:
    """The second of two does not fit: the first one is as it was, and nothing of either is left."""
    (tmp_path / "a").write_text("old")
    command = [sys.executable, "-c", FULL, str(tmp_path / "a"), str(tmp_path / "deep/b")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "b: File too large; nothing was written"
    assert names(tmp_path) == ["a"] and (tmp_path / "a").read_text() == "old"


WRITER = """
import sys
from noria.tools.place import Put, place
from noria.tools.textfile import load
paths = sys.argv[1:]
n = 0
while True:
    n += 1
    data = (b"%08d\\n" % n) * 100_000
    place([Put(path, path, data, load(path, path)) for path in paths])
    print(n, flush=True)
"""


@pytest.mark.case("C04")
@pytest.mark.parametrize("files", [1, 3])
def test_a_kill_leaves_each_file_old_or_new(tmp_path: Path, files: int) -> None:
    paths = [tmp_path / f"f{n}" for n in range(files)]
    for path in paths:
        path.write_bytes(b"%08d\n" % 0 * 100_000)
    for round_ in range(8):
        child = subprocess.Popen([sys.executable, "-c", WRITER, *map(str, paths)], stdout=subprocess.PIPE)
        assert child.stdout is not None and child.stdout.readline()
        time.sleep(0.003 * round_)
        child.send_signal(signal.SIGKILL)
        child.wait()
        child.stdout.close()
        for path in paths:
            data = path.read_bytes()
            assert len(data) == 900_000 and data == data[:9] * 100_000
        left = [p for p in tmp_path.iterdir() if p not in paths]
        assert len(left) <= 2 * files, left  # names that the kill left: an old content, or a new one just named
        for path in left:
            path.unlink()
