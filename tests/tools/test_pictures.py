"""Images are shown as images where they are whole; PDF documents as the text of their pages, or as documents."""

from __future__ import annotations

import io
import sys
import zlib
from pathlib import Path
from typing import Any

import pytest

from noria.core.content import Image, Result, Text
from noria.tools import pdf
from noria.tools.picture import look
from tests.tools.helpers import Bench


def png(width: int = 3, height: int = 2) -> bytes:
    def chunk(name: bytes, data: bytes) -> bytes:
        return len(data).to_bytes(4, "big") + name + data + zlib.crc32(name + data).to_bytes(4, "big")

    size = width.to_bytes(4, "big") + height.to_bytes(4, "big")
    rows = zlib.compress(b"".join(b"\0" + b"\xff\0\0" * width for _ in range(height)))
    body = chunk(b"IHDR", size + b"\x08\x02\0\0\0") + chunk(b"IDAT", rows) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body


JPEG = (
    b"\xff\xd8\xff\xe0\0\x10JFIF\0\1\1\0\0\1\0\1\0\0" b"\xff\xc0\0\x0b\x08\0\x05\0\x07\1\1\x11\0"
    b"\xff\xda\0\x08\1\1\0\0\x3f\0" b"\x12\x34\xff\xd9"
)  # fmt: skip
GIF = b"GIF89a\x04\0\x03\0\0\0\0,\0\0\0\0\x04\0\x03\0\0\x02\x02\x44\x01\0;"
WEBP = b"RIFF\x1e\0\0\0WEBPVP8L\x11\0\0\0\x2f\x05\x40\x01\0" + b"\0" * 13


@pytest.mark.seed("E11")
def test_an_image_is_kept_and_shown(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    kept: list[tuple[bytes, str]] = []

    def keep(data: bytes, kind: str) -> str:
        kept.append((data, kind))
        return f"sha256:{len(kept)}"

    bench.box.keep = keep
    for n, (name, data, kind, size) in enumerate(
        (
            ("a.png", png(), "image/png", "3x2"),
            ("b.jpg", JPEG, "image/jpeg", "7x5"),
            ("c.gif", GIF, "image/gif", "4x3"),
            ("d.webp", WEBP, "image/webp", "6x6"),
            ("no-name", png(), "image/png", "3x2"),
        ),
        1,
    ):
        bench.file(name, data)
        result = bench.do("read_file", path=name)
        assert result.content == (
            Text(f"{name} ({kind}, {size}, {len(data)} bytes)"),
            Image(f"sha256:{n}", kind, len(data), tokens=1),
        )
        assert kept[-1] == (data, kind)
    bench.box.keep = None
    assert "cannot be shown here" in bench.do("read_file", path="a.png").text


@pytest.mark.case("A04")
def test_an_image_that_no_provider_could_decode_is_refused_here(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    whole = png()
    bad = bytearray(whole)
    bad[-18] ^= 0xFF
    for data, why in (
        (b"\x89PNG\r\n\x1a\n" + bytes(range(40)), ""),
        (b"\x89PNG\r\n\x1a\n", "it is cut off"),
        (whole[:-5], "it is cut off"),
        (bytes(bad), "a checksum in it is wrong"),
        (JPEG[:30], "it is cut off"),
        (JPEG[:-2], "it is cut off"),
        (GIF[:-1], "it is cut off or damaged"),
        (WEBP[:20], "it is cut off"),
    ):
        bench.file("bad", data)
        result = bench.do("read_file", path="bad")
        assert result.status == "error" and "cannot be shown: " in result.text and why in result.text, result.text
        assert not any(isinstance(part, Image) for part in result.content)
    for at in range(len(whole)):
        seen = look(whole[:at])
        assert seen is None or seen.wrong
    bench.file("large.png", whole[:-12] + b"\0" * (11 << 20))
    assert "cannot be shown" in bench.do("read_file", path="large.png").text
    bench.file("a.riff", b"RIFF\0\0\0\0WAVE" + b"\0" * 20)
    assert "no text (RIFF media" in bench.do("read_file", path="a.riff").text
    bench.file("GIF8.txt", "GIF8 is a word\n")
    assert bench.do("read_file", path="GIF8.txt").text == "GIF8 is a word\n"


def document(*texts: str) -> bytes:
    """A PDF of one page for each text."""
    objects = ["<< /Type /Catalog /Pages 2 0 R >>", ""]
    kids: list[str] = []
    for text in texts:
        number = len(objects) + 1
        kids.append(f"{number} 0 R")
        stream = f"BT /F1 12 Tf 10 10 Td ({text}) Tj ET" if text else ""
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 200 200] /Contents {number + 1} 0 R /Resources << /Font "
            "<< /F1 << /Type /Font /Subtype /Type1 /BaseFont /Helvetica >> >> >> >>"
        )
        objects.append(f"<< /Length {len(stream)} >>\nstream\n{stream}\nendstream")
    objects[1] = f"<< /Type /Pages /Kids [{' '.join(kids)}] /Count {len(kids)} >>"
    out, places = "%PDF-1.4\n", []
    for number, body in enumerate(objects, 1):
        places.append(len(out))
        out += f"{number} 0 obj\n{body}\nendobj\n"
    table = "".join(f"{place:010d} 00000 n \n" for place in places)
    out += (
        f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}trailer\n<< /Size {len(objects) + 1} /Root 1 0 R >>\n"
    )
    return f"{out}startxref\n{out.index('xref')}\n%%EOF\n".encode()


