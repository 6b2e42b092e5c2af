"""Server-sent events: bytes in any pieces become events.

Owns: lines and events (WHATWG HTML 9.2, read leniently), and which events only keep a connection open. Must not know:
what an event says, any dialect, any clock.
"""

from __future__ import annotations

from typing import NamedTuple

from noria.models.errors import TransportError

LONGEST = 32 << 20  # bytes of one line
KEEPS_OPEN = ("ping", "keepalive", "keep-alive", "keep_alive", "heartbeat")
"""The names of events that are as comments: Anthropic's `ping`, OpenAI's `keepalive`."""
BOM = b"\xef\xbb\xbf"
EMPTY = 100  # characters that such an event has at most


class Event(NamedTuple):
    """One event: its `data` lines joined by line ends, and its `name` (empty where the server gave none)."""

    data: str
    name: str = ""

    @property
    def keeps_open(self) -> bool:
        """Whether it is as a comment: it says nothing but that the connection stands."""
        if self.name in KEEPS_OPEN:
            return True
        if len(self.data) > EMPTY or self.name:
            return False
        says = self.data.replace(" ", "")
        if '"type":"' not in says:
            return says in ("", "{}", '{"choices":[]}')
        return says.partition('"type":"')[2].partition('"')[0] in KEEPS_OPEN


class Parser:
    """Feed it bytes, cut anywhere; it gives the events that are whole.

    Line ends are LF, CRLF or CR; a byte order mark, comments, unknown fields and blanks before a field are skipped;
    a blank after the colon is optional. A line of bare JSON is data, and `error: DATA` an event of that name. A byte
    that is not UTF-8 becomes one U+FFFD. Events without data are dropped. Where no blank line parts two events, the
    second object ends the first, and `[DONE]` ends itself: they are not waited for until the body's end.
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
        self._grown = 0  # bytes of its lines but the first
        self._name = b""
        self._next = b""  # a name that came after data: this event's, or the next one's

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
        marks = self._first and piece in BOM
        if (self._held[0] if self._held else piece)[:1] != b":" and not piece.isspace() and not marks:
            self.alive += 1
        self._held.append(piece)
        self._size += len(piece)
        if self._size > LONGEST:
            raise TransportError("bad_request", f"the server sent a line longer than {LONGEST:,} bytes")

    def _take(self, lines: list[bytes]) -> list[Event]:
        events: list[Event] = []
        if self._first and lines:
            self._first = False
            lines[0] = lines[0].removeprefix(BOM)
        for line in lines:
            if not line:
                if self._data:
                    self._name = self._next or self._name
                    events.append(self._event())
                self._name = self._next = b""
            elif line[:5] == b"data:":
                self._add(line[6:] if line[5:6] == b" " else line[5:], events)
            elif line[:1] != b":":
                self._field(line, events)
        return events

    def _add(self, data: bytes, events: list[Event]) -> None:
        """A line of data. After another one it is more of the same event, unless a whole object stands there, and
        another frame begins."""
        if self._data:
            if self._data[-1].rstrip()[-1:] == b"}" and (data[:1] == b"{" or data[:6] == b"[DONE]"):
                events.append(self._event())
                self._name, self._next = self._next, b""
            self._grown += len(data)
            if self._grown > LONGEST:
                raise TransportError("bad_request", f"the server sent an event longer than {LONGEST:,} bytes")
        self._data.append(data)
        self.alive += 1
        if data[:6] == b"[DONE]":
            events.append(self._event())

    def _field(self, line: bytes, events: list[Event]) -> None:
        name, _, value = line.lstrip(b" \t").partition(b":")
        if name == b"data":
            self._add(value.removeprefix(b" "), events)
        elif name[:1] == b"{":  # JSON without a field's name: how Ollama says that it failed
            self._add(line, events)
        elif name == b"error":  # llama.cpp's
            self._add(value.removeprefix(b" "), events)
            self._name = name
        elif name == b"event" and self._data:
            self._next = value.strip()
        elif name == b"event":
            self._name = value.strip()

    def _event(self) -> Event:
        self._grown = 0
        data = self._data[0] if len(self._data) == 1 else b"\n".join(self._data)
        self._data.clear()
        return Event(data.decode("utf-8", "replace"), self._name.decode("utf-8", "replace") if self._name else "")
