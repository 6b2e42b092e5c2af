"""Bytes as text and back without loss: byte order marks, UTF-8, and a guess for what is neither.

Owns: which encoding a file has. Must not know: files. The guess is `charset-normalizer`'s, imported only for bytes that
are no UTF-8, and it counts only where the text in that encoding gives exactly the same bytes again.
"""

from __future__ import annotations

from noria.core.content import Value

SNIFFED = 8 << 10  # bytes in which a NUL makes a file binary
SAMPLE = 32 << 10  # bytes of lines with other than ASCII that a guess is made from

_BOMS = (
    (b"\xef\xbb\xbf", "utf-8"),
    (b"\xff\xfe\0\0", "utf-32-le"),
    (b"\0\0\xfe\xff", "utf-32-be"),
    (b"\xff\xfe", "utf-16-le"),
    (b"\xfe\xff", "utf-16-be"),
)

# In the order in which they win where nothing tells them apart: how often files in them are met.
GUESSED = (
    "cp1252", "gb18030", "cp932", "euc_jp", "big5", "euc_kr", "cp1251", "koi8_r", "cp1250", "cp1253", "cp1254",
    "cp1255", "cp1256", "cp866",
)  # fmt: skip


class Decoded(Value, frozen=True):
    """A file's text, and what is needed to write it back as it was. `guessed`: nothing in the file says that this is
    its encoding. `escaped`: bytes that are no UTF-8 are in `text` as lone surrogates (`surrogateescape`). `foreign`:
    they are, and no encoding fits; else only some bytes of a UTF-8 text are damaged."""

    text: str
    encoding: str = "utf-8"
    bom: bytes = b""
    guessed: bool = False
    escaped: bool = False
    foreign: bool = False

    @property
    def crlf(self) -> bool:
        """Whether every line ends with CRLF."""
        ends = self.text.count("\n")
        return ends > 0 and self.text.count("\r\n") == ends

    @property
    def cr(self) -> bool:
        """Whether its lines end with CR alone, as they did on early Macs: there is no other line end in it."""
        return "\n" not in self.text and "\r" in self.text

    @property
    def note(self) -> str:
        """What a reader has to know of the encoding; empty for UTF-8."""
        if self.escaped:
            what = "not UTF-8: its other bytes are" if self.foreign else "UTF-8 with some bytes that are none: they are"
            return f"{what} shown as \ufffd, and are kept by edit_file and apply_patch"
        if self.guessed:
            return f"not UTF-8: taken for {self.encoding}, which is a guess"
        return "" if self.encoding == "utf-8" else f"{self.encoding.upper().replace('-LE', '').replace('-BE', '')} text"


def binary(data: bytes) -> bool:
    """Whether the beginning of a file says that it is no text: a NUL, and no byte order mark of UTF-16 or UTF-32."""
    return b"\0" in data[:SNIFFED] and not data.startswith((b"\xff\xfe", b"\xfe\xff", b"\0\0\xfe\xff"))


def decode(data: bytes, known: str = "") -> Decoded | None:
    """The text of a file, such that `encode` gives the same bytes again; None for what is no text. `known`: what the
    file was taken for before, so that an edit does not change the guess."""
    if binary(data):
        return None
    marked = False
    for bom, encoding in _BOMS:
        if data.startswith(bom):
            try:
                return Decoded(data[len(bom) :].decode(encoding), encoding, bom)
            except UnicodeDecodeError:
                marked = marked or encoding != "utf-8"
    if marked:
        return None
    try:
        return Decoded(data.decode("utf-8"))
    except UnicodeDecodeError:
        pass
    escaped = data.decode("utf-8", "surrogateescape")
    damaged = len(escaped) - len(escaped.encode("utf-8", "ignore").decode("utf-8"))
    if damaged < len(escaped) - damaged - len(escaped.encode("ascii", "ignore")):
        return Decoded(escaped, escaped=True)
    for encoding in filter(None, (known, _guess(data))):
        try:
            text = data.decode(encoding)
            if text.encode(encoding) == data:
                return Decoded(text, encoding, guessed=True)
        except UnicodeError:
            pass
    return Decoded(escaped, escaped=True, foreign=True)


def encode(text: str, like: Decoded) -> bytes:
    """The bytes of a text in the encoding of `like`. Raises UnicodeEncodeError where that has not its characters."""
    return like.bom + text.encode(like.encoding, "surrogateescape" if like.escaped else "strict")


def _guess(data: bytes) -> str:
    """The likeliest encoding of bytes that are no UTF-8; empty where none is likely."""
    import re

    sample = bytearray()
    for found in re.finditer(rb"[^\n]*[\x80-\xff][^\n]*\n?", data):
        sample += found.group()[: SAMPLE - len(sample)]
        if len(sample) >= SAMPLE:
            break
    if _western(bytes(sample)):
        return "cp1252"
    from charset_normalizer import from_bytes  # 21 ms and 6 MB: only for what is no UTF-8

    found = list(from_bytes(bytes(sample), cp_isolation=list(GUESSED), threshold=0.2))
    if not found:
        return ""
    least = min(match.chaos for match in found)
    names = {name for match in found if match.chaos <= least for name in match.could_be_from_charset}
    likely = [name for name in GUESSED if name in names]
    if "euc_jp" in likely and "gb18030" in likely:  # they share the kana, which only Japanese is written in
        kana = sum("\u3040" <= c <= "\u30ff" for c in bytes(sample).decode("euc_jp", "ignore"))
        likely.remove("gb18030" if kana else "euc_jp")
    return likely[0] if likely else ""


def _western(sample: bytes) -> bool:
    """Whether it looks like words with accents: single bytes beyond ASCII, at most three in a row, some of them beside
    a letter. The statistics have too little to go on in the few such words that a source file has."""
    import re

    runs = re.findall(rb"[\x80-\xff]+", sample)
    beside = re.search(rb"[A-Za-z][\xc0-\xff]|[\xc0-\xff][A-Za-z]", sample)
    return beside is not None and all(len(run) <= 3 and min(run) >= 0xA0 for run in runs)
