"""Whether a change broke a file that could be parsed before: a note for the model, never a refusal.

Owns: which languages are checked, and how. Each parser is imported only for a file of its language.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

CHECKED = 200_000  # characters of a text that is parsed: Python takes 0.1 s for them, and nothing else runs meanwhile

_ALONE = threading.Lock()  # the filter of warnings is the whole program's


def broke(name: str, before: str | None, after: str) -> str:
    """A note where `after` cannot be parsed and `before` (None: there was nothing) could; else empty. Of a shell script
    only where there was one before: its grammar does not know all that bash takes."""
    check = _CHECKS.get(name.rpartition(".")[2].lower()) if "." in name else None
    if check is _shell and before is None:
        return ""
    if check is None or len(after) > CHECKED or not after.strip():
        return ""
    wrong = _said(check, after, "")
    if not wrong or (before is not None and before.strip() and (len(before) > CHECKED or _said(check, before, "?"))):
        return ""
    now = "does not parse" if before is None else "no longer parses"
    return f"{name} {now}: {wrong}"


def _said(check: Callable[[str], str], text: str, otherwise: str) -> str:
    """What is wrong with the text; `otherwise` where the parser itself fails: what it cannot take says nothing."""
    try:
        return check(text)
    except Exception:  # noqa: BLE001 - parsers are others' code, and the file is written already: a note is not worth it
        return otherwise


def _python(text: str) -> str:
    import ast
    import sys
    import warnings

    try:
        with _ALONE, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(text)
    except SyntaxError as error:
        where = f"line {error.lineno}: " if error.lineno else ""
        return f"{where}{error.msg} (as Python {sys.version_info.major}.{sys.version_info.minor} reads it)"
    return ""


def _json(text: str) -> str:
    import json

    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        commented = any(line.lstrip().startswith(("//", "/*")) for line in text.splitlines())
        return "" if commented else f"line {error.lineno}: {error.msg}"  # with comments it is another language
    return ""


def _toml(text: str) -> str:
    import tomllib

    try:
        tomllib.loads(text.replace("\r\n", "\n"))
    except tomllib.TOMLDecodeError as error:
        return str(error)
    return ""


def _yaml(text: str) -> str:
    try:
        import yaml  # type: ignore[import-not-found, import-untyped, unused-ignore]  # where the user has it
    except ImportError:
        return ""
    try:
        for _ in yaml.compose_all(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
            pass
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        said = getattr(error, "problem", None) or "invalid YAML"
        return f"line {mark.line + 1}: {said}" if mark is not None else str(said)
    return ""


def _shell(text: str) -> str:
    try:
        import tree_sitter_bash  # 10 ms, with the parser: only for a script
        from tree_sitter import Language, Parser
    except ImportError:
        return ""
    node = Parser(Language(tree_sitter_bash.language())).parse(text.encode()).root_node
    if not node.has_error:
        return ""
    while inner := next((child for child in node.children if child.has_error), None):
        node = inner
    return f"from line {node.start_point[0] + 1} on something is missing or out of place"


_CHECKS: dict[str, Callable[[str], str]] = {
    "py": _python,
    "pyi": _python,
    "json": _json,
    "ipynb": _json,
    "toml": _toml,
    "sh": _shell,
    "bash": _shell,
    "yaml": _yaml,
    "yml": _yaml,
}
