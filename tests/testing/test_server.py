"""The server over real HTTP: what it says in each dialect, streamed and whole, its scripts, its door, its life."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
import time
import urllib.request
from typing import Any

import pytest

from noria.testing import DIALECTS, Dialect, ModelServer, Request, Script, Turn, turns_so_far
from tests.testing.bodies import MODEL, legal, plain
from tests.testing.client import PATHS, post, said

TURN: Turn = {
    "text": "I look, häßlich 🌍.",
    "thinking": "Where is it?",
    "calls": [["read_file", {"path": "a" * 90}], ["now", {}]],
}
ROOT = pathlib.Path(__file__).resolve().parents[2]


def with_tools(dialect: Dialect, streamed: bool) -> dict[str, Any]:
    """The plain request with the tools of the big one."""
    stream = {"stream": True} if streamed and dialect != "gemini" else {}
    return plain(dialect) | {"tools": legal(dialect)["tools"]} | stream


@pytest.mark.seed("J05")
@pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_what_is_said_in_each_dialect(dialect: Dialect, streamed: bool) -> None:
    with ModelServer([TURN], signing_key="any") as server:  # a random signature may hold the digits that differ
        got = post(server, dialect, with_tools(dialect, streamed), stream=streamed)
        again = post(server, dialect, with_tools(dialect, streamed), stream=streamed)
    assert got.status == 200 and got.whole
    assert said(dialect, got) == {**TURN, "ended": True}
    assert again.body.replace(b"1001", b"1000").replace(b"1021", b"1020") == got.body, "a repeated request differs"
    assert server.violations == []
    assert [(r.dialect, r.streamed, r.model) for r in server.requests] == [(dialect, streamed, MODEL)] * 2


def answer(dialect: Dialect, body: dict[str, Any], got: dict[str, Any]) -> dict[str, Any]:
    """The request that follows a whole reply: the reply exactly as it came, a result for each call, by the book."""
    match dialect:
        case "chat":
            message = got["choices"][0]["message"]
            sent = {k: v for k, v in message.items() if k != "reasoning_content"}
            results = [{"role": "tool", "tool_call_id": c["id"], "content": "x"} for c in message["tool_calls"]]
            return body | {"messages": [*body["messages"], sent, *results]}
        case "responses":
            calls = [item for item in got["output"] if item["type"] == "function_call"]
            outputs = [{"type": "function_call_output", "call_id": c["call_id"], "output": "x"} for c in calls]
            first = {"role": "user", "content": body["input"]} if isinstance(body["input"], str) else None
            before = [first] if first else body["input"]
            return body | {"input": [*before, *got["output"], *outputs], "store": False}
        case "messages":
            uses = [b for b in got["content"] if b["type"] == "tool_use"]
            results = [{"type": "tool_result", "tool_use_id": u["id"], "content": "x"} for u in uses]
            turn = [{"role": "assistant", "content": got["content"]}, {"role": "user", "content": results}]
            return body | {"messages": [*body["messages"], *turn]}
        case "gemini":
            content = got["candidates"][0]["content"]
            made = [p["functionCall"] for p in content["parts"] if "functionCall" in p]
            named = [{k: v for k, v in call.items() if k in ("id", "name")} for call in made]
            parts = [{"functionResponse": {**call, "response": {"output": "x"}}} for call in named]
            return body | {"contents": [*body["contents"], content, {"role": "user", "parts": parts}]}


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_reply_that_comes_back_as_it_was_is_legal(dialect: Dialect) -> None:
    """Three steps, each reply put into the next request exactly as it came: signatures, ids, reasoning items."""
    with ModelServer([TURN, TURN, {"text": "Done."}]) as server:
        body, model = with_tools(dialect, False), "gemini-3-pro" if dialect == "gemini" else MODEL
        for step in range(2):
            got = post(server, dialect, body, model=model)
            assert got.status == 200, got.json
            assert turns_so_far(server.requests[-1]) == step
            body = answer(dialect, body, got.json)
        assert said(dialect, post(server, dialect, body, model=model))["text"] == "Done."
        assert server.violations == []


@pytest.mark.case("A06")
@pytest.mark.parametrize("dialect", ["responses", "messages", "gemini"])
def test_the_reasoning_of_one_server_is_foreign_to_another(dialect: Dialect) -> None:
    with ModelServer([TURN]) as first, ModelServer([TURN]) as second:
        body = answer(dialect, with_tools(dialect, False), post(first, dialect, with_tools(dialect, False)).json)
        assert post(first, dialect, body).status == 200
        refused = post(second, dialect, body)
        assert refused.status == 400
        assert [v.rule.id.partition("-")[2] for v in second.violations] in (["encrypted"], ["signatures"])
        other = body | ({} if dialect == "gemini" else {"model": "another"})
        assert post(first, dialect, other, model="another").status == 400


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_request_that_breaks_a_rule_is_refused_in_the_api_s_own_form(dialect: Dialect) -> None:
    body = plain(dialect)
    key = {"chat": "messages", "messages": "messages", "responses": "input", "gemini": "contents"}[dialect]
    body[key] = []
    with ModelServer([{"text": "never"}]) as server:
        got = post(server, dialect, body)
        assert got.status == 400
        assert [v.rule.dialect for v in server.violations] == [dialect]
        error = got.json["error"]
        match dialect:
            case "messages":
                assert got.json["type"] == "error" and error["type"] == "invalid_request_error"
            case "gemini":
                assert (error["code"], error["status"]) == (400, "INVALID_ARGUMENT")
            case _:
                assert error["type"] == "invalid_request_error" and set(error) == {"message", "type", "param", "code"}
        assert post(server, dialect, plain(dialect)).status == 200
        assert "request 0: " + server.violations[0].rule.id in str(server.violations[0])
    with ModelServer(validate=False) as server:
        assert post(server, dialect, body).status == 200 and server.violations == []


def test_scripts_by_history_in_order_and_as_a_function() -> None:
    turns: Script = [{"text": "a", "calls": [["now", {}]]}, {"text": "b"}, {"text": "c"}]
    body = with_tools("chat", False)

    def texts(server: ModelServer, *bodies: dict[str, Any]) -> list[str]:
        return [said("chat", post(server, "chat", each))["text"] for each in bodies]

    with ModelServer(turns) as server:
        after = answer("chat", body, post(server, "chat", body).json)
        assert texts(server, body, after, body) == ["a", "b", "a"]
    with ModelServer(turns, {1: 500}, follow="order", final="over") as server:
        assert texts(server, body) == ["a"]
        assert post(server, "chat", body).status == 500
        assert texts(server, body, body, body) == ["b", "c", "over"]
    with ModelServer(lambda request: {"text": f"{request['messages'][0]['content']}{request.number}"}) as server:
        assert texts(server, body, body) == ["Hello.0", "Hello.1"]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_no_calls_where_none_are_allowed(dialect: Dialect) -> None:
    none: dict[Dialect, dict[str, Any]] = {
        "chat": {"tool_choice": "none"},
        "responses": {"tool_choice": "none"},
        "messages": {"tool_choice": {"type": "none"}},
        "gemini": {"toolConfig": {"functionCallingConfig": {"mode": "NONE"}}},
    }
    with ModelServer([TURN]) as server:
        for body in (plain(dialect), with_tools(dialect, False) | none[dialect]):
            assert said(dialect, post(server, dialect, body))["text"] == "All done."
        server.script = [{"text": "Hi."}]
        assert said(dialect, post(server, dialect, plain(dialect)))["text"] == "Hi."
        assert said(dialect, post(server, dialect, with_tools(dialect, False) | none[dialect]))["text"] == "All done."
        assert server.violations == []


def test_ends_labels_and_usage() -> None:
    cut: Turn = {"text": "half", "end": "cut", "usage": {"input": 7, "output": 5, "cached": 3, "reasoning": 2}}
    with ModelServer(lambda request: cut) as server:
        chat = post(server, "chat", plain("chat")).json
        assert (chat["choices"][0]["finish_reason"], chat["usage"]["prompt_tokens"]) == ("length", 7)
        messages = post(server, "messages", plain("messages")).json
        assert messages["stop_reason"] == "max_tokens"
        assert (messages["usage"]["input_tokens"], messages["usage"]["cache_read_input_tokens"]) == (4, 3)
        responses = post(server, "responses", plain("responses")).json
        assert (responses["status"], responses["incomplete_details"]["reason"]) == ("incomplete", "max_output_tokens")
        gemini = post(server, "gemini", plain("gemini")).json
        assert gemini["candidates"][0]["finishReason"] == "MAX_TOKENS"
        assert gemini["usageMetadata"]["thoughtsTokenCount"] == 2
        server.script = [{"text": "x", "finish": "eos_token"}]
        assert post(server, "chat", plain("chat")).json["choices"][0]["finish_reason"] == "eos_token"


def test_arguments_that_are_no_json_are_sent_as_they_are() -> None:
    with ModelServer([{"calls": [["read_file", '{"path": ']], "end": "cut"}]) as server:
        call = post(server, "chat", with_tools("chat", False)).json["choices"][0]["message"]["tool_calls"][0]
        assert call["function"]["arguments"] == '{"path": '


def test_gemini_streams_a_json_array_where_no_events_were_asked_for() -> None:
    with ModelServer([{"text": "one two three"}]) as server:
        path = f"/v1beta/models/{MODEL}:streamGenerateContent?key=k"
        chunks = post(server, "gemini", plain("gemini"), path=path).json
        parts = [p["text"] for c in chunks for p in c["candidates"][0]["content"]["parts"]]
        assert "".join(parts) == "one two three" and len(chunks) > 2


def test_pace() -> None:
    with ModelServer([{"text": "a b c d", "pace": 0.02}]) as server:
        begun = time.monotonic()
        post(server, "chat", plain("chat", stream=True))
        assert time.monotonic() - begun > 0.1


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_key_and_a_model_that_there_are(dialect: Dialect) -> None:
    """The bodies are those that the APIs really send (`tests/testing/test_faults.py` compares them)."""
    with ModelServer(key="right", models=["good"]) as server:
        body = plain(dialect) | ({} if dialect == "gemini" else {"model": "good"})
        assert post(server, dialect, body, model="good", key="wrong").status == (400 if dialect == "gemini" else 401)
        assert post(server, dialect, body, model="good", key="right").status == 200
        missing = plain(dialect)
        assert post(server, dialect, missing, key="right").status == 404


def test_what_a_script_raises_is_raised_at_the_end() -> None:
    def script(request: Request) -> Turn:
        assert request["model"] == "another", "not the model that was expected"
        return {}

    with pytest.raises(AssertionError, match="not the model"), ModelServer(script) as server:
        got = post(server, "chat", plain("chat"))
        assert got.status == 500 and "not the model" in got.json["error"]["message"]


def test_its_arguments_are_checked() -> None:
    with pytest.raises(ValueError, match="there is no profile 'new': one of bedrock"):
        ModelServer(profiles=["new"])
    with pytest.raises(ValueError, match="there is no rule 'chat-x'"):
        ModelServer(ignore=["chat-x"])
    with pytest.raises(ValueError, match="there is no fault 'sit'"), ModelServer(faults={0: "sit"}) as server:
        assert post(server, "chat", plain("chat")).status == 500
    with ModelServer() as server, pytest.raises(OSError, match="in use"):
        ModelServer(port=int(server.root.rpartition(":")[2])).start()


def test_a_rule_can_be_left_out() -> None:
    body = plain("chat")
    body["messages"] *= 2
    with ModelServer(ignore=["chat-alternate"]) as server:
        assert post(server, "chat", body).status == 200
    with ModelServer() as server:
        assert post(server, "chat", body).status == 400


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("raw", [b"{", b"[]", b'{"a": "\xff"}', b'{"a": NaN}', b'{"a": "\\ud83d"}'])
def test_a_body_that_is_no_json_is_refused_and_seen(dialect: Dialect, raw: bytes) -> None:
    with ModelServer() as server:
        assert post(server, dialect, raw).status == 400
    assert server.violations[0].rule.id == f"{dialect}-json"


@pytest.mark.parametrize(
    ("script", "says"),
    [
        ([{"txt": "x"}], "turn 0: a turn has no key 'txt'; did you mean text?"),
        (["x", {"call": []}], "turn 1: a turn has no key 'call'; did you mean calls?"),
        ([{"text": 3}], "turn 0: text is a string, not 3"),
        ([{"calls": [["w"]]}], "calls is a list of [name, arguments] pairs, and ['w'] is none"),
        ([{"calls": ["w"]}], "and 'w' is none"),
        ([{"calls": {"w": {}}}], "and {'w': {}} is none"),
        ([{"calls": [[]]}], "and [] is none"),
        ([{"end": "over"}], "end is one of stop, cut, filtered, paused, not 'over'"),
        ([{"usage": {"inputs": 3}}], "usage has whole numbers for input, output, cached, reasoning"),
        ([3], "turn 0: a turn is a dict (text, thinking, calls, end, finish, usage, pace) or a text, not 3"),
        ({"text": "x"}, "a script is a list of turns or a function of the request, not {'text': 'x'}"),
        ("x", "a script is a list of turns"),
        (None, "a script is a list of turns"),
    ],
)
def test_a_script_that_is_none_is_told_where_it_is_given(script: Any, says: str) -> None:
    with pytest.raises(ValueError) as caught:
        ModelServer(script)
    assert says in str(caught.value)
    server = ModelServer(lambda request: script)
    if not isinstance(script, str | dict):
        with pytest.raises(ValueError), server:
            assert post(server, "chat", plain("chat")).status == 500


def test_a_text_is_a_turn() -> None:
    with ModelServer(["Hello."]) as server:
        assert said("chat", post(server, "chat", plain("chat")))["text"] == "Hello."


def test_odd_requests() -> None:
    with ModelServer() as server:
        assert post(server, "chat", b"{").status == 400
        assert post(server, "messages", b"[]").json["error"]["type"] == "invalid_request_error"
        assert post(server, "chat", plain("chat"), path="/v1/completions").status == 404
        assert post(server, "messages", {}, path="/v1/messages/count_tokens").json["input_tokens"] == 0
        with urllib.request.urlopen(f"{server.url}/models", timeout=5) as answer:
            assert json.load(answer)["data"][0]["id"] == "scripted"
        assert server.requests == []
        assert post(server, "chat", plain("chat"), path="/any/prefix" + PATHS["chat"]).status == 200
        assert server.base_url("gemini") == server.root and server.base_url("chat") == server.root + "/v1"


def test_as_a_process(tmp_path: pathlib.Path) -> None:
    script = tmp_path / "script.json"
    script.write_text(json.dumps([{"text": "from a file"}]))
    command = [
        sys.executable,
        "-m",
        "noria.testing",
        "--script",
        str(script),
        "--fault",
        "0=429",
        "--profile",
        "mistral",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout and process.stderr
        urls = json.loads(process.stdout.readline())
        assert set(urls) == set(DIALECTS)
        reached = ModelServer()
        reached.root = urls["gemini"]
        assert post(reached, "chat", plain("chat")).status == 429
        assert said("chat", post(reached, "chat", plain("chat")))["text"] == "from a file"
        body = plain("chat")
        body["messages"].append({"role": "assistant", "content": "x"})
        assert post(reached, "chat", body).json["object"] == "error"
        with urllib.request.urlopen(f"{reached.root}/seen", timeout=5) as answer:
            seen = json.load(answer)
        assert len(seen["requests"]) == 3 and seen["violations"][0].startswith("request 2: chat-ends")
        assert process.stderr.readline().startswith("noria.testing: request 2: chat-ends: Expected last role")
        process.send_signal(2)
        assert process.wait(10) == 0


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--fault", "0=sit"], "there is no fault 'sit'"),
        (["--fault", "x"], "--fault takes N=WHAT"),
        (["--profile", "x"], "there is no profile 'x'"),
        (["--script", "/nowhere"], "No such file"),
    ],
)
def test_arguments_of_the_process_that_are_wrong(arguments: list[str], says: str) -> None:
    command = [sys.executable, "-m", "noria.testing", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 2 and says in done.stderr and len(done.stderr.splitlines()) == 1


def test_the_table_can_be_printed() -> None:
    command = [sys.executable, "-m", "noria.testing", "--rules"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
    assert "| messages-signatures | A block of thinking was signed by this server" in done.stdout
