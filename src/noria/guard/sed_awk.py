"""Which scripts of sed, and programs of awk, certainly run, write and read nothing of their own.

Owns: that. Must not know: options, files. What is not understood is not certain.
"""

from __future__ import annotations

import re

# Regular expressions of sed: in brackets the mark that ends one is not understood alike by all, and so not here.
_SED_ADDRESS = r"(?:\d+(?:~\d+)?|\$|/(?:[^/\\\n\[]|\\[^\n]|\[\^?\]?[^\]/\n]*\])*/I?)"
_SED_SIDE = r"(?:(?!\1)[^\\\n\[]|\\[^\n]|\[\^?\]?(?:(?!\1)[^\]\n])*\])*"
_SED_PART = re.compile(
    rf"[\s{{}}]*(?:{_SED_ADDRESS}(?:,(?:{_SED_ADDRESS}|\+\d+))?\s*!?\s*)?"
    rf"(?:[pdqQnNhHgGxDPl=]\d*|s([/|#,:@!]){_SED_SIDE}\1(?:(?!\1)[^\\\n]|\\[^\n])*\1[gpiImM0-9]*"
    r"|y/(?:[^/\\\n]|\\[^\n])*/(?:[^/\\\n]|\\[^\n])*/|(?=[{}]))[\s}]*"
)
_AWK_RUNS = re.compile(r"@|system|getline|close|fflush|ENVIRON|ARG[VC]|\|&")
_AWK_TEXT = re.compile(r'"(?:[^"\\\n]|\\.)*"')


def sed_script(script: str) -> bool:
    """Whether a script prints, deletes and replaces, and nothing else."""
    at = 0
    while at < len(script):
        found = _SED_PART.match(script, at)
        if found is None or found.end() == at:
            return False
        at = found.end()
        if at < len(script):
            if script[at] == ";":
                at += 1
            elif script[at] != "{" and script[at - 1] not in "\n{}":
                return False
    return True


def awk_program(text: str) -> bool:
    """Whether it runs, writes and asks for nothing. `>` compares where nothing is printed before it, and a single `|`
    is of a regular expression or a text; what is a regular expression, and what is in one, is not looked for."""
    if _AWK_RUNS.search(text):
        return False
    plain = text if re.search("[/#]", text) else _AWK_TEXT.sub("0", text)
    if "|" in plain.partition("print")[2].replace("||", ""):
        return False
    if ">" not in text:
        return True
    if "#" in text or ("/" in text and '"' in text):
        return False
    parts = [text] if "/" in text else re.split(r"[;{}]", _AWK_TEXT.sub("0", text))
    return not any(-1 < part.find("print") < part.rfind(">") for part in parts)
