"""The table of rules: each is broken alone and seen, legal requests pass, no body makes a check fail."""

from __future__ import annotations

import ast
import base64
import json
import pathlib
import re
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from noria.testing import DIALECTS, PROFILES, RULES, Dialect, Rule, check
from noria.testing.issued import Issued
from noria.testing.validator import refusal
from noria.testing.validator.schema import is_valid
from tests.testing.bodies import HEADERS, ISSUED, MODEL, PNG, legal, plain
from tests.testing.breaks import BREAKS

ROOT = pathlib.Path(__file__).resolve().parents[2]
BY_ID = {rule.id: rule for rule in RULES}


def broken(rule: Rule) -> tuple[dict[str, Any], dict[str, str], str, list[str]]:
    """Body, headers, model and profiles of the request that breaks this rule."""
    change = BREAKS[rule.id]
    code, settings = change if isinstance(change, tuple) else (change, {})
    body, headers = legal(rule.dialect), dict(HEADERS)
    m = body.get("messages", body.get("input", body.get("contents")))

    def sign(model: str, text: str) -> str:
        return ISSUED.sign(model, "d" * 12, text)

    exec(code, {"b": body, "h": headers, "m": m, "sign": sign, "base64": base64, "PNG": PNG})
    model = MODEL if rule.dialect == "gemini" else str(body.get("model", ""))
    return body, headers, model, settings.get("profiles", [])


def issued() -> Issued:
    """The server's signatures; the call fc_1 was issued with the reasoning item rs_1."""
    ISSUED.needs = {"fc_1": "rs_1"}
    return ISSUED


def seen(dialect: Dialect, body: dict[str, Any], headers: dict[str, str], model: str, profiles: list[str]) -> list[str]:
    """The ids of the rules that a request breaks."""
    found = check(dialect, body, headers=headers, model=model, profiles=profiles, issued=issued())
    return [violation.rule.id for violation in found]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_each_rule_is_broken_alone(rule: Rule) -> None:
    body, headers, model, profiles = broken(rule)
    assert seen(rule.dialect, body, headers, model, profiles) == [rule.id]
    if profiles:
        assert seen(rule.dialect, body, headers, model, []) == []


def test_every_rule_has_a_request_that_breaks_it_and_a_source() -> None:
    assert set(BREAKS) == set(BY_ID) and len(BY_ID) == len(RULES)
    for rule in RULES:
        assert rule.what.endswith((".", ".)")) and not rule.what[0].islower(), rule.id
        assert re.search(r"#\d+|reference|docs|guide|API|template|Bedrock", rule.source), rule.id
        assert not rule.profile or rule.profile in PROFILES


@pytest.mark.parametrize("dialect", DIALECTS)
def test_legal_requests_pass(dialect: Dialect) -> None:
    model = MODEL if dialect == "gemini" else None
    for body in (legal(dialect), plain(dialect)):
        assert check(dialect, body, headers=HEADERS, model=model, issued=issued()) == []


def test_legal_in_other_ways() -> None:
    """What is at the border of a rule, on its legal side."""
    chat = legal("chat")
    del chat["messages"][7:]
    assert check("chat", chat) == []  # the last message is a tool's
    chat["messages"].append({"role": "user", "content": "And?"})
    assert check("chat", chat) == []  # a person steers after a call step
    chat["messages"][2]["content"] = ""
    assert check("chat", chat) == []  # what OpenAI's own client sends back of a reply that only calls
    newer = plain("chat", max_completion_tokens=9) | {"model": "gpt-5.1"}
    assert check("chat", newer) == []
    paused = plain("messages")
    paused["messages"].append({"role": "assistant", "content": "Well"})
    assert check("messages", paused, headers=HEADERS) == []  # a prefill, where the model takes one
    stored = plain("responses", store=True)
    stored["input"] = [{"role": "user", "content": "x"}, {"type": "reasoning", "id": "rs_1", "summary": []}]
    stored["input"].append({"type": "message", "role": "assistant", "content": "y"})
    assert check("responses", stored | {"input": [*stored["input"], {"role": "user", "content": "z"}]}) == []
    gemini = legal("gemini")
    gemini["contents"][0]["parts"].append({"text": " "})  # what Google's client sends back of a stream
    gemini["contents"][1]["parts"][1].pop("thoughtSignature")
    gemini["contents"].insert(3, {"role": "model", "parts": [{"text": "Seen."}]})
    gemini["contents"].insert(4, {"role": "user", "parts": [{"text": "Go on."}]})
    assert check("gemini", gemini, model=MODEL, profiles=["signed"], issued=issued()) == []  # an older turn is free


