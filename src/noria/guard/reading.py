"""The commands that only read, known by their options: a table, and a few whose arguments need a look of their own.

Owns: those. Must not know: how a line is parsed, folders and paths. A command or an option that is not here is not
known to only read. Sources: each tool's manual (GNU coreutils 9, findutils, git 2.50, ripgrep 14, fd 10, jq 1.7).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from noria.guard.args import Arg, Bad, fixed
from noria.guard.command import Simple, Word

Check = Callable[[Sequence[Arg]], bool]


# Every option and every argument of these only reads.
_ANY = frozenset((
    "cat", "head", "tail", "ls", "pwd", "realpath", "readlink", "stat", "df", "cut",
    "nl", "tac", "rev", "comm", "cmp", "bc",
    "sum", "id", "whoami", "groups", "uname", "arch", "nproc", "printenv",
    "which", "type", "uptime", "free", "ps", "pgrep", "fold", "fmt", "expand", "unexpand", "paste", "join", "od",
    "hexdump", "strings", "column", "zcat", "tty", "base64", "base32", "getconf", "locale", "factor", "numfmt",
    "tsort", "pathchk", "logname", "users", "who", "lscpu", "lsblk",
))  # fmt: skip

# What these are given is not opened, or only looked for: it may be anything.
_FREE = frozenset((
    "echo", "true", "false", ":", "sleep", "command -v", "exit", "basename", "dirname", "tr", "seq", "expr",
))  # fmt: skip

_BAD: dict[str, Bad] = {
    **dict.fromkeys(("grep", "egrep", "fgrep"), Bad(("dereference-recursive",), "R")),
    **dict.fromkeys(
        ("md5sum", "sha1sum", "sha224sum", "sha256sum", "sha384sum", "sha512sum", "b2sum", "cksum"),
        Bad(("check",), "c", loose=True),
    ),
    "wc": Bad(("files0-from",), loose=True),
    "du": Bad(("files0-from", "dereference", "dereference-args"), "LDH", loose=True),
    "shuf": Bad(("output",), "o"),
    "sort": Bad(("output", "temporary-directory", "compress-program", "files0-from"), "oT"),
    "uniq": Bad(operands=1),
    "tree": Bad(("output",), "oRl"),
    "file": Bad(("compile", "magic-file", "preserve-date", "uncompress"), "CmpzZ"),
    "rg": Bad(("pre", "pre-glob", "hostname-bin", "search-zip", "follow"), "zL"),
    "fd": Bad(("exec", "exec-batch", "follow"), "xXL"),
    "fdfind": Bad(("exec", "exec-batch", "follow"), "xXL"),
}

# Not those that a file of the project can make another program: yarn and pnpm, nor pytest, which loads conftest.py.
_VERSIONS = frozenset((
    "python", "python3", "pip", "pip3", "node", "npm", "npx", "cargo", "rustc", "go", "gcc", "g++",
    "clang", "cc", "make", "cmake", "java", "javac", "ruby", "perl", "php", "bash", "git", "docker", "uv", "ruff",
    "tsc",
))  # fmt: skip


def reads_only(name: str, args: Sequence[Arg]) -> bool:
    """Whether the command, with these arguments, certainly only reads."""
    name = _plain(name)
    if name in _VERSIONS and len(args) == 1 and args[0] in (Arg("--version"), Arg("-V"), Arg("-v"), Arg("version")):
        return args[0].text in ("--version", "-V") or name in ("node", "npm", "go")
    if name in _FREE:
        return True
    if name in _ANY:
        return all(a.kind != "unknown" for a in args)
    if check := _CHECKS.get(name):
        return check(args)
    bad = _BAD.get(name)
    return bad is not None and bad.allows(args)


def known(name: str) -> bool:
    """Whether it is a command that reads, in some form at least."""
    return name in _ANY or name in _FREE or name in _BAD or name in _CHECKS


def _plain(name: str) -> str:
    """A command's name: one that is given by its place in the system's own folders is the same."""
    folder, slash, last = name.rpartition("/")
    return last if slash and folder in ("/bin", "/usr/bin") else name


# -- those whose arguments need a look ---------------------------------------------------------------------------


def _test(args: Sequence[Arg]) -> bool:
    """`-v` and `-R` take a name with a subscript, in which commands may stand; what is not known may be that."""
    return all(a.kind in ("fixed", "name") and a.text not in ("-v", "-R") for a in args)


def _printf(args: Sequence[Arg]) -> bool:
    """`-v` sets a variable, and so does `%n`."""
    if not args or args[0].kind != "fixed" or args[0].text.startswith("-"):
        return False
    return not re.search(r"%[^a-zA-Z]*n", args[0].text.replace("%%", ""))


def _date(args: Sequence[Arg]) -> bool:
    texts = fixed(args)
    if texts is None:
        return False
    quiet = re.compile(
        r"\+.*|-[uR]+|-I(?:date|hours|minutes|seconds|ns)?|--(utc|universal|rfc-email|iso-8601(=\w+)?|rfc-3339=\w+|date=.*)",
        re.DOTALL,
    )
    plain = [t for n, t in enumerate(texts) if t != "-d" and (not n or texts[n - 1] != "-d")]
    return all(quiet.fullmatch(t) for t in plain)


def _diff(args: Sequence[Arg]) -> bool:
    """Of folders and all that is below them it follows links, wherever they lead, unless it is told not to."""
    return Bad(("recursive",), "r").allows(args) or (
        Arg("--no-dereference") in args and all(a.kind != "unknown" for a in args)
    )


def _hostname(args: Sequence[Arg]) -> bool:
    return all(a.kind == "fixed" and re.fullmatch(r"-[fisdIA]+", a.text) for a in args)


def _find(args: Sequence[Arg]) -> bool:
    """Options of `find` are whole words, and the same everywhere. `-exec` with a command that only reads is one."""
    texts = [a.text if a.kind == "fixed" else None for a in args]
    at = 0
    while at < len(texts):
        text = texts[at]
        if text is None:
            if args[at].kind != "name":
                return False
        elif text in ("-exec", "-execdir"):
            end = next((n for n in range(at, len(texts)) if texts[n] in (";", "+")), 0)
            inner = [_found(a) for a in args[at + 1 : end]]
            if text == "-execdir" or not inner or inner[0].kind != "fixed" or not reads_only(inner[0].text, inner[1:]):
                return False
            at = end
        elif re.match(r"-(exec|ok|delete|fprint|fls|files0|follow)|-L$|-H$", text):
            return False
        at += 1
    return True


def _found(arg: Arg) -> Arg:
    """An argument in which find puts a name: alone it is one; within a word it may be of an option, or elsewhere."""
    if arg.kind != "fixed" or "{}" not in arg.text:
        return arg
    return Arg("", "name" if arg.text == "{}" else "unknown")


def _sed(args: Sequence[Arg]) -> bool:
    """With scripts of printing, deleting and replacing alone: no `w`, `e`, `r`, no option that writes."""
    scripts: list[str] = []
    bare, told = list[str](), False  # the first word is the script, where no option gives one
    at = 0
    while at < len(args):
        arg = args[at]
        at += 1
        if arg.kind in ("unknown", "pattern"):
            return False
        if arg.kind == "name":
            if not (told or bare):
                return False
        elif found := re.fullmatch(r"-[nErsuz]*e(.*)|--expression=(.*)", arg.text, re.DOTALL):
            script = found.group(1) or found.group(2)
            if not script:
                if at >= len(args) or args[at].kind != "fixed":
                    return False
                script, at = args[at].text, at + 1
            scripts.append(script)
            told = True
        elif arg.text.startswith("-") and not re.fullmatch(r"-[nErsuz]+|--(quiet|silent|regexp-extended)", arg.text):
            return False
        elif not arg.text.startswith("-"):
            bare.append(arg.text)
    if not told and bare:
        scripts.append(bare[0])
    from noria.guard.sed_awk import sed_script

    return bool(scripts) and all(map(sed_script, scripts))


def _xxd(args: Sequence[Arg]) -> bool:
    """A second name is written to."""
    texts, operands = fixed(args), 0
    while texts:
        text = texts.pop(0)
        if text in ("-c", "-g", "-l", "-o", "-s", "-cols", "-len", "-seek"):
            texts = texts[1:]
        elif not text.startswith("-") or text == "-":
            operands += 1
        elif not re.fullmatch(r"-[abeiuEpC]|-[cglos]-?\w+|-(ps|plain|postscript|bits|include|upper)", text):
            return False
    return texts is not None and operands <= 1


def _read(args: Sequence[Arg]) -> bool:
    """Into variables of the line's own, from its input."""
    texts = fixed(args)
    if texts is None:
        return False
    while texts and texts[0].startswith("-"):
        option = texts.pop(0)
        if option in ("-d", "-n", "-N", "-p", "-t"):
            if not texts:
                return False
            texts.pop(0)
        elif not re.fullmatch(r"-[rs]+", option):
            return False
    return all(re.fullmatch(r"[a-z_][a-z0-9_]*", t) for t in texts)


