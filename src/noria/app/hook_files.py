"""The scripts that a hook's command names: which of them are bound to their content, and in which words they speak.

Owns: finding and reading them. Must not know: how a hook is run, what a tool is called (guard/hook_names.py).
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from noria.guard import hook_names

if TYPE_CHECKING:
    from noria.app.settings import HookEntry

SCRIPTS = (".sh", ".bash", ".zsh", ".py", ".js", ".mjs", ".cjs", ".ts", ".rb", ".pl", ".php", ".lua", ".awk", ".jq")
LONGEST = 1 << 18  # bytes of a script that are looked at
FOLDERS = ("CLAUDE_PROJECT_DIR", "NORIA_PROJECT_DIR")


def looked_in(path: str, folders: Iterable[str]) -> str:
    """The PATH of hooks: what lies in the folders that commands write comes last, so that a `python3` that one of them
    puts there is not run outside of the sandbox. Relative entries, which mean the workspace, are left out."""
    entries = [entry for entry in path.split(os.pathsep) if os.path.isabs(entry)]
    real = [os.path.realpath(folder).rstrip("/") + "/" for folder in folders]
    within = [entry for entry in entries if (os.path.realpath(entry) + "/").startswith(tuple(real))]
    return os.pathsep.join([*(entry for entry in entries if entry not in within), *within])


def scripts(command: str, root: str, path: str = "") -> dict[str, str]:
    """The scripts of the workspace that a hook's command names, with their digests, and the programs that it finds
    there by `path` (the hook's PATH). A hook runs outside of the sandbox: what the model writes into its script in the
    meantime is not run. (Other files may be its logs.)"""
    from noria.app.trust import named_files

    def is_script(path: str) -> bool:
        with suppress(OSError), open(path, "rb") as file:
            return path.endswith(SCRIPTS) or os.access(path, os.X_OK) or file.read(2) == b"#!"
        return False

    found = {path: digest(path) for path in named_files(command, root) if is_script(path)}
    for word in {word for word in re.findall(r"[\w.+-]+", command) if path}:
        program = shutil.which(word, path=path)
        if program and os.path.realpath(os.path.dirname(program)).startswith(f"{root.rstrip('/')}/"):
            found[program] = digest(program)
    return found


def digest(path: str) -> str:
    """The digest of a file's content; empty where it cannot be read."""
    from hashlib import sha256

    try:
        with open(path, "rb") as file:
            return sha256(file.read()).hexdigest()
    except OSError:
        return ""


def speaks_common(entry: HookEntry, root: str) -> bool:
    """Whether the command of a hook, or a script that it names, wherever that lies, knows tools by the names that
    Claude Code made common, and not by noria's."""
    if not entry.command:
        return False
    texts = [entry.command, *(_text(path) for path in _named(entry.command, root))]
    return hook_names.speaks_common("\n".join(texts))


def _named(command: str, root: str) -> Iterator[str]:
    """The files that a command names, by their paths."""
    import shlex

    for folder in FOLDERS:
        command = command.replace(f"${{{folder}}}", root).replace(f"${folder}", root)
    try:
        words = shlex.split(command, comments=False)
    except ValueError:
        words = command.split()
    for word in words:
        path = os.path.join(root, os.path.expanduser(os.path.expandvars(word)))
        if "\0" not in path and os.path.isfile(path):
            yield path


def _text(path: str) -> str:
    """A script; empty for what is no text."""
    try:
        with open(path, "rb") as file:
            data = file.read(LONGEST)
    except OSError:
        return ""
    return "" if b"\0" in data else data.decode("utf-8", "replace")