@pytest.mark.seed("E11")
def test_a_pdf_is_shown_page_by_page(tmp_path: Path) -> None:
    """E11, noria's form: the text of the pages, with `offset` and `limit` in pages."""
    pytest.importorskip("pypdf", reason="the extra noria[pdf] is not installed")
    bench = Bench(tmp_path)
    bench.file("d.pdf", document("Hello", "", "World", *("more" for _ in range(30))))
    text = bench.do("read_file", path="d.pdf", limit=3).text
    assert text == (
        "--- page 1 ---\nHello\n--- page 2 ---\n(no text on this page)\n--- page 3 ---\nWorld\n"
        "[pages 1-3 of 33 (PDF); go on with offset=4]"
    )
    assert bench.do("read_file", path="d.pdf", offset=33).text == "--- page 33 ---\nmore\n[pages 33-33 of 33 (PDF)]"
    assert "[pages 1-20 of 33" in bench.do("read_file", path="d.pdf").text
    beyond = bench.do("read_file", path="d.pdf", offset=34).text
    assert beyond == "ERROR: d.pdf has only 33 pages: offset=34 is beyond its end"
    long = "x" * 900
    bench.file("long.pdf", document(*(long for _ in range(40))))
    assert "[pages 1-20 of 40" in bench.do("read_file", path="long.pdf").text
    for damaged in (b"%PDF-1.4\n" + b"\0" * 100, document("a")[:200], b"%PDF"):
        bench.file("bad.pdf", damaged)
        result = bench.do("read_file", path="bad.pdf")
        assert result.text.startswith("ERROR: bad.pdf is a PDF document that cannot be read: "), result.text


def test_without_its_library_a_pdf_is_answered_plainly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pypdf", None)
    with pytest.raises(pdf.ToolError, match=r"pip install 'noria\[pdf\]' makes it"):
        pdf.pages(document("a"), "d.pdf", 1, 5, 1_000, lambda: False)


class Documents:
    """A bench whose model reads PDF documents, and what was kept of them."""

    def __init__(self, tmp: Path) -> None:
        self.bench = Bench(tmp)
        self.bench.box.documents = True
        self.kept: list[bytes] = []

        def keep(data: bytes, kind: str) -> str:
            assert kind == "application/pdf"
            self.kept.append(data)
            return f"sha256:{len(self.kept)}"

        self.bench.box.keep = keep

    def read(self, data: bytes, **args: Any) -> Result:
        self.bench.file("d.pdf", data)
        return self.bench.do("read_file", path="d.pdf", **args)


@pytest.mark.seed("E11")
def test_a_pdf_is_a_document_where_the_model_reads_those(tmp_path: Path) -> None:
    """E11, noria's form: ten pages a result, each request's pages alone, a short document as it is."""
    pypdf = pytest.importorskip("pypdf", reason="the extra noria[pdf] is not installed")
    with_it = Documents(tmp_path)
    short = document("Hello", "World")
    assert with_it.read(short).content == (
        Text("[pages 1-2 of 2 (d.pdf, PDF document)]"),
        Image("sha256:1", "application/pdf", len(short), tokens=2 * pdf.TOKENS),
    )
    assert with_it.kept == [short]
    long = document(*(f"page {n}" for n in range(1, 34)))
    for args, where, numbers in (
        ({}, "[pages 1-10 of 33 (d.pdf, PDF document); go on with offset=11]", range(1, 11)),
        ({"offset": 31}, "[pages 31-33 of 33 (d.pdf, PDF document)]", range(31, 34)),
        ({"offset": 5, "limit": 1}, "[pages 5-5 of 33 (d.pdf, PDF document); go on with offset=6]", range(5, 6)),
    ):
        result = with_it.read(long, **args)
        assert result.content[0] == Text(where)
        found = pypdf.PdfReader(io.BytesIO(with_it.kept[-1]))
        assert [page.extract_text().strip() for page in found.pages] == [f"page {n}" for n in numbers]
    assert with_it.read(long, offset=34).text.endswith("has only 33 pages: offset=34 is beyond its end")
    assert with_it.read(b"%PDF-1.4\n" + b"\0" * 100).text.startswith("ERROR: d.pdf is a PDF document that cannot be")


def test_a_document_that_is_too_large_to_be_sent_is_cut_smaller_or_read_as_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pypdf", reason="the extra noria[pdf] is not installed")
    with_it = Documents(tmp_path)
    data = document(*("x" * 900 for _ in range(8)))
    monkeypatch.setattr(pdf, "LARGEST", 6_000)
    assert "[pages 1-4 of 8 (d.pdf" in with_it.read(data).text
    monkeypatch.setattr(pdf, "LARGEST", 500)
    assert "--- page 8 ---\nxxx" in with_it.read(data).text and len(with_it.kept) == 1


