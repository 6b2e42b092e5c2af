"""The patterns of rules: of commands (`git log *`), of paths (as .gitignore has them), of hosts and of tools' names.

Owns: compiling and matching these. Must not know: rules, tools, how a command line is parsed. A pattern that cannot be
compiled is a ValueError with its reason.
"""

from __future__ import annotations

import os
import re
from functools import lru_cache

import msgspec

LONGEST = 2_000  # characters of a pattern
STARS = 20  # of one pattern
UNKNOWN = "\0"
"""Stands in a command's text for what is known only when it runs; no pattern but `*` matches it."""


class CommandPattern(msgspec.Struct, frozen=True):
    """A command pattern: `*` is any run of characters, `\\*` the character. `literal`: the text before the first `*`.
    `whole`: it has no `*`, so that it is exactly `literal`."""

    pieces: tuple[str, ...]

    @property
    def literal(self) -> str:
        """What every command that fits begins with."""
        return self.pieces[0]

    @property
    def whole(self) -> bool:
        """Whether only one text fits."""
        return len(self.pieces) == 1

    def fits(self, text: str) -> bool:
        """Whether the text fits whatever its unknown parts turn out to be. `git *` fits `git` as well."""
        return _command_regex(self.pieces).fullmatch(text) is not None

    def might_fit(self, text: str) -> bool:
        """Whether it fits for some content of the unknown parts."""
        if UNKNOWN not in text:
            return self.fits(text)
        if self.pieces[-1] == "" and len(self.pieces) > 1 and self.pieces[-2].endswith(" "):
            bare = (*self.pieces[:-2], self.pieces[-2][:-1])
            return _meet(self.pieces, text.split(UNKNOWN)) or _meet(bare, text.split(UNKNOWN))
        return _meet(self.pieces, text.split(UNKNOWN))


def command_pattern(text: str) -> CommandPattern:
    """Raises ValueError."""
    pieces, at = [""], 0
    if len(text) > LONGEST * 10:
        raise ValueError("it is too long")
    while at < len(text):
        if text[at] == "\\" and text[at + 1 : at + 2] in ("*", "\\"):
            pieces[-1] += text[at + 1]
            at += 1
        elif text[at] == "*":
            if pieces[-1] or len(pieces) == 1:
                pieces.append("")
        else:
            pieces[-1] += text[at]
        at += 1
    if len(pieces) > STARS:
        raise ValueError(f"it has more than {STARS - 1} times *")
    return CommandPattern(tuple(pieces))


def escaped(text: str) -> str:
    """The command pattern that fits exactly this text."""
    return re.sub(r"([\\*])", r"\\\1", text)


@lru_cache(maxsize=512)
def _command_regex(pieces: tuple[str, ...]) -> re.Pattern[str]:
    if len(pieces) == 1:
        return re.compile(re.escape(pieces[0]), re.DOTALL)
    first, *middle, last = pieces
    if last == "" and (middle[-1] if middle else first).endswith(" "):
        if middle:
            middle[-1] = middle[-1][:-1]
        else:
            first = first[:-1]
        tail = "(?: .*)?"
    else:
        tail = f".*{re.escape(last)}"
    return re.compile(re.escape(first) + "".join(f"(?>.*?{re.escape(p)})" for p in middle if p) + tail, re.DOTALL)


def _meet(ours: tuple[str, ...], theirs: list[str]) -> bool:
    """Whether two patterns, each the pieces between its stars, have a text in common: their fixed ends have to agree,
    and where one has no star in it, it has to fit the other."""
    if len(ours) == 1 and len(theirs) == 1:
        return ours[0] == theirs[0]
    if len(ours) == 1:
        return _star_regex(tuple(theirs)).fullmatch(ours[0]) is not None
    if len(theirs) == 1:
        return _star_regex(ours).fullmatch(theirs[0]) is not None
    heads, tails = sorted((ours[0], theirs[0]), key=len), sorted((ours[-1], theirs[-1]), key=len)
    return heads[1].startswith(heads[0]) and tails[1].endswith(tails[0])