def _awk(args: Sequence[Arg]) -> bool:
    """With the program as an argument, in which nothing is run, written or asked for. `-F` and `-v` only."""
    rest = list(args)
    while rest and rest[0].kind == "fixed" and rest[0].text.startswith("-"):
        option = rest.pop(0).text
        if option in ("-F", "-v"):
            if not rest or rest.pop(0).kind != "fixed":
                return False
        elif not re.fullmatch(r"-F.+|-v\w+=.*", option):
            return False
    from noria.guard.sed_awk import awk_program

    if not rest or rest[0].kind != "fixed" or not awk_program(rest[0].text):
        return False
    return all(a.kind in ("fixed", "name") and not a.text.startswith("-") for a in rest[1:])


def _git(args: Sequence[Arg]) -> bool:
    from noria.guard.git_reads import git_reads  # a table of its own

    return git_reads(args)


def _pip(args: Sequence[Arg]) -> bool:
    texts = fixed(args)
    return bool(texts) and texts[0] in ("list", "show", "freeze", "check") and all(
        not t.startswith("-") or t in ("-f", "--files", "--outdated") for t in texts[1:]
    )  # fmt: skip


def _yq(args: Sequence[Arg]) -> bool:
    loads = any(re.search(r"\bload|\bsystem\b", a.text) for a in args)  # operators that read files, and run programs
    bad = Bad(("inplace", "in-place", "split-exp", "split-exp-file", "from-file", "library-path"), "isfL")
    return not loads and _told(args) and bad.allows(args)


