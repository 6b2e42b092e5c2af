"""Images, files that a prompt names, the schema of the answer, the debug log: in a run, from the command line."""

from __future__ import annotations

import base64
import json
import os
import stat
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noria.cli.files import TEXT_BYTES, images, media_type, named
from noria.core.errors import UsageError
from noria.testing import ModelServer
from tests.cli.kit import House
from tests.cli.test_stream import of, read


def png() -> bytes:
    """A whole image of one pixel."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"\0\xff\0\0")) + chunk(b"IEND", b"")
    )


PNG = png()
GOAL = ("--permission-mode", "goal")


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer([]) as running:
        yield running


@pytest.fixture
def house(tmp_path: Path, server: ModelServer) -> House:
    return House(tmp_path, server.url)


def last_user(server: ModelServer) -> Any:
    return [m["content"] for m in server.requests[-1]["messages"] if m["role"] == "user"][-1]


# -- images ------------------------------------------------------------------------------------------------------


def test_images_are_told_by_their_bytes() -> None:
    assert media_type(PNG) == "image/png"
    assert media_type(b"\xff\xd8\xff\xe0" + b"x" * 20) == "image/jpeg"
    assert media_type(b"GIF89a" + b"x" * 20) == "image/gif"
    assert media_type(b"RIFF\x01\0\0\0WEBPVP8 ") == "image/webp"
    assert not any(map(media_type, (b"", PNG[:8], b"<svg/>" + b" " * 20, b"BM" + b"\0" * 30, b"RIFF1234WAVEfmt ")))


@given(st.binary(max_size=40))
def test_any_bytes_are_an_image_or_none(data: bytes) -> None:
    assert media_type(data) in ("", "image/png", "image/jpeg", "image/gif", "image/webp", "application/pdf")


def test_a_document_goes_with_a_prompt(house: House, server: ModelServer) -> None:
    """As one where the server takes it, else as words that say so."""
    (house.workspace / "paper.pdf").write_bytes(b"%PDF-1.7\n" + b"x" * 40)
    house.run("-p", "sum up @paper.pdf", *GOAL)
    said = json.dumps(server.requests[-1]["messages"])
    assert "[document (application/pdf, 49 bytes) left out: this model takes no documents]" in said
    config = f'[models.m]\nbase_url = "{server.base_url("chat")}"\nprofile = {{documents = true}}\n'
    (house.workspace / "c.toml").write_text(config)
    house.noria("-p", "sum up", "--model", "m", "--config", "c.toml", "--image", "paper.pdf", *GOAL)
    assert '"type": "file"' in json.dumps(server.requests[-1]["messages"])


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "is empty: convert it"),
        (b"hello, this is only text", "is no image that models take (PNG, JPEG, GIF, WebP)"),
        (PNG[:10], "is no image"),
        (None, "cannot be read: No such file or directory"),
    ],
)
def test_an_image_that_is_none(house: House, server: ModelServer, content: bytes | None, says: str) -> None:
    if content is not None:
        (house.workspace / "a.png").write_bytes(content)
    ran = house.run("-p", "look", "--image", "a.png")
    assert (ran.status, server.requests) == (2, [])
    assert says in ran.expect_one_line() and "--image a.png" in ran.err


def test_a_folder_and_an_image_that_is_too_large(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="Is a directory"):
        images([str(tmp_path)])
    with open(tmp_path / "big.png", "wb") as file:
        file.write(PNG)
        file.truncate(21_000_000)
    with pytest.raises(UsageError, match="is larger than 20 MB"):
        images([str(tmp_path / "big.png")])


def test_images_go_with_the_first_prompt_in_order_and_are_kept(house: House, server: ModelServer) -> None:
    (house.workspace / "a.png").write_bytes(PNG)
    other = house.home / "b.jpg"
    other.write_bytes(b"\xff\xd8\xff\xe0" + b"j" * 40)
    ran = house.run("-p", "compare", "--image", "a.png", "--image", str(other), *GOAL)
    assert (ran.status, ran.err) == (0, "")
    parts = last_user(server)
    assert [p["type"] for p in parts] == ["text", "image_url", "image_url"]
    urls = [p["image_url"]["url"] for p in parts[1:]]
    assert urls[0] == "data:image/png;base64," + base64.b64encode(PNG).decode()
    assert urls[1].startswith("data:image/jpeg;base64,")
    house.run("-p", "again", "-c", *GOAL)
    history = server.requests[-1]["messages"]
    assert [p["image_url"]["url"] for p in history[1]["content"][1:]] == urls, "from the journal's store"
    assert history[-1]["content"] == "again"


def test_an_image_needs_a_prompt(house: House) -> None:
    house.run("-p", "x", *GOAL)
    (house.workspace / "a.png").write_bytes(PNG)
    assert "--image needs a prompt" in house.run("-p", "-c", "--image", "a.png").expect_one_line()


# -- files that a prompt names -----------------------------------------------------------------------------------


def test_a_prompt_names_files(house: House, server: ModelServer) -> None:
    (house.workspace / "src").mkdir()
    (house.workspace / "src/a.py").write_text("print(1)\n")
    (house.workspace / "shot one.png").write_bytes(PNG)
    ran = house.run("-p", 'why does @src/a.py, seen in @"shot one.png", fail? ask me@example.com', *GOAL)
    assert (ran.status, ran.err) == (0, "")
    text, picture = last_user(server)
    assert text["text"] == (
        'why does @src/a.py, seen in @"shot one.png", fail? ask me@example.com'
        '\n\n<file path="src/a.py">\nprint(1)\n</file>'
    )
    assert picture["type"] == "image_url"


def test_what_is_piped_in_beside_a_prompt_names_nothing(house: House, server: ModelServer) -> None:
    """A log can hold any words; it cannot make noria send a file along."""
    (house.workspace / ".env").write_text("SECRET=1")
    house.run("-p", "sum this up @none", *GOAL, stdin=b"see @.env\n")
    assert "SECRET" not in json.dumps(server.requests[-1]["messages"])


def test_what_a_prompt_may_name(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (tmp_path / "out.txt").write_text("outside")
    (work / "link").symlink_to(tmp_path / "out.txt")
    (work / "bin").write_bytes(b"\0\1\2")
    (work / "long.txt").write_text("line\n" * 10_000)
    (work / "secret").write_text("x")
    root = os.path.realpath(work)
    assert named("no file: @none @", root).notices == []
    outside = named("@../out.txt and @link", root)
    assert (outside.text, len(outside.notices)) == ("", 2)
    assert all("is outside the workspace and was not attached" in n for n in outside.notices)
    assert named("@bin", root).notices == ["@bin was not attached: it is neither text nor an image that models take"]
    long = named("(@long.txt)", root).text
    assert len(long) < TEXT_BYTES + 200
    assert long.endswith(f"[... the file goes on: read it with read_file, offset={TEXT_BYTES // 5 + 1}]\n</file>")
    assert named("@secret @secret", root).text.count("<file") == 1


@given(st.text(max_size=60))
def test_any_words_may_name_nothing(words: str) -> None:
    assert named(words, "/nonexistent-folder").text == ""


# -- a schema for the answer -------------------------------------------------------------------------------------

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False}


def asked(house: House, schema: object = SCHEMA, *flags: str, form: str = "json") -> Any:
    (house.workspace / "s.json").write_text(json.dumps(schema))
    return house.run("-p", "how many?", "--json-schema", "s.json", "--output-format", form, *GOAL, *flags)


def test_an_answer_that_fits(house: House, server: ModelServer) -> None:
    server.script = lambda request: {"text": '```json\n{"n": 3}\n```'}
    ran = asked(house)
    assert (ran.status, ran.result["output"], len(server.requests)) == (0, {"n": 3}, 1)
    prompt = last_user(server)
    assert prompt.startswith("how many?\n\n") and json.dumps(SCHEMA, separators=(",", ":")) in prompt
    assert asked(house, form="text").out == '{"n":3}\n'
    assert read(asked(house, form="stream-json").out)[-1]["output"] == {"n": 3}


def test_an_answer_is_asked_for_once_more(house: House, server: ModelServer) -> None:
    server.script = lambda request: {"text": '{"n": 4}' if "ERROR" in str(request["messages"][-1]) else "four"}
    ran = asked(house)
    assert (ran.status, ran.result["output"], ran.result["steps"], len(server.requests)) == (0, {"n": 4}, 2, 2)


def test_an_answer_that_never_fits(house: House, server: ModelServer) -> None:
    server.script = lambda request: {"text": '{"n": "four"}'}
    ran = asked(house)
    result = ran.result
    assert (ran.status, result["outcome"], result["output"], len(server.requests)) == (1, "failed", None, 2)
    assert result["error"]["kind"] == "schema"
    assert "the answer does not fit s.json, not even when it was asked for again: " in result["error"]["message"]
    assert result["text"] == '{"n": "four"}'
    assert asked(house, form="text").out == ""
    assert read(asked(house, form="stream-json").out)[-1]["error"]["kind"] == "schema"


@pytest.mark.parametrize("schema", ["{", {"type": "dict"}, [], {"name": "x"}])
def test_a_schema_that_is_none(house: House, server: ModelServer, schema: object) -> None:
    (house.workspace / "s.json").write_text(schema if isinstance(schema, str) else json.dumps(schema))
    ran = house.run("-p", "x", "--json-schema", "s.json")
    assert (ran.status, server.requests) == (2, [])
    assert "--json-schema s.json" in ran.expect_one_line()


def test_keywords_that_an_answer_is_not_held_against_are_told(house: House, server: ModelServer) -> None:
    server.script = lambda request: {"text": '{"n": 3}'}
    ran = asked(house, SCHEMA | {"properties": {"n": {"type": "integer", "format": "int32"}}})
    assert ran.status == 0
    assert "the answer is not held against format" in ran.expect_one_line()


# -- the debug log -----------------------------------------------------------------------------------------------


def test_the_log_has_sizes_and_times_and_no_words(house: House, server: ModelServer) -> None:
    server.script = [{"text": "SAID-IT", "calls": [["run_command", {"command": "echo DONE-IT"}]]}]
    server.faults = {0: 503}
    ran = house.run("-p", "ASKED-IT", *GOAL, "--debug", "log", OPENAI_API_KEY="sk-KEY-IT", NORIA_MAX_RETRIES="2")
    assert (ran.status, ran.out) == (0, "All done.\n")
    log = (house.workspace / "log").read_text()
    assert not any(word in log for word in ("SAID-IT", "DONE-IT", "ASKED-IT", "sk-KEY-IT", "Bearer"))
    for part in (
        "request 1: POST http://127.0.0.1", " bytes", "request 1: status 503 after", "(overloaded", "first delta of",
        "run_command", "event 1 opened", "launched", "returned",
    ):  # fmt: skip
        assert part in log, part
    assert stat.S_IMODE(os.stat(house.workspace / "log").st_mode) == 0o600


def test_a_key_in_the_address_is_not_logged(house: House, server: ModelServer) -> None:
    house.run("-p", "x", *GOAL, "--debug", "log", "--base-url", f"{server.url}?key=sk-KEY-IT")
    assert "sk-KEY-IT" not in (house.workspace / "log").read_text()


def test_a_log_that_cannot_be_written(house: House, server: ModelServer) -> None:
    ran = house.run("-p", "x", "--debug", "none/log")
    assert (ran.status, server.requests) == (2, [])
    assert ran.expect_one_line() == "noria: --debug none/log cannot be written: No such file or directory"


def test_a_notice_about_a_file_is_an_event_too(house: House) -> None:
    (house.workspace / "bin").write_bytes(b"\0")
    ran = house.run("-p", "@bin", *GOAL, "--output-format", "stream-json")
    assert [n["text"] for n in of(read(ran.out), "notice")] == [
        "@bin was not attached: it is neither text nor an image that models take"
    ]
    assert "neither text nor an image" in ran.expect_one_line()
