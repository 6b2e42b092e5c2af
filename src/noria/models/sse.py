"""Server-sent events: bytes in any pieces become events.

Owns: lines and events (WHATWG HTML 9.2, read leniently). Must not know: JSON, any dialect, any clock.
"""

from __future__ import annotations

from typing import NamedTuple

from noria.models.errors import TransportError

LONGEST = 32 << 20  # bytes of one line


class Event(NamedTuple):
    """One event: its `data` lines joined by line ends, and its `name` (empty where the server gave none)."""

    data: str
    name: str = ""


class Parser:
    """Feed it bytes, cut anywhere; it gives the events that are whole.

    Line ends are LF, CRLF or CR; a byte order mark, comments, unknown fields and blanks before a field are skipped;
    a blank after the colon is optional. A line of bare JSON is data, and `error: DATA` an event of that name. A byte
    that is not UTF-8 becomes one U+FFFD. Events without data are dropped.
    `alive` counts the data lines, and the pieces of lines that are no comments and not blank, so that a caller can
    tell a server that works from one that only keeps the connection open.
    """

    def __init__(self) -> None:
        self.alive = 0
        self._held: list[bytes] = []  # the pieces of a line whose end has not come
        self._size = 0
        self._after_cr = False
        self._first = True
        self._data: list[bytes] = []
        self._name = b""

    def feed(self, chunk: bytes) -> list[Event]:
        """The events that end in these bytes. Raises TransportError (bad_request) for a line without an end."""
        if b"\r" in chunk or self._after_cr:
            if self._after_cr and chunk.startswith(b"\n"):
                chunk = chunk[1:]
                self._after_cr = False
            if not chunk:
                return []
            self._after_cr = chunk.endswith(b"\r")
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        if b"\n" not in chunk:
            self._hold(chunk)
            return []
        if self._held:
            self._held.append(chunk)
            chunk = b"".join(self._held)
            self._held.clear()
        *lines, rest = chunk.split(b"\n")
        self._size = 0
        if rest:
            self._hold(rest)
        return self._take(lines)

    def close(self) -> list[Event]:
        """The event that the end of the body ended: a last line needs no line end, a last event no blank line."""
        last = b"".join(self._held)
        self._held.clear()
        return self._take([last, b""] if last else [b""])

    def _hold(self, piece: bytes) -> None:
        if not piece:
            return
        if (self._held[0] if self._held else piece)[:1] != b":" and not piece.isspace():
            self.alive += 1
        self._held.append(piece)
        self._size += len(piece)
        if self._size > LONGEST:
            raise TransportError("bad_request", f"the server sent a line longer than {LONGEST:,} bytes")

    def _take(self, lines: list[bytes]) -> list[Event]:
        events: list[Event] = []
        if self._first and lines:
            self._first = False
            lines[0] = lines[0].removeprefix(b"\xef\xbb\xbf")
        for line in lines:
            if not line:
                if self._data:
                    events.append(self._event())
                self._name = b""
            elif line[:5] == b"data:":
                self._data.append(line[6:] if line[5:6] == b" " else line[5:])
                self.alive += 1
            elif line[:1] != b":":
                self._field(line)
        return events

    def _field(self, line: bytes) -> None:
        name, _, value = line.lstrip(b" \t").partition(b":")
        if name[:1] == b"{":  # JSON without a field's name: how Ollama says that it failed
            self._data.append(line)
            self.alive += 1
        elif name == b"error":  # llama.cpp's
            self._name = name
            self._data.append(value.removeprefix(b" "))
            self.alive += 1
        elif name == b"data":
            self._data.append(value.removeprefix(b" "))
            self.alive += 1
        elif name == b"event":
            self._name = value.strip()

    def _event(self) -> Event:
        data = self._data[0] if len(self._data) == 1 else b"\n".join(self._data)
        self._data.clear()
        return Event(data.decode("utf-8", "replace"), self._name.decode("utf-8", "replace") if self._name else "")
