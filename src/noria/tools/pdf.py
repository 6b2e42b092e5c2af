"""PDF documents as text, page by page, with `pypdf` where it is installed (the extra `noria[pdf]`).

Owns: which pages are read, in bounded time. Must not know: how a result is shown.
"""

from __future__ import annotations

import io
import time
from collections.abc import Callable

from noria.tools.result import ToolError

PAGES = 20  # pages of one result, at most
SECONDS = 10.0  # how long one result may take to make


def pages(data: bytes, shown: str, first: int, most: int, room: int, stopped: Callable[[], bool]) -> str:
    """The text of pages from number `first` on, at most `most`, and within `room` bytes, and where more is. Raises
    ToolError where the document cannot be read."""
    try:
        import logging

        from pypdf import PdfReader  # 60 ms: only for a PDF
        from pypdf.errors import PyPdfError
    except ImportError:
        raise ToolError(
            f"{shown} is a PDF document ({len(data):,} bytes), and noria cannot read those here: pip install "
            "'noria[pdf]' makes it. Until then: run_command (pdftotext, mutool), where the machine has them"
        ) from None
    logging.getLogger("pypdf").setLevel(logging.CRITICAL)  # what is odd in a document is nobody's news
    until = time.monotonic() + SECONDS
    try:
        reader = PdfReader(io.BytesIO(data))
        if reader.is_encrypted and not reader.decrypt(""):
            raise ToolError(f"{shown} is a PDF document that is locked with a password")
        total = len(reader.pages)
        if first > total:
            raise ToolError(f"{shown} has only {total:,} page{'s' * (total != 1)}: offset={first} is beyond its end")
        texts: list[str] = []
        last = first - 1
        while last < min(total, first - 1 + min(most, PAGES)) and not stopped():
            text = f"--- page {last + 1} ---\n{reader.pages[last].extract_text().strip() or '(no text on this page)'}"
            size = len(text.encode("utf-8", "replace")) + 1
            if texts and (size > room or time.monotonic() > until):
                break
            texts.append(text)
            room -= size
            last += 1
    except ToolError:
        raise
    except (PyPdfError, ValueError, TypeError, KeyError, IndexError, AttributeError, OSError, RecursionError) as error:
        # what a damaged document makes of its reader has no one name
        raise ToolError(f"{shown} is a PDF document that cannot be read: {type(error).__name__}: {error}") from None
    on = f"; go on with offset={last + 1}" if last < total else ""
    return "\n".join(texts) + f"\n[pages {first:,}-{last:,} of {total:,} (PDF){on}]"
