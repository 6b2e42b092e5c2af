"""What a provider would refuse in a Chat Completions request, checked without noria's help (INV-H of the cases)."""

from __future__ import annotations

import json
from typing import Any


def check_history(request: dict[str, Any]) -> None:
    """Raise AssertionError where the messages of a request are not legal."""
    messages = request["messages"]
    assert messages[0]["role"] == "system" and messages[0]["content"].strip()
    seen: set[str] = set()
    last = ""
    k = 1
    while k < len(messages):
        message = messages[k]
        role = message["role"]
        assert role in ("user", "assistant"), f"a {role} message at {k} answers nothing"
        assert role != last, f"two {role} messages in a row at {k}"
        last = role
        k += 1
        if role == "user":
            assert _has_text(message["content"]), f"an empty user message at {k}"
            continue
        assert message["content"] is None or message["content"].strip(), "empty assistant content must be null"
        calls = message.get("tool_calls")
        assert calls is None or calls, "tool_calls must not be an empty list"
        assert calls or message["content"], "an assistant message without anything"
        for call in calls or []:
            assert set(call) == {"id", "type", "function"} and call["type"] == "function"
            assert isinstance(json.loads(call["function"]["arguments"]), dict)
            assert call["id"] and call["id"] not in seen, f"the id {call['id']} was used before"
            seen.add(call["id"])
            assert k < len(messages), "a call has no result"
            result = messages[k]
            assert set(result) == {"role", "tool_call_id", "content"} and result["role"] == "tool"
            assert result["tool_call_id"] == call["id"], "results must stand in call order"
            k, last = k + 1, "tool"
    assert last in ("user", "tool"), "a request must end on the user's side"


def _has_text(content: Any) -> bool:
    if isinstance(content, str):
        return bool(content.strip())
    return bool(content) and all(p["type"] != "text" or p["text"].strip() for p in content)
