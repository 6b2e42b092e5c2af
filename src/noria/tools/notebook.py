"""Jupyter notebooks: their cells as text, and new sources put into the file with every other byte left as it is.

Owns: where in the JSON text the sources stand, and how one is written. Must not know: files, or what is to be changed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import msgspec

from noria.tools.result import clean

OUTPUT = 2_000  # characters of one output that are shown

Span: TypeAlias = tuple[int, int]

_decode = json.JSONDecoder(strict=False).raw_decode


class Cell(msgspec.Struct, frozen=True):
    """One cell. `span`: where its source stands in the notebook's text, as a JSON string or list of strings."""

    kind: str
    source: str
    span: Span
    outputs: tuple[Any, ...] = ()


def cells(text: str) -> list[Cell]:
    """The cells of a notebook, in order; none where the text is no notebook of format 4."""
    try:
        found: list[Cell] = []
        for name, at in _members(text, _blank(text, 0)):
            if name == "cells":
                found = [_cell(text, start) for start in _items(text, at)]
        return found
    except (ValueError, IndexError, RecursionError, TypeError):  # no JSON, or not of this form
        return []


def render(found: list[Cell]) -> str:
    """The cells as a model reads them: each below a line with its number and kind, its outputs as text."""
    parts: list[str] = []
    for number, cell in enumerate(found, 1):
        parts.append(f"--- cell {number} ({cell.kind}) ---\n{cell.source}")
        parts += (f"--- output of cell {number} ---\n{_output(each)}" for each in cell.outputs)
    return "\n".join(part.rstrip("\n") for part in parts) + "\n"


def with_sources(text: str, change: Callable[[list[str]], tuple[list[str], int]]) -> tuple[str, int]:
    """The notebook's text with the sources that `change` makes of the cells' sources, and what else that returns."""
    found = cells(text)
    sources, done = change([cell.source for cell in found])
    plain = text.isascii() and "\\u" in text  # whoever wrote it escapes what is beyond ASCII
    pieces: list[str] = []
    at = 0
    for cell, source in zip(found, sources, strict=True):
        if source != cell.source:
            start, end = cell.span
            pieces += (text[at:start], _written(text, cell, source, plain=plain))
            at = end
    pieces.append(text[at:])
    return "".join(pieces), done


# -- the JSON text -----------------------------------------------------------------------------------------------


def _blank(text: str, at: int) -> int:
    """The first place at or after `at` that is no white space."""
    while text[at] in " \t\r\n":
        at += 1
    return at


def _members(text: str, at: int) -> Iterator[tuple[str, int]]:
    """The names in the object that begins at `at`, each with the place of its value. Raises ValueError."""
    if text[at] != "{":
        raise ValueError
    at = _blank(text, at + 1)
    while text[at] != "}":
        name, at = _decode(text, at)
        at = _blank(text, at)
        if text[at] != ":":
            raise ValueError
        at = _blank(text, at + 1)
        yield name, at
        _, at = _decode(text, at)
        at = _after_comma(text, at, "}")


def _items(text: str, at: int) -> Iterator[int]:
    """The places of the values in the list that begins at `at`. Raises ValueError."""
    if text[at] != "[":
        raise ValueError
    at = _blank(text, at + 1)
    while text[at] != "]":
        yield at
        _, at = _decode(text, at)
        at = _after_comma(text, at, "]")


def _after_comma(text: str, at: int, end: str) -> int:
    at = _blank(text, at)
    if text[at] == ",":
        return _blank(text, at + 1)
    if text[at] != end:
        raise ValueError
    return at


def _cell(text: str, at: int) -> Cell:
    kind, source, span = "raw", "", (0, 0)
    outputs: tuple[Any, ...] = ()
    for name, start in _members(text, at):
        if name not in ("cell_type", "source", "outputs"):
            continue
        value, end = _decode(text, start)
        match name, value:
            case "cell_type", str():
                kind = value
            case "outputs", list():
                outputs = tuple(value)
            case "source", str() | list():
                source, span = _joined(value), (start, end)
            case _:
                raise ValueError
    if span == (0, 0):
        raise ValueError
    return Cell(kind, source, span, outputs)


def _joined(value: Any) -> str:
    return value if isinstance(value, str) else "".join(value) if isinstance(value, list) else ""


def _written(text: str, cell: Cell, source: str, *, plain: bool) -> str:
    """A new source as JSON, in the form that the old one has; lines that it keeps are kept as they were written.
    `plain`: what is beyond ASCII is escaped."""
    start, end = cell.span
    if text[start] != "[":
        return json.dumps(source, ensure_ascii=plain)
    spans = [(at, _decode(text, at)[1]) for at in _items(text, start)]
    old = [text[a:b] for a, b in spans]
    new = [json.dumps(line, ensure_ascii=plain) for line in source.splitlines(keepends=True)]
    if "\r" in source or any(c in source for c in "\v\f\x1c\x1d\x1e\x85\u2028\u2029"):  # no line ends in a notebook
        lines = source.split("\n")
        new = [json.dumps(line + "\n", ensure_ascii=plain) for line in lines[:-1]]
        new += [json.dumps(lines[-1], ensure_ascii=plain)] if lines[-1] else []
    same: dict[Any, list[str]] = {}
    for literal in old:
        same.setdefault(_decode(literal, 0)[0], []).append(literal)
    new = [kept.pop(0) if (kept := same.get(_decode(literal, 0)[0])) else literal for literal in new]
    if not spans:
        indent = text[text.rfind("\n", 0, start) + 1 : start]
        indent = "\n" + indent[: len(indent) - len(indent.lstrip())] if "\n" in text else ""
        opening, closing = (f"{indent} " if indent else ""), indent
    else:
        opening, closing = text[start + 1 : spans[0][0]], text[spans[-1][1] : end - 1]
    between = text[spans[0][1] : spans[1][0]] if len(spans) > 1 else f",{opening or ' '}"
    return f"[{opening}{between.join(new)}{closing}]" if new else "[]"


# -- outputs -----------------------------------------------------------------------------------------------------


def _output(output: Any) -> str:
    """An output as text: what was printed, an error, or the text of a value; images are only named."""
    if not isinstance(output, dict):
        return "(an output of an unknown form)"
    data = output.get("data")
    if isinstance(data, dict):
        others = [kind for kind in data if kind != "text/plain" and not kind.startswith("text/")]
        named = "".join(f"\n({kind}, not shown)" for kind in others)
        return (_short(_joined(data.get("text/plain", ""))) + named).lstrip("\n")
    if output.get("output_type") == "error":
        return _short("\n".join(map(str, output.get("traceback") or (output.get("evalue", ""),))))
    return _short(_joined(output.get("text", "")))


def _short(text: str) -> str:
    text = clean(text.encode("utf-8", "replace"))
    if len(text) <= OUTPUT:
        return text
    return f"{text[: OUTPUT // 2]}\n[... {len(text) - OUTPUT:,} characters left out ...]\n{text[-OUTPUT // 2 :]}"
