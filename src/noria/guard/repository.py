"""Whether git, asked to show something in a folder, would run a program that the repository itself names.

Owns: finding the repository of a folder, reading its configuration. Must not know: commands. The user's own
configuration is the user's; the repository's came with it. What cannot be read may name anything.
"""

from __future__ import annotations

import os
import re

LARGEST = 1 << 18  # bytes of a configuration that is looked at

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


def _quiet(place: str) -> bool:
    try:
        if not os.path.isdir(place):
            with open(place, encoding="utf-8") as file:
                place = os.path.join(os.path.dirname(place), file.read(4096).partition("gitdir:")[2].strip())
            with open(os.path.join(place, "commondir"), encoding="utf-8") as file:  # a work tree of another one
                place = os.path.join(place, file.read(4096).strip())
        with open(os.path.join(place, "config"), "rb") as file:
            text = file.read(LARGEST + 1)
    except (OSError, UnicodeDecodeError, ValueError):
        return False
    return len(text) <= LARGEST and not any(_runs(line) for line in _keys(text.decode("utf-8", "replace")))


def _keys(text: str) -> list[str]:
    """Its lines, as `section.key = value`."""
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


def names_program(key: str) -> bool:
    """Whether the value of a setting (`diff.x.textconv`) is a program that git runs, or a place where one is named."""
    section, _, name = key.lower().partition(".")
    plain = f"{section}.{name.rpartition('.')[2]}"
    return plain in _RUNS or plain in _RUNS_TOO or section in ("pager", "alias")


def _runs(line: str) -> bool:
    key = re.split(r"[\s=]", line, maxsplit=1)[0].lower()
    return key in _RUNS and not _OFF.match(line[len(key) :])