@lru_cache(maxsize=256)
def _star_regex(pieces: tuple[str, ...]) -> re.Pattern[str]:
    first, *middle, last = pieces
    inner = "".join(f"(?>.*?{re.escape(p)})" for p in middle if p)
    return re.compile(f"{re.escape(first)}{inner}.*{re.escape(last)}", re.DOTALL)


# -- paths -------------------------------------------------------------------------------------------------------


class PathPattern(msgspec.Struct, frozen=True):
    """A .gitignore pattern: relative to the workspace, or absolute (`/x`, `~/x`). What is below a folder that fits
    fits as well. `prefix`: the folders that it begins with and that have nothing to be matched."""

    text: str
    absolute: bool
    prefix: str
    regex: str
    only_folders: bool

    def fits(self, path: str, root: str, place: str | None = None) -> bool:
        """Whether the real path `path` fits, in the workspace with the real path `root`. `place`: what `place` gives,
        where that is known already."""
        base = "/" if self.absolute else root.rstrip("/") + "/"
        if path.startswith(base) and self._named(path[len(base) :], path):
            return True
        if not self.prefix:  # what it names may be a link: then it means what that leads to
            return False
        real = self.place(root) if place is None else place
        if real == base + self.prefix or not (path == real or path.startswith(real.rstrip("/") + "/")):
            return False
        return self._named(self.prefix + path[len(real) :], path)

    def place(self, root: str) -> str:
        """The real path of the folders, or the file, that it begins with; blank where it begins with none."""
        return os.path.realpath(os.path.join("/" if self.absolute else root, self.prefix)) if self.prefix else ""

    def _named(self, relative: str, path: str) -> bool:
        if _compiled(f"(?:{self.regex})/.*").fullmatch(relative) is not None:  # below what fits
            return True
        return _compiled(self.regex).fullmatch(relative) is not None and (not self.only_folders or os.path.isdir(path))


def path_pattern(text: str, home: str = "") -> PathPattern:
    """Raises ValueError. `home`: what `~` is."""
    if len(text) > LONGEST or text.count("*") > STARS:
        raise ValueError("it is too long, or has too many *")
    if text.startswith("!"):
        raise ValueError("a rule has no ! before its path: what is left out is said by a rule of its own")
    if not text.isprintable():
        raise ValueError("it has characters that cannot be shown")
    plain = text
    if text.startswith("~/") or text == "~":
        plain = (home or os.path.expanduser("~")).rstrip("/") + text[1:]
    absolute = plain.startswith("/")
    plain = plain.removeprefix("./").removeprefix("/")
    only_folders = plain.endswith("/") and not plain.endswith("\\/")
    names = [n for n in plain.split("/") if n not in ("", ".")]
    if ".." in names:
        raise ValueError("a rule's path has no ..: name the folder from / or ~")
    if not names:
        names = ["**"]
    anchored = absolute or "/" in plain.rstrip("/") or text.startswith("./")
    body = "" if anchored else "(?:.*/)?"
    for place, name in enumerate(names, 1):
        last = place == len(names)
        if name == "**":
            body += ".+" if last else "(?:.*/)?"
        else:
            body += _name(name) + ("" if last else "/")
    prefix = _prefix(names) if anchored else ""
    if names[-1] == "**" and not absolute and len(names) == 1:
        body = ".*"
    _compiled(body)
    return PathPattern(text, absolute, prefix, body, only_folders)


def _prefix(names: list[str]) -> str:
    plain: list[str] = []
    for name in names:
        if any(c in name for c in "*?[\\"):
            break
        plain.append(name)
    return "/".join(plain)


def escaped_path(path: str) -> str:
    """The path pattern that fits exactly this path (and what is below it)."""
    return re.sub(r"([\\*?\[\]])", r"\\\1", path)


