"""Whether git, asked to show something in a folder, would run a program that the repository itself names.

Owns: finding the repository of a folder, reading its configuration. Must not know: commands. The user's own
configuration is the user's; the repository's came with it. What cannot be read may name anything.
"""

from __future__ import annotations

import os
import re

LARGEST = 1 << 18  # bytes of a configuration that is looked at
LARGEST_INDEX = 1 << 26  # and of an index

# What makes git run a program, or look elsewhere: `section.key`, the subsection left out.
_RUNS = frozenset((
    "core.fsmonitor", "core.pager", "core.sshcommand", "core.editor", "core.askpass", "core.gitproxy", "core.worktree",
    "core.alternaterefscommand", "core.hookspath", "diff.external", "diff.command", "diff.textconv", "filter.clean",
    "filter.smudge", "filter.process", "include.path", "includeif.path", "interactive.difffilter", "gpg.program",
    "remote.promisor", "extensions.partialclone", "extensions.worktreeconfig", "log.showsignature",
))  # fmt: skip
# The same for what no command that shows things asks for: helpers, drivers, and places where commands are looked up.
_RUNS_TOO = frozenset((
    "browser.cmd", "browser.path", "credential.helper", "difftool.cmd", "difftool.path", "gpg.defaultkeycommand",
    "guitool.cmd", "hook.command", "init.templatedir", "instaweb.browser", "instaweb.httpd", "man.cmd", "man.path",
    "merge.driver", "mergetool.cmd", "mergetool.path", "protocol.allow", "remote.proxy", "remote.receivepack",
    "remote.uploadpack", "remote.vcs", "sendemail.cccmd", "sendemail.headercmd", "sendemail.sendmailcmd",
    "sendemail.smtpserver", "sendemail.tocmd", "sequence.editor", "submodule.update", "tar.command", "trailer.cmd",
    "trailer.command", "uploadpack.packobjectshook", "web.browser",
))  # fmt: skip
_HOOKS = ("post-index-change", "fsmonitor-watchman")
"""What is run where the index is written, which `status` and `diff` do when files look changed."""
_SECTION = re.compile(r'\[\s*([\w.-]+)(?:\s+"(?:[^"\\]|\\.)*")?\s*\]')
_OFF = re.compile(r"\s*=\s*(false|no|off|0|)\s*$", re.IGNORECASE)


def runs_nothing(folder: str) -> bool:
    """Whether showing things of the repository that the folder (a real path) is in runs none of its programs. True
    where it is in none."""
    while True:
        place = os.path.join(folder, ".git")
        if os.path.lexists(place):
            return _quiet(place) and not os.path.lexists(os.path.join(folder, ".gitmodules"))
        if all(os.path.lexists(os.path.join(folder, name)) for name in ("HEAD", "objects", "refs")):
            return False  # a bare one, which may be part of the work tree
        above = os.path.dirname(folder)
        if above == folder:
            return True
        folder = above


def chooses_toolchain(folder: str) -> bool:
    """Whether a file of the folder, or of one above, says which toolchain rustup runs: it may name one of its own."""
    while True:
        if any(os.path.lexists(os.path.join(folder, name)) for name in ("rust-toolchain", "rust-toolchain.toml")):
            return True
        above = os.path.dirname(folder)
        if above == folder:
            return False
        folder = above


def _quiet(place: str) -> bool:
    try:
        if not os.path.isdir(place):
            with open(place, encoding="utf-8") as file:
                place = os.path.join(os.path.dirname(place), file.read(4096).partition("gitdir:")[2].strip())
            if _has_others(os.path.join(place, "index")):
                return False
            with open(os.path.join(place, "commondir"), encoding="utf-8") as file:  # a work tree of another one
                place = os.path.join(place, file.read(4096).strip())
        with open(os.path.join(place, "config"), "rb") as file:
            text = file.read(LARGEST + 1)
    except (OSError, UnicodeDecodeError, ValueError):
        return False
    if len(text) > LARGEST or _has_others(os.path.join(place, "index")):
        return False
    if any(os.path.lexists(os.path.join(place, "hooks", name)) for name in _HOOKS):
        return False
    return not any(_runs(line) for line in keys(text.decode("utf-8", "replace")))


def _has_others(index: str) -> bool:
    """Whether other repositories are part of it (submodules, whether .gitmodules says so or not): git looks into them,
    and they have a configuration of their own. It is seen by the mode of their entries. Raises OSError."""
    try:
        found = os.stat(index)
    except FileNotFoundError:
        return False
    key = (index, found.st_mtime_ns, found.st_size)
    known = _OTHERS.get(index)
    if known is None or known[0] != key:
        known = _OTHERS[index] = (key, found.st_size > LARGEST_INDEX or _gitlinks(index))
    return known[1]


def _gitlinks(index: str) -> bool:
    with open(index, "rb") as file:
        data = file.read(LARGEST_INDEX)
    at = data.find(_GITLINK)
    while at >= 0:
        if data[at - 12 : at - 8] not in _FILES:  # there it is the size of a file, behind its mode
            return True
        at = data.find(_GITLINK, at + 1)
    return False


_GITLINK = b"\0\0\xe0\0"
_FILES = (b"\0\0\x81\xa4", b"\0\0\x81\xed", b"\0\0\xa0\0")
_OTHERS: dict[str, tuple[tuple[str, int, int], bool]] = {}  # what was found in an index, by its place


def keys(text: str) -> list[str]:
    """The lines of a configuration, as `section.key = value`; subsections are left out."""
    found: list[str] = []
    section = ""
    for line in text.replace("\\\n", " ").splitlines():
        line = line.strip()
        while match := _SECTION.match(line):  # a key may stand behind its section
            section = match.group(1).lower().partition(".")[0]
            line = line[match.end() :].strip()
        if line and line[0] not in "#;":
            found.append(f"{section}.{line}")
    return found


def values(text: str, *names: str) -> list[str]:
    """What a configuration says for these keys (`core.worktree`), as git reads it: quotes and escapes are resolved, a
    comment behind a value is none of it."""
    lines = (line.partition("=") for line in keys(text.replace("\\\n", "")))
    return [_value(rest) for key, _, rest in lines if key.strip().lower() in names]


def _value(written: str) -> str:
    found, quoted, escaped, end = "", False, False, 0
    for c in written.lstrip():
        if escaped:
            found += {"n": "\n", "t": "\t", "b": "\b"}.get(c, c)
        elif c == '"':
            quoted = not quoted
        elif c in "#;" and not quoted:
            break
        elif c != "\\":
            found += c
        escaped = c == "\\" and not escaped
        end = len(found) if quoted or not c.isspace() else end
    return found[:end]


def names_program(key: str) -> bool:
    """Whether the value of a setting (`diff.x.textconv`) is a program that git runs, or a place where one is named."""
    section, _, name = key.lower().partition(".")
    plain = f"{section}.{name.rpartition('.')[2]}"
    return plain in _RUNS or plain in _RUNS_TOO or section in ("pager", "alias")


def _runs(line: str) -> bool:
    key = re.split(r"[\s=]", line, maxsplit=1)[0].lower()
    return key in _RUNS and not _OFF.match(line[len(key) :])
