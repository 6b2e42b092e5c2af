"""The words of a command line: what each is once its quotes are removed, as far as that can be known.

Owns: quotes, escapes, and which of their kinds is left to be known when the line runs. Must not know: commands. What is
not understood for certain is no fixed word.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import msgspec

if TYPE_CHECKING:
    from tree_sitter import Node

_PATTERN = re.compile(r"(?<!\\)[*?\[{]|^~|(?<!\\)=~|:~")
_EMPTY_BRACES = re.compile(r"[\w./=:%+-]*\{\}[\w./=:%+-]*")
_IN_QUOTES = re.compile(r'\\([$`"\\\n])')


class Word(msgspec.Struct, frozen=True):
    """A word of a command after its quotes are removed. `fixed`: it is exactly `text` whatever happens; else `text` is
    the part before the first expansion, and what follows is known only when it runs. `pattern`: not fixed for nothing
    but file name patterns (`*`, `?`, `[`, `{`), so that it becomes names, or stays; then `raw` is the pattern, where
    nothing in it is quoted; so it is for what begins at home (`~/x`, "$HOME/x"), and `<()` for what a process
    substitution gives, which is no name of a file. `variable`: the one whose content stands between `text` and `after`,
    where nothing else is expanded. `quoted`: it stays one word, for all that is expanded stands in quotes."""

    text: str
    fixed: bool = True
    pattern: bool = False
    variable: str = ""
    raw: str = ""
    after: str = ""
    quoted: bool = False

    @property
    def alone(self) -> bool:
        """Whether it is a variable and nothing else."""
        return bool(self.variable) and not self.text and not self.after


class Piece(NamedTuple):
    """A part of a word: the text, whether it is exactly that, and if not whether it is a pattern of names, or which
    variable's content, and whether that is in quotes."""

    text: str
    fixed: bool = True
    pattern: bool = False
    variable: str = ""
    quoted: bool = False


class Words:
    """Reads the words of one line. `text`: all of it."""

    def __init__(self, text: bytes) -> None:
        self._text = text

    def word(self, node: Node) -> Word:
        """What a word is once its quotes are removed, as far as that can be known."""
        if node.type == "process_substitution":
            return Word("", fixed=False, raw="<()")
        pieces = list(self._pieces(node))
        odd = [n for n, piece in enumerate(pieces) if not piece.fixed]
        if not odd:
            return Word("".join(piece.text for piece in pieces))
        first = pieces[odd[0]]
        text, written = "".join(piece.text for piece in pieces[: odd[0]]), text_of(node)
        named = all(pieces[n].pattern for n in odd)
        raw = written if named and not re.search(r"[\\\"'$`]", written) else _at_home(written)
        quoted = all(pieces[n].quoted for n in odd)
        if len(odd) > 1 or not first.variable:
            return Word(text, False, named, raw=raw, quoted=quoted)
        after = "".join(piece.text for piece in pieces[odd[0] + 1 :])
        return Word(text, False, named, first.variable, raw, after, quoted)

    def _pieces(self, node: Node) -> Iterator[Piece]:
        """Its parts."""
        match node.type:
            case "raw_string":
                yield Piece(text_of(node)[1:-1])
            case "word" if text_of(node) in ("{", "}"):  # alone it expands to nothing
                yield Piece(text_of(node))
            case "word" | "number" | "test_operator" | "variable_name" | "extglob_pattern" | "regex":
                yield from _unquoted(text_of(node))
            case "string":
                yield from self._quoted(node)
            case "concatenation" if _EMPTY_BRACES.fullmatch(text_of(node)):  # they do not expand
                yield Piece(text_of(node))
            case "concatenation":
                # The tree takes braces apart; between parts that touch there is nothing else.
                if re.search(r"(?<!\\)[{]", self._bare(node)):
                    yield Piece("", False, not any(child.type in _EXPANDS for child in node.children))
                    return
                for child in node.children:
                    yield from self._pieces(child)
            case "ansi_c_string":
                yield _ansi(text_of(node)[2:-1])
            case _:
                yield Piece("", False, False, _variable(node))

    def _bare(self, node: Node) -> str:
        """A word's text without what stands in quotes or is expanded."""
        return "".join(text_of(child) for child in node.children if child.type in ("word", "number", "extglob_pattern"))

    def _quoted(self, node: Node) -> Iterator[Piece]:
        """The inside of double quotes. The tree leaves blanks between its parts out: the text's own bytes count."""
        at = node.start_byte + 1
        for child in node.named_children:
            if child.type == "string_content":
                continue
            yield Piece(_IN_QUOTES.sub(_kept, self._text[at : begin_of(child)].decode()))
            yield Piece("", False, False, _variable(child), True)
            at = child.end_byte
        yield Piece(_IN_QUOTES.sub(_kept, self._text[at : node.end_byte - 1].decode()))


