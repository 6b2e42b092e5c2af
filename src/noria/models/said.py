"""What an error's body says, in whatever shape a server writes it, in the terms that all of them share.

Owns: finding message, names, the blamed parameter, status and wait in a body. Must not know: which kind of failure that
is (retry.py), any dialect's frames.
"""

from __future__ import annotations

import re
import zlib

import msgspec

from noria.models import after
from noria.models.errors import DETAIL

DEEP = 5  # how often an error may lie in another one
LONGEST = 4_096  # characters of its words that are looked at: more would take the time of a search that fails
WHOLE = 1 << 20  # bytes that a compressed body may become

HIDDEN = ("script", "style", "head")  # parts of a page that are not shown
MESSAGES = (
    "message", "msg", "detail", "error_description", "description", "faultstring", "status_msg", "error_message",
    "title", "reason",
)  # fmt: skip
NAMES = ("code", "type", "status", "__type", "error_type", "error_code", "errorcode", "reason", "status_code")
INSIDE = ("error", "errors", "fault", "base_resp", "exception")


class Said(msgspec.Struct, frozen=True):
    """What an error body says, in the terms that all providers share. `code`: the names that are meant for programs
    (code, type, status, reasons), joined. `status`: a status inside the body. `wait` in ms."""

    message: str
    code: str = ""
    param: str = ""
    status: int = 0
    wait: int = 0

    @property
    def words(self) -> str:
        """Everything it says, in lower case; of what is very long the beginning."""
        return f"{self.code[:LONGEST]} {self.message[:LONGEST]}".lower()


def understood(body: bytes, now: float) -> Said:
    """What an error body says; for one that is no JSON, its first words without markup. A body that is compressed
    though nobody said so is read too. `now`: seconds since 1970."""
    if body[:2] == b"\x1f\x8b":
        body = _inflated(body)
    try:
        return said(msgspec.json.decode(body), now)
    except (msgspec.DecodeError, RecursionError):
        pass
    text = body.decode("utf-8", "replace")
    event = re.search(r"^data:\s*(\{.*)$", text, re.M)  # an error as the only event of a stream
    if event:
        return understood(event.group(1).encode("utf-8", "replace"), now)
    if "<" in text:
        text = _untagged(text)
    text = text[:LONGEST]
    text = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return Said("" if text.count("\ufffd") > 8 else text[:DETAIL], wait=after.told(text))


def _untagged(text: str) -> str:
    """What a page says: without tags, comments, and the parts that are not shown. In one pass, whatever it holds."""
    lower, shown, at = text.lower(), list[str](), 0
    while (begin := text.find("<", at)) >= 0:
        shown.append(text[at:begin])
        hidden = next((name for name in HIDDEN if re.compile(f"<{name}\\b").match(lower, begin)), "")
        ends = "-->" if lower.startswith("<!--", begin) else f"</{hidden}>" if hidden else ">"
        end = lower.find(ends, begin)
        at = len(text) if end < 0 else end + len(ends)
    return " ".join((*shown, text[at:]))


def _inflated(body: bytes) -> bytes:
    try:
        return zlib.decompressobj(47).decompress(body, WHOLE)
    except zlib.error:
        return b""


def said(error: object, now: float, deep: int = 0) -> Said:
    """The shapes: {"error": {...}}, {"error": "words"}, {"errors": [...]}, {"detail": ...}, {"message": ...},
    [{"error": ...}], JSON in a string, words."""
    if isinstance(error, list):
        error = next((e for e in error if isinstance(e, dict)), error[0] if error else error)
    if isinstance(error, str):
        return _in_string(error, now, deep) or Said(error, wait=after.told(error))
    if not isinstance(error, dict):
        return Said(_json(error))
    table = {str(k).lower(): v for k, v in error.items()}
    inside = next((table[k] for k in INSIDE if isinstance(table.get(k), dict | list) and table[k]), None)
    if inside is not None and deep < DEEP:
        return _joined(said(inside, now, deep + 1), _outer(table, now))
    return _flat(table, now, deep)


def _outer(table: dict[str, object], now: float) -> Said:
    """What stands around an error: its names; its message only where the error itself has none."""
    names = {k: v for k, v in table.items() if k in NAMES and v != "error"}
    return Said("", _names(names), _text(table.get("param")), _status(names), after.in_body(table, now))


