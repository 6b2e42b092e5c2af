"""Which encoding a file has: what says so itself, and good guesses for the rest."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from noria.tools.encoding import GUESSED, binary, decode, encode

LONG = {
    "cp1252": "Größe über Straße, naïve café: “quotes” – dash… déjà vu, señor, façade, œuvre",
    "gb18030": "这是一个测试文件，用于检测编码。变量名和函数名。",
    "cp932": "これは日本語のテストです。ファイルを読み込みます。",
    "euc_jp": "これは日本語のテストです。ファイルを読み込みます。",
    "big5": "這是繁體中文的測試檔案，用來檢查編碼。",
    "euc_kr": "한국어 테스트 파일입니다. 인코딩을 확인합니다.",
    "cp1251": "Привет, мир! Это проверка кодировки файла.",
    "koi8_r": "Привет, мир! Это проверка кодировки файла.",
    "cp1250": "zażółć gęślą jaźń, příliš žluťoučký kůň",
    "cp1253": "Αυτό είναι ένα ελληνικό κείμενο δοκιμής.",
}


@pytest.mark.case("C02")
@pytest.mark.parametrize("encoding", LONG)
def test_text_that_is_long_enough_is_read_as_what_it_is(encoding: str) -> None:
    for text in (LONG[encoding], "int x = 1;\n" * 200 + "// " + LONG[encoding] + "\n" + "y = 2\n" * 200):
        data = text.encode(encoding)
        like = decode(data)
        assert like is not None and like.guessed and not like.escaped
        assert like.text == text, like.encoding
        assert encode(like.text, like) == data


@pytest.mark.parametrize(
    ("data", "encoding", "text"),
    [
        (b"\xef\xbb\xbfhi", "utf-8", "hi"),
        ("\ufeffhé".encode("utf-16-le"), "utf-16-le", "hé"),
        ("\ufeffhé".encode("utf-16-be"), "utf-16-be", "hé"),
        ("\ufeffhé".encode("utf-32-le"), "utf-32-le", "hé"),
        ("\ufeffhé".encode("utf-32-be"), "utf-32-be", "hé"),
        (b"", "utf-8", ""),
        ("hé".encode(), "utf-8", "hé"),
    ],
)
def test_a_mark_says_what_it_is(data: bytes, encoding: str, text: str) -> None:
    like = decode(data)
    assert like is not None
    assert (like.encoding, like.text, like.guessed, like.escaped) == (encoding, text, False, False)
    assert encode(like.text, like) == data


def test_what_is_no_text() -> None:
    for data in (b"a\0b", b"\xff\xfea\0\xff\xdf", b"\xff\xfe\0\0a", b"\0\0\xfe\xff\xff\xff\xff\xff", b"\x7fELF\0"):
        assert decode(data) is None or not binary(data)
    assert decode(b"a\0b") is None and decode(b"\xff\xfea\0\xff\xdf") is None


def test_it_stays_quick_and_is_loaded_only_when_it_is_needed() -> None:
    body = (b"x = 1\n" * 100 + b"// \xd6\xd0\xce\xc4\n") * 40_000  # 24 MB
    begun = time.monotonic()
    like = decode(body)
    assert like is not None and encode(like.text, like) == body
    assert time.monotonic() - begun < 30
    code = (
        "import sys; from noria.tools.encoding import decode; decode(b'plain'); decode('\\xe9'.encode())\n"
        "assert 'charset_normalizer' not in sys.modules; decode(b'\\xd6\\xd0\\xce\\xc4')\n"
        "assert 'charset_normalizer' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_every_name_is_one_that_python_has() -> None:
    for name in GUESSED:
        assert "a".encode(name) == b"a"
