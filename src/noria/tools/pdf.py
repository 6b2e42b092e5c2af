"""PDF documents: their pages as text, or as a document of their own where the model reads those, with `pypdf` where it
is installed (the extra `noria[pdf]`).

Owns: which pages are read, in bounded time. Must not know: how a result is shown, or which model takes what.
"""

from __future__ import annotations

import io
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from noria.tools.result import Picture, ToolError

if TYPE_CHECKING:
    from pypdf import PageObject, PdfReader

PAGES = 20  # pages of one result, at most
SCANS = 5  # pages of one result that are pictures, at most
DOCUMENT = 10  # pages of one result that is a document: a model reads each of them as text and as an image
TOKENS = 2_000  # what such a page counts until a provider reports better (Claude docs, PDF support: 1,500 to 3,000)
LARGEST = 10 << 20  # bytes of a document that is sent
UNSPLIT = 100  # pages of a document that is sent as it is, at most: what the providers take
SECONDS = 10.0  # how long one result may take to make
TYPE = "application/pdf"


def pages(
    data: bytes, shown: str, first: int, most: int, room: int, stopped: Callable[[], bool]
) -> str | Sequence[str | Picture]:
    """The text of pages from number `first` on, at most `most`, and within `room` bytes, and where more is. A page that
    was scanned, so that it has no text, follows as a picture. Raises ToolError where the document cannot be read."""
    until = time.monotonic() + SECONDS
    with _opened(data, shown, first) as reader:
        total = len(reader.pages)
        texts: list[str] = []
        scans: list[str | Picture] = []
        last = first - 1
        while last < min(total, first - 1 + min(most, PAGES)) and not stopped():
            page = reader.pages[last]
            scan = None if (text := page.extract_text().strip()) else _scan(page)
            if scan is not None and len(scans) == 2 * SCANS:
                break
            text = f"--- page {last + 1} ---\n{text or ('(a picture, below)' if scan else '(no text on this page)')}"
            size = len(text.encode("utf-8", "replace")) + 1
            if texts and (size > room or time.monotonic() > until):
                break
            texts.append(text)
            scans += [f"\npage {last + 1}:", scan] if scan is not None else []
            room -= size
            last += 1
    told = "\n".join(texts) + f"\n{_where(first, last, total, 'PDF')}"
    return [told, *scans] if scans else told


def _scan(page: PageObject) -> Picture | None:
    from noria.tools.scanned import picture  # few pages are

    try:
        found = picture(page)
    except Exception:  # noqa: BLE001 - what a damaged picture makes of its reader has no one name: it is left out
        return None
    return Picture(*found) if found is not None else None


def document(data: bytes, shown: str, first: int, most: int) -> Sequence[str | Picture] | None:
    """The same pages as a document, at most DOCUMENT, with a line that says which; None where they cannot be sent so
    (too large). Without the library a document is sent whole, or not at all. Raises ToolError as `pages` does."""
    try:
        import pypdf  # noqa: F401 - 60 ms: only for a PDF
    except ImportError:
        count = data.count(b"/Type /Page") + data.count(b"/Type/Page")  # with those of the tree: never too few
        ended = b"%%EOF" in data[-1024:] and b"/Encrypt" not in data
        if first > 1 or not ended or count > UNSPLIT or len(data) > LARGEST:
            return None
        return [f"[{shown}: a PDF document of {len(data):,} bytes]", Picture(data, TYPE, TOKENS * max(count, 1))]
    with _opened(data, shown, first) as reader:
        total = len(reader.pages)
        count = min(total - first + 1, most, DOCUMENT)
        part = data
        while count and (count < total or reader.is_encrypted or len(part) > LARGEST):
            part = _cut(reader, first, count)
            if len(part) <= LARGEST:
                break
            count //= 2
        if not count:
            return None
    where = _where(first, first + count - 1, total, f"{shown}, PDF document")
    return [where, Picture(part, TYPE, TOKENS * count)]


def _cut(reader: PdfReader, first: int, count: int) -> bytes:
    """A document of these pages alone."""
    from pypdf import PdfWriter

    writer = PdfWriter()
    for number in range(first - 1, first - 1 + count):
        writer.add_page(reader.pages[number])
    out = io.BytesIO()
    writer.write(out)
    return out.getvalue()


@contextmanager
def _opened(data: bytes, shown: str, first: int) -> Iterator[PdfReader]:
    """The document, which has a page of that number. Raises ToolError, also for what goes wrong while it is read."""
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
    try:
        reader = PdfReader(io.BytesIO(data))
        if reader.is_encrypted and not reader.decrypt(""):
            raise ToolError(f"{shown} is a PDF document that is locked with a password")
        total = len(reader.pages)
        if first > total:
            raise ToolError(f"{shown} has only {total:,} page{'s' * (total != 1)}: offset={first} is beyond its end")
        yield reader
    except ToolError:
        raise
    except (PyPdfError, ValueError, TypeError, KeyError, IndexError, AttributeError, OSError, RecursionError) as error:
        # what a damaged document makes of its reader has no one name
        raise ToolError(f"{shown} is a PDF document that cannot be read: {type(error).__name__}: {error}") from None


def _where(first: int, last: int, total: int, what: str) -> str:
    on = f"; go on with offset={last + 1}" if last < total else ""
    return f"[pages {first:,}-{last:,} of {total:,} ({what}){on}]"