def _kept(found: re.Match[str]) -> str:
    """What a backslash in double quotes leaves: the character; before a line's end nothing."""
    return "" if found.group(1) == "\n" else found.group(1)


def _unquoted(text: str) -> Iterator[Piece]:
    """A word outside quotes: backslashes keep the next character, patterns and `~` are expanded."""
    found = _PATTERN.search(text)
    plain = text[: found.start()] if found else text
    yield Piece(re.sub(r"\\(.)", lambda m: "" if m.group(1) == "\n" else m.group(1), plain, flags=re.DOTALL))
    if found:
        yield Piece("", False, found.group() in ("*", "?", "[", "{"))


def _ansi(text: str) -> Piece:
    """What `$'text'` is; not known for what is rarely written (control characters, bytes that are no text)."""
    if "\\" not in text:
        return Piece(text)
    try:
        return Piece(_ANSI.sub(_escaped, text))
    except (KeyError, ValueError):
        return Piece("", False)


def _escaped(found: re.Match[str]) -> str:
    octal, byte, short, long, plain = found.groups()
    if plain:
        return _ANSI_PLAIN[plain]
    code = int(octal, 8) if octal else int(byte or short or long, 16)
    if not 0 < code < (0x80 if octal or byte else 0x110000):
        raise ValueError(found.group())
    return chr(code)


_ANSI = re.compile(r"\\(?:([0-7]{1,3})|x([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{1,4})|U([0-9a-fA-F]{1,8})|(.))", re.DOTALL)
_ANSI_PLAIN = {
    **dict(zip("abefnrtv", "\a\b\x1b\f\n\r\t\v", strict=True)), "E": "\x1b", "\\": "\\", "'": "'", '"': '"', "?": "?",
}  # fmt: skip


def _at_home(text: str) -> str:
    """The text, where it is a path that begins at home and nothing else in it has to be known: as `~/x`."""
    found = re.fullmatch(r"(\"?\$(?:HOME|\{HOME\})\"?|~)((?:/[^\\\"'$`]*)?)\"?", text)
    return f"~{found.group(2)}" if found else ""


def _variable(node: Node) -> str:
    """The name, where it is the content of a variable as it is: `$f`, `${f}`."""
    found = re.fullmatch(r"\$(?:([A-Za-z_]\w*)|\{([A-Za-z_]\w*)\})", text_of(node)) if node.type in _PLAIN else None
    return (found.group(1) or found.group(2)) if found else ""


_EXPANDS = frozenset(("simple_expansion", "expansion", "command_substitution", "process_substitution", "string"))
_PLAIN = ("simple_expansion", "expansion")
_LED = frozenset((*_PLAIN, "command_substitution", "arithmetic_expansion"))


def begin_of(node: Node) -> int:
    """Where a node begins in the line's bytes: the grammar has blanks in one that follows another in quotes."""
    text = node.text or b""
    return node.start_byte + (len(text) - len(text.lstrip()) if node.type in _LED else 0)


def text_of(node: Node) -> str:
    """A node's text, without such blanks."""
    text = (node.text or b"").decode()
    return text.lstrip() if node.type in _LED else text