def test_without_its_library_a_document_is_sent_whole_or_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pypdf", None)
    with_it = Documents(tmp_path)
    data = document("a", "b", "c")
    result = with_it.read(data)
    assert result.text == f"[d.pdf: a PDF document of {len(data):,} bytes]" and with_it.kept == [data]
    for args, more in (({"offset": 2}, data), ({}, data[:-20]), ({}, document(*"x" * 101))):
        assert "pip install 'noria[pdf]'" in with_it.read(more, **args).text
    assert len(with_it.kept) == 1


def scanned(*images: tuple[str, bytes]) -> bytes:
    """A PDF of one page for each image (its dictionary's entries, its stream), without any text."""
    objects: list[bytes] = [b"<< /Type /Catalog /Pages 2 0 R >>", b""]
    kids: list[str] = []
    for entries, data in images:
        number = len(objects) + 1
        kids.append(f"{number} 0 R")
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 200 200] /Contents {number + 1} 0 R "
            f"/Resources << /XObject << /I {number + 2} 0 R >> >> >>".encode()
        )
        draw = b"200 0 0 200 0 0 cm /I Do"
        objects.append(b"<< /Length %d >>\nstream\n%s\nendstream" % (len(draw), draw))
        head = f"<< /Type /XObject /Subtype /Image {entries} /Length {len(data)} >>\nstream\n"
        objects.append(head.encode() + data + b"\nendstream")
    objects[1] = f"<< /Type /Pages /Kids [{' '.join(kids)}] /Count {len(kids)} >>".encode()
    out, places = b"%PDF-1.4\n", []
    for number, body in enumerate(objects, 1):
        places.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    trailer = b"trailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, len(out))
    return out + b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1) + table + trailer


PHOTO = ("/Width 7 /Height 5 /ColorSpace /DeviceRGB /BitsPerComponent 8 /Filter /DCTDecode", JPEG)
GREY = (
    "/Width 3 /Height 2 /ColorSpace /DeviceGray /BitsPerComponent 8 /Filter /FlateDecode",
    zlib.compress(bytes((0, 128, 255, 255, 128, 0))),
)
BITS = (
    "/Width 9 /Height 2 /ColorSpace /DeviceGray /BitsPerComponent 1 /Filter [/FlateDecode]",
    zlib.compress(b"\xaa\x80\x55\x00"),
)
FAX = ("/Width 9 /Height 2 /ColorSpace /DeviceGray /BitsPerComponent 1 /Filter /CCITTFaxDecode", b"\0\1")
SHORT = (GREY[0].replace("/Height 2", "/Height 9"), GREY[1])
BROKEN = (GREY[0], b"no deflated data at all")


@pytest.mark.seed("E11")
def test_pages_that_were_scanned_are_pictures(tmp_path: Path) -> None:
    """E11, noria's form: as they lie in the document; a page that has text is its text."""
    pytest.importorskip("pypdf", reason="the extra noria[pdf] is not installed")
    bench = Bench(tmp_path)
    kept: list[tuple[bytes, str]] = []
    bench.box.keep = lambda data, kind: (kept.append((data, kind)), f"sha256:{len(kept)}")[1]
    bench.file("d.pdf", scanned(PHOTO, FAX, GREY, SHORT, BITS, BROKEN))
    result = bench.do("read_file", path="d.pdf")
    assert [part.text if isinstance(part, Text) else part.digest for part in result.content] == [
        "--- page 1 ---\n(a picture, below)\n--- page 2 ---\n(no text on this page)\n--- page 3 ---\n"
        "(a picture, below)\n--- page 4 ---\n(no text on this page)\n--- page 5 ---\n(a picture, below)\n"
        "--- page 6 ---\n(no text on this page)\n[pages 1-6 of 6 (PDF)]",
        "\npage 1:", "sha256:1", "\npage 3:", "sha256:2", "\npage 5:", "sha256:3",
    ]  # fmt: skip
    assert kept[0] == (JPEG, "image/jpeg")
    for (data, kind), size, rows in (
        (kept[1], (3, 2), b"\0\0\x80\xff\0\xff\x80\0"),
        (kept[2], (9, 2), b"\0\xaa\x80\0\x55\0"),
    ):
        seen = look(data)
        assert kind == "image/png" and seen is not None and (seen.width, seen.height, seen.wrong) == (*size, "")
        at = data.index(b"IDAT")
        assert zlib.decompress(data[at + 4 : at + 4 + int.from_bytes(data[at - 4 : at])]) == rows
    bench.file("many.pdf", scanned(*[PHOTO] * 8))
    result = bench.do("read_file", path="many.pdf")
    assert sum(isinstance(part, Image) for part in result.content) == pdf.SCANS
    assert "[pages 1-5 of 8 (PDF); go on with offset=6]" in result.text
