"""What scripts in languages of their own (of python, awk, sed, make) may run, as far as that is seen from outside.

Owns: the looks that their programs' words need. Must not know: rules, modes, how such a script works.
"""

from __future__ import annotations

import re
from itertools import pairwise

import msgspec

from noria.guard.args import Arg
from noria.guard.command import Word
from noria.guard.ran import NOTHING, Runs, Script, parts_of
from noria.guard.reading import reads_only

SCRIPTED = re.compile(r"python[\d.]*|pypy3?|node|deno|bun|perl|ruby|php|lua\w*|tclsh|Rscript|osascript|ed|ex")
"""What runs a script in a language of its own."""
STARTS = re.compile(
    r"system|popen|proc_open|passthru|exec|spawn|subprocess|open\b[^;]*\||child_process|pty\.|unlink|rmtree|remove|delete"
    r"|shell|rmSync|`|%x|^!|[<' \n]!",
    re.IGNORECASE,
)
"""Signs in such a script that it starts programs, or takes files away."""
TOLD = frozenset((
    "tar", "gtar", "bsdtar", "rsync", "scp", "sftp", "zip", "vim", "vi", "ex", "view", "nvim", "less", "more", "man",
    "make", "gmake", "cpio", "split", "emacs", "mutt", "gcc", "cc",
))  # fmt: skip
"""What has options that name programs to be run."""
_GIVES_SCRIPT = re.compile(r"-[a-zA-Z]*[cerpE]|--(?:eval|print|run)(?:=.*)?", re.DOTALL)
_NO_FILE = re.compile(r"-|/dev/(?:stdin|fd/\d+)|/proc/self/fd/\d+")
_SED_RUNS = re.compile(
    r"(?:^|[\s;{}!$/|#,:\dI])e(?:\s|$)|(?:^|[;{}!$/\dI]|\n)[ \t]*e[^\s=]|[/|#,:@!]\w*e\w*\s*(?:$|[;}\n])"
)
_SED_TEXT = re.compile(r"(?m)((?:^|[;{}!$\d/])[ \t]*)[aic](?:[ \t]+|\\)[^\n]*")
"""What `a`, `i` and `c` put there: text."""
_SED_FILE = re.compile(r"-\w*f.*|--file.*", re.DOTALL)
_SED_GIVEN = re.compile(r"-[nErsuz]*e(.*)|--expr\w*(?:=(.*))?", re.DOTALL)
_AWK = re.compile(r"\bsystem\s*\(|\|\s*getline|\|\s*\"|\|&|\"\s*\|")


def told(words: tuple[Word, ...]) -> Runs:
    """Programs with options that name others: whatever stands in a word with a blank, behind `=`, `!` or a colon."""
    found = [part for w in words[1:] if " " in w.text for part in parts_of(w.text)]
    hidden = words[0].text.endswith("make") and hidden_file(words, r"-\w*f|--(?:make)?file(?:=.*)?")
    return Runs(
        scripts=tuple(Script(text, True) for text in found), unknown="the file that make reads" if hidden else ""
    )


def hidden_file(words: tuple[Word, ...], option: str) -> bool:
    """Whether an option names a file with a script that is known only when it runs: what comes on the input, say."""
    for word, after in pairwise((*words, Word("x"))):
        if re.fullmatch(option, word.text):
            told = msgspec.structs.replace(word, text=word.text.partition("=")[2]) if "=" in word.text else after
            if not told.fixed or _NO_FILE.fullmatch(told.text):
                return True
    return False


def scripted(name: str, words: tuple[Word, ...]) -> Runs:
    """What a script in the words starts, of which no more is known."""
    starts = any(STARTS.search(w.text) for w in words[1:] if not re.fullmatch(r"[\w./:=+-]*", w.text))
    hidden = any(
        _GIVES_SCRIPT.fullmatch(w.text) and not (after.fixed and w.fixed) for w, after in pairwise((*words, Word("x")))
    )
    return Runs(unknown=f"what the script of {name} starts") if starts or hidden else NOTHING


def reads_script(words: tuple[Word, ...]) -> bool:
    """Whether a script of a language of its own comes on its input."""
    name = words[0].text.rpartition("/")[2] if words and words[0].fixed else ""
    if not SCRIPTED.fullmatch(name):
        return False
    if name in ("ed", "ex"):
        return True
    for word in words[1:]:
        if _NO_FILE.fullmatch(word.text):
            return True
        if not word.text.startswith("-") or re.fullmatch(
            r"-[a-zA-Z]*[cemrpEVvh]|--?(?:eval|print|version|help).*", word.text
        ):
            return False
    return True


def sed(words: tuple[Word, ...]) -> Runs:
    """`e` runs what stands behind it, or the line that was read."""
    args = [Arg(w.text) if w.fixed else Arg(w.text, "name") for w in words[1:]]
    plain = [a for a in args if not re.match(r"-[nErsuz]*i|--in-place", a.text)]
    if reads_only("sed", plain):
        return NOTHING
    scripts = _sed_scripts(words)
    if not any(_SED_FILE.fullmatch(a.text) for a in args) and not any(
        _SED_RUNS.search(_SED_TEXT.sub(r"\1", script)) for script in scripts
    ):
        return NOTHING
    texts = [t for script in scripts for t in re.findall(r"e[ \t]*([^\n]+)", script)]
    return Runs(scripts=tuple(Script(t, True) for t in texts), unknown="the commands that the sed script runs")


def _sed_scripts(words: tuple[Word, ...]) -> list[str]:
    """Its scripts: what options give, or else the first word that is none."""
    given: list[str] = []
    first: list[str] = []
    for word, after in pairwise((*words[1:], Word(""))):
        if found := _SED_GIVEN.fullmatch(word.text):
            given.append(found.group(1) or found.group(2) or after.text)
        elif not word.text.startswith("-"):
            first.append(word.text)
    return given or first[:1]


def awk(words: tuple[Word, ...]) -> Runs:
    if hidden_file(words, r"-\w*f|--file(?:=.*)?|-E"):
        return Runs(unknown="the program that awk reads")
    if any(not w.fixed or _AWK.search(w.text) for w in words[1:2]) or any(_AWK.search(w.text) for w in words[1:]):
        texts = [t for w in words[1:] for t in re.findall(r'"((?:[^"\\]|\\.)*)"', w.text)]
        return Runs(scripts=tuple(Script(t, True) for t in texts), unknown="the commands that the awk program runs")
    return NOTHING