@lru_cache(maxsize=512)
def _compiled(regex: str) -> re.Pattern[str]:
    try:
        return re.compile(regex, re.DOTALL)
    except re.error as error:
        raise ValueError(f"it is no pattern: {error}") from None


def _name(pattern: str) -> str:
    out, at = "", 0
    while at < len(pattern):
        letter = pattern[at]
        at += 1
        if letter == "*":
            while pattern[at : at + 1] == "*":
                at += 1
            out += "[^/]*"
        elif letter == "?":
            out += "[^/]"
        elif letter == "[":
            found, at = _set(pattern, at)
            out += found
        elif letter == "\\" and at < len(pattern):
            out += re.escape(pattern[at])
            at += 1
        else:
            out += re.escape(letter)
    return out


_CLASSES = {
    "alnum": "0-9A-Za-z", "alpha": "A-Za-z", "blank": r" \t", "cntrl": r"\x00-\x1f\x7f", "digit": "0-9",
    "graph": "!-~", "lower": "a-z", "print": " -~", "punct": r"!-/:-@\[-`{-~", "space": r"\s", "upper": "A-Z",
    "xdigit": "0-9A-Fa-f",
}  # fmt: skip


def _set(pattern: str, at: int) -> tuple[str, int]:
    """What stands in brackets, from behind the first on, as an expression, and where it ends. As git has it: a `]` that
    comes first, and what is behind a backslash, is a character; so is a `-` at an end."""
    negated = pattern[at : at + 1] in ("!", "^")
    begin = at = at + negated
    parts: list[str] = []
    while pattern[at : at + 1] != "]" or at == begin:
        if (found := re.compile(r"\[:([^\]]*):\]").match(pattern, at)) is not None:
            if found.group(1) not in _CLASSES:
                raise ValueError(f"there is no {found.group()}: there are {', '.join(_CLASSES)}")
            parts.append(_CLASSES[found.group(1)])
            at = found.end()
            continue
        first, at = _letter(pattern, at)
        if pattern[at : at + 1] == "-" and pattern[at + 1 : at + 2] not in ("]", ""):
            last, at = _letter(pattern, at + 1)
            if first > last:
                raise ValueError(f"it is no pattern: in {first}-{last} the end comes first")
            parts.append(f"{re.escape(first)}-{re.escape(last)}")
        else:
            parts.append(re.escape(first))
    return f"(?!/)[{'^' if negated else ''}{''.join(parts)}]", at + 1


def _letter(pattern: str, at: int) -> tuple[str, int]:
    at += pattern[at : at + 1] == "\\"
    if at >= len(pattern):
        raise ValueError("the [ is never closed: write [abc], or \\[ for the character")
    return pattern[at], at + 1


# -- hosts and names ---------------------------------------------------------------------------------------------

_HOST = re.compile(r"(\*\.)?([a-z0-9_]([a-z0-9_-]*[a-z0-9_])?\.)*[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?|\[?[0-9a-f:.]+\]?|\*")


def host_pattern(text: str) -> str:
    """A host as rules have it: `docs.python.org`, `*.example.com` (every host below it), an address, `*`. Raises
    ValueError."""
    plain = text.strip().lower().removesuffix(".")
    try:
        plain = plain.encode("ascii").decode() if plain.isascii() else plain.encode("idna").decode()
    except UnicodeError:
        raise ValueError("it is no host") from None
    if not _HOST.fullmatch(plain):
        raise ValueError("it is no host: write docs.python.org or *.example.com, without https:// and without a path")
    return plain.strip("[]")


def host_fits(pattern: str, host: str) -> bool:
    """Whether the host (in small letters, no dot at its end) fits."""
    if pattern == "*":
        return True
    if pattern.startswith("*."):
        return host.endswith(pattern[1:])
    return host == pattern


def name_fits(pattern: str, name: str) -> bool:
    """Whether a tool's name fits `mcp__server__*`."""
    return pattern == name or (
        "*" in pattern and _command_regex(command_pattern(pattern).pieces).fullmatch(name) is not None
    )
