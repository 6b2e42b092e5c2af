"""What is remembered from session to session: Markdown files that a person can read, change and delete.

Owns: where a note lies, its form, that none is lost or kept twice, finding one by its words. Must not know: who saves
notes or is shown them. A file has one kind of note: `- 2026-11-30: text`, further lines indented. What a person writes
there by hand, with or without a day, counts as well.
"""

from __future__ import annotations

import fcntl
import os
import re
import time
import unicodedata
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from math import log

import msgspec

from noria.tools.result import ToolError, safe

LONGEST = 2_000  # characters of a note
LARGEST = 1_000_000  # bytes of a file that are read, and after which nothing is added
MOST = 50  # notes that a search gives
EVERYWHERE = frozenset(("preference",))
KINDS = ("lesson", "preference", "correction", "fact")


class Note(msgspec.Struct, frozen=True):
    """One thing that is remembered; `day` is empty where a person wrote none."""

    kind: str
    text: str
    day: str = ""


class Notes:
    """The notes of a workspace, with those that hold everywhere. Nothing is made on disk before something is saved."""

    def __init__(self, folder: str, workspace: str) -> None:
        """`folder`: of all notes; those of a workspace are in a folder of their own in it, by its name and path."""
        self._folder = folder
        import zlib

        name = re.sub(r"[^\w.-]", "_", os.path.basename(workspace)) or "root"
        digest = zlib.crc32(workspace.encode("utf-8", "surrogateescape"))
        self.own = os.path.join(folder, f"{name[:60]}-{digest:08x}")

    def path(self, kind: str) -> str:
        """The file of that kind of note."""
        return os.path.join(self._folder if kind in EVERYWHERE else self.own, f"{kind}.md")

    def save(self, kind: str, text: str) -> bool:
        """Keep a note; false where it is there already. Two processes may save at once. Raises ToolError."""
        text = safe(text).strip()
        if not text:
            raise ToolError("the text is empty: say what is to be remembered")
        if len(text) > LONGEST:
            raise ToolError(f"a note has at most {LONGEST:,} characters: keep what will matter later")
        path = self.path(kind)
        try:
            os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
            with _locked(path) as file:
                whole = _read(file)
                if any(_plain(n.text) == _plain(text) for n in _notes(kind, whole)):
                    return False
                if len(whole) > LARGEST:
                    raise ToolError(f"{path} is full: a person can tidy it up")
                body = "\n  ".join(line.rstrip() for line in text.splitlines())
                gap = "" if not whole or whole.endswith("\n") else "\n"
                os.write(file, f"{gap}- {time.strftime('%Y-%m-%d')}: {body}\n".encode())
                os.fsync(file)
        except OSError as error:
            raise ToolError(f"it could not be kept in {path}: {error.strerror or error}") from None
        return True

    def all(self) -> list[Note]:
        """Every note. Raises ToolError where a file cannot be read."""
        found: list[Note] = []
        for kind in KINDS:
            path = self.path(kind)
            try:
                file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
            except FileNotFoundError:
                continue
            except OSError as error:
                raise ToolError(f"{path} cannot be read: {error.strerror or error}") from None
            try:
                found += _notes(kind, _read(file))
            finally:
                os.close(file)
        return found

    def search(self, query: str, limit: int) -> list[Note]:
        """The notes that have the query's words, or words that begin like them; rare words count for more. Raises
        ToolError."""
        every_word = _words(query)
        wanted = {w for w in every_word if len(w) > 3 or not w.isascii()} or every_word  # not "how", "the", "of"
        if not wanted:
            raise ToolError("the query has no words: say what to look for")
        every = self.all()
        words = [_words(f"{n.kind} {n.text}") for n in every]
        common = Counter(w for each in words for w in each)
        scored: list[tuple[float, int]] = []
        for at, each in enumerate(words):
            score = 0.0
            for word in wanted:
                if word in each:
                    score += log(1 + len(every) / common[word])
                elif len(word) > 3 and any(w.startswith(word[:-1]) or word.startswith(w) for w in each if len(w) > 3):
                    score += 0.5
            if score:
                scored.append((-score, -at))
        return [every[-at] for _, at in sorted(scored)[: min(limit, MOST)]]


@contextmanager
def _locked(path: str) -> Iterator[int]:
    """The file, open for appending, while nobody else saves in it."""
    file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield file
    finally:
        os.close(file)


def _read(file: int) -> str:
    os.lseek(file, 0, os.SEEK_SET)
    pieces: list[bytes] = []
    size = 0
    while size <= LARGEST and (piece := os.read(file, 1 << 16)):
        pieces.append(piece)
        size += len(piece)
    return b"".join(pieces).decode("utf-8", "replace")


def _notes(kind: str, whole: str) -> Iterator[Note]:
    """The notes of a file: each begins with `- `, and goes on over indented lines."""
    for piece in re.split(r"^[-*] ", f"\n{whole}", flags=re.MULTILINE)[1:]:
        lines = piece.split("\n")
        kept = [lines[0], *(line.strip() for line in lines[1:] if line.startswith((" ", "\t")))]
        match = re.match(r"(\d{4}-\d\d-\d\d): ?", kept[0])
        text = "\n".join(kept)[match.end() if match else 0 :].strip()
        if text:
            yield Note(kind, safe(text), match[1] if match else "")


def _plain(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split()).rstrip(".")


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w+", unicodedata.normalize("NFKC", text).casefold()))
