"""Writes what a model is told of noria's tools: `python -m tests.tools.shelf > src/noria/tools/shelf.json`."""

from __future__ import annotations

import sys

import msgspec

from noria.tools.registry import loaded
from noria.tools.shelf import entry_of


def document() -> str:
    """The text of shelf.json."""
    return "[\n" + ",\n".join(msgspec.json.encode(entry_of(tool)).decode() for tool in loaded()) + "\n]\n"


if __name__ == "__main__":
    sys.stdout.write(document())