def _flat(table: dict[str, object], now: float, deep: int) -> Said:
    """An error that lies open."""
    if isinstance(table.get("error"), str):  # {"error": "words"}, with names beside it
        table = {"message": table["error"], **table}
    message, param, found = "", _text(table.get("param")), Said("")
    value = next((table[k] for k in MESSAGES if table.get(k)), None)
    if isinstance(value, list) or (isinstance(value, dict) and isinstance(value.get("detail"), list)):
        message, loc = _fields(value if isinstance(value, list) else value["detail"])
        param = param or loc
    elif isinstance(value, dict) and deep < DEEP:
        found = said(value, now, deep + 1)
    elif value is not None:
        text = value if isinstance(value, str) else _json(value)
        found = _in_string(text, now, deep) or Said(text)
    message = message or found.message
    inner, reasons, field = _nested(table, now, deep), _reasons(table), _violation(table)
    if inner.message and inner.message not in message:
        message = f"{message}: {inner.message}" if message else inner.message
    if message and isinstance(table.get("n_ctx"), int) and str(table["n_ctx"]) not in message:
        message += f" (n_ctx: {table['n_ctx']})"  # llama.cpp tells its window beside the words
    message = message or _json(table)
    return Said(
        message,
        " ".join(n for n in (_names(table), found.code, inner.code, reasons) if n),
        param or found.param or inner.param or field,
        found.status or _status(table) or inner.status,
        after.in_body(table, now) or found.wait or inner.wait or after.told(message),
    )


def _joined(inner: Said, outer: Said) -> Said:
    return Said(
        inner.message,
        " ".join(n for n in (inner.code, outer.code) if n),
        inner.param or outer.param,
        inner.status or outer.status,
        inner.wait or outer.wait,
    )


def _in_string(text: str, now: float, deep: int) -> Said | None:
    """An error in the text of another one, as gateways pass it on."""
    begin = text.find("{")
    if begin < 0 or deep >= DEEP or text[begin + 1 : begin + 2] not in ('"', "\n", " ", "\r"):
        return None
    try:
        found = said(msgspec.json.decode(text[begin : text.rfind("}") + 1].encode("utf-8", "replace")), now, deep + 1)
    except (msgspec.DecodeError, RecursionError):
        return None
    before = text[:begin].strip(" \n:-[")
    return msgspec.structs.replace(found, message=f"{before}: {found.message}") if before else found


def _nested(table: dict[str, object], now: float, deep: int) -> Said:
    """The words of the provider behind a gateway: error.metadata.raw, error.innererror."""
    metadata, inner = table.get("metadata"), table.get("innererror")
    raw = metadata.get("raw") if isinstance(metadata, dict) else None
    if raw and isinstance(raw, str | dict) and deep < DEEP:
        return said(raw, now, deep + 1)
    return Said("", _text(inner.get("code"))) if isinstance(inner, dict) else Said("")


def _reasons(table: dict[str, object]) -> str:
    """Google's reasons and the ids of used-up quotas: {"details": [{"reason": ...}, {"violations": [...]}]}."""
    found: list[str] = []
    for item in _tables(table.get("details")):
        found.append(_text(item.get("reason")))
        found += [_text(v.get("quotaId")) for v in _tables(item.get("violations"))]
    found += [_text(e.get("reason")) for e in _tables(table.get("errors"))]
    return " ".join(f for f in found if f)


def _violation(table: dict[str, object]) -> str:
    """The field that Google blames: {"details": [{"fieldViolations": [{"field": ...}]}]}."""
    for item in _tables(table.get("details")):
        for violation in _tables(item.get("fieldViolations")):
            unknown = re.search(r"Unknown name \"(\w+)\"", _text(violation.get("description")))
            if unknown or violation.get("field"):
                return unknown.group(1) if unknown else _text(violation.get("field"))
    return ""


def _fields(detail: list[object]) -> tuple[str, str]:
    """What a list of faulty fields says (Pydantic's), and the path of the first: `messages.3.content`."""
    words: list[str] = []
    paths: list[str] = []
    for item in _tables(detail):
        loc = item.get("loc")
        path = ".".join(str(p) for p in loc if p != "body") if isinstance(loc, list) else ""
        text = _text(item.get("msg")) or _text(item.get("message")) or _json(item)
        words.append(f"{path}: {text}" if path else text)
        paths.append(path)
    return "; ".join(words) or _json(detail), next((p for p in paths if p), "")


def _names(table: dict[str, object]) -> str:
    """The names for programs, joined."""
    values = (table.get(n) for n in NAMES)
    return " ".join(str(v) for v in values if isinstance(v, str | int) and not isinstance(v, bool) and v != "")


def _status(table: dict[str, object]) -> int:
    """A status inside the body: a number of its own, never one in prose."""
    for name in ("status_code", "statuscode", "code", "status", "http_status"):
        value = table.get(name)
        if isinstance(value, str) and value.isdigit() and len(value) == 3:
            value = int(value)
        if isinstance(value, int) and not isinstance(value, bool) and 400 <= value < 600:
            return value
    return 0


def _tables(value: object) -> list[dict[str, object]]:
    return [v for v in value if isinstance(v, dict)] if isinstance(value, list) else []


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