def _jq(args: Sequence[Arg]) -> bool:
    """Its programs read modules, wherever they say that these are."""
    if any(a.kind == "unknown" or re.search(r"\b(?:import|include)\b", a.text) for a in args):
        return False
    return _told(args) and Bad(("from-file", "library-path"), "fL", loose=True).allows(args)


def _told(args: Sequence[Arg]) -> bool:
    """Whether the first word that is no option, the program, is known."""
    first = next((a for a in args if a.kind != "fixed" or not a.text.startswith("-")), None)
    return first is None or first.kind == "fixed"


def _tar(args: Sequence[Arg]) -> bool:
    """Listing alone, of a file here (one with a colon in its name is fetched from another machine)."""
    if not args or args[0].kind != "fixed" or not re.fullmatch(r"-?[tvzjJ]*t[tvzjJ]*f", args[0].text):
        return False
    return all(
        a.kind == "name" or (a.kind == "fixed" and not a.text.startswith("-") and ":" not in a.text) for a in args[1:]
    )


def _set(args: Sequence[Arg]) -> bool:
    """How the shell goes on, no more: `set -euo pipefail`."""
    texts = fixed(args)
    while texts:
        if not (found := re.fullmatch(r"[-+][efuvx]*(o?)", texts.pop(0))):
            return False
        if found.group(1) and not (texts and texts.pop(0) in _SET):
            return False
    return texts is not None


_SET = ("pipefail", "errexit", "nounset", "noglob", "xtrace", "verbose")


_CHECKS: dict[str, Check] = {
    "test": _test,
    "[": _test,
    "printf": _printf,
    "date": _date,
    "diff": _diff,
    "hostname": _hostname,
    "find": _find,
    "sed": _sed,
    "awk": _awk,
    "gawk": _awk,
    "mawk": _awk,
    "git": _git,
    "pip": _pip,
    "pip3": _pip,
    "jq": _jq,
    "yq": _yq,
    "tar": _tar,
    "set": _set,
    "xxd": _xxd,
    "read": _read,
    "env": lambda args: not args,
    "unzip": lambda args: args[:1] in ([Arg("-l")], [Arg("-Z1")]) and len(args) == 2 and args[1].kind != "unknown",
}


# -- commands that run a command ---------------------------------------------------------------------------------


def unwrapped(command: Simple) -> Simple:
    """The command that a wrapper runs (`timeout 5 nice ls` runs `ls`), where the wrapper's own arguments are plain;
    else the command as it is. A wrapper alone is no command that only reads."""
    words = command.words
    while words and words[0].fixed:
        inner = _inner(words)
        if inner is None:
            break
        words = inner
    return Simple(words, command.assigned, command.at)


def _inner(words: tuple[Word, ...]) -> tuple[Word, ...] | None:
    texts = [w.text if w.fixed else None for w in words]
    at = 1
    match _plain(texts[0] or ""):
        case "time":
            at += texts[1:2] == ["-p"]
        case "command" if texts[1:2] in (["-v"], ["-V"]):
            return (Word("command -v"), *words[2:])
        case "command":
            pass
        case "nice":
            if texts[1:2] == ["-n"]:
                at += 2
            elif texts[1:2] and re.fullmatch(r"-n?-?\d+|--adjustment=-?\d+", texts[1] or ""):
                at += 1
        case "timeout":
            while at < len(texts) and re.fullmatch(r"-[kvs]\w*|--[\w-]+(=\w+)?", texts[at] or ""):
                at += 2 if texts[at] in ("-k", "-s") else 1
            if at >= len(texts) or not re.fullmatch(r"[\d.]+[smhd]?", texts[at] or ""):
                return None
            at += 1
        case "env":
            while at < len(texts) and (found := re.fullmatch(r"(\w+)=.*", texts[at] or "", re.DOTALL)):
                if found.group(1) not in ("LC_ALL", "LANG", "TZ", "NO_COLOR", "TERM"):
                    return None
                at += 1
        case "stdbuf":
            while at < len(texts) and re.fullmatch(r"-[ioe][L0\d]\w*", texts[at] or ""):
                at += 1
        case _:
            return None
    if at >= len(words) or (texts[at] or "-").startswith("-"):
        return None
    return words[at:]