def test_an_image_that_is_too_wide() -> None:
    body = legal("messages")
    source = body["messages"][2]["content"][1]["content"][1]["source"]
    wide = base64.b64decode(PNG)
    source["data"] = base64.b64encode(wide[:16] + (8_001).to_bytes(4) + wide[20:]).decode()
    assert seen("messages", body, HEADERS, MODEL, []) == ["messages-image-sides"]


@pytest.mark.case("A06")
@pytest.mark.parametrize("dialect", ["responses", "messages", "gemini"])
@pytest.mark.parametrize(("key", "model"), [("another key", MODEL), ("the key of the tests", "another-model")])
def test_what_another_server_or_model_signed_is_refused(dialect: Dialect, key: str, model: str) -> None:
    """A06, the server's side: reasoning of a foreign model or server is refused, its own is taken."""
    rule = {"responses": "responses-encrypted", "messages": "messages-signatures", "gemini": "gemini-signatures"}
    body = legal(dialect) | ({} if dialect == "gemini" else {"model": model})
    found = check(dialect, body, headers=HEADERS, model=model, issued=Issued(key))
    assert [v.rule.id for v in found] == [rule[dialect]]
    status, said = refusal(found[0])
    assert status == 400
    texts = {
        "responses": ("could not be verified", "invalid_encrypted_content"),
        "messages": ("Invalid `signature` in `thinking` block", "invalid_request_error"),
        "gemini": ("Corrupted thought signature.", "INVALID_ARGUMENT"),
    }
    assert all(text in json.dumps(said) for text in texts[dialect])


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.sampled_from(["", " ", "user", "assistant", "tool", "function"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The way to every value inside a value."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(p for key, each in inner for p in places(each, (*path, key)))]


def strings(value: Any) -> Iterator[str]:
    """Every string inside a value."""
    if isinstance(value, str):
        yield value
    for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from strings(each)


@pytest.mark.parametrize("dialect", DIALECTS)
@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_no_body_makes_a_check_fail(dialect: Dialect, data: st.DataObject) -> None:
    """Any value in any place of a legal request: the checks say what they say, and do not raise."""
    body = legal(dialect)
    path = data.draw(st.sampled_from([p for p in places(body) if p]))
    at: Any = body
    for step in path[:-1]:
        at = at[step]
    at[path[-1]] = data.draw(JSON)
    for violation in check(dialect, body, headers=HEADERS, model=MODEL, profiles=PROFILES, issued=issued()):
        status, said = refusal(violation)
        assert status >= 400 and violation.problem.message in [*strings(said)]


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "objekt"}, {"properties": []}, {"properties": {"a": 1}}, {"required": "a"}, {"anyOf": []},
        {"exclusiveMinimum": True}, {"items": [{}]}, {"enum": "a"}, {"type": ["string", "text"]},
        {"properties": {"a": {"items": {"type": "int"}}}}, True, [], {"required": ["a", "a"]}, {"minLength": -1},
        {"properties": {"a": {"$ref": "#/$defs/b"}}}, {"pattern": 3},
    ],
)  # fmt: skip
def test_what_is_no_json_schema(schema: Any) -> None:
    assert not is_valid(schema)


def test_what_is_a_json_schema() -> None:
    assert is_valid(
        {"type": ["object", "null"], "properties": {"a": True, "b": {"$ref": "#/$defs/x"}}, "$defs": {"x": {}}}
    )


def test_the_validator_shares_no_code_with_the_rest() -> None:
    """It imports nothing of noria but itself: what writes requests cannot be what judges them."""
    for path in (ROOT / "src/noria/testing").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("noria"):
                assert node.module.startswith("noria.testing"), f"{path.name} imports {node.module}"
