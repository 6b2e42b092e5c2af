"""The servers of this machine, found by asking real ones that answer as the documentation of each has it."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from noria.models.local import PATIENCE, LocalModel, LocalServer, address, servers

OLLAMA: dict[str, Any] = {
    "/api/tags": {"models": [
        {"name": "qwen3:8b", "model": "qwen3:8b", "size": 5, "details": {"family": "qwen3"}},
        {"name": "llava:latest"}, {"name": "nomic-embed-text:latest"}, {"name": "plain:latest"},
    ]},
    "/api/ps": {"models": [{"name": "qwen3:8b", "size_vram": 1, "context_length": 16384}]},
    "/api/show qwen3:8b": {"capabilities": ["completion", "tools", "thinking"], "parameters": "num_ctx  8192",
                           "model_info": {"general.architecture": "qwen3", "qwen3.context_length": 40960}},
    "/api/show llava:latest": {"capabilities": ["completion", "vision"], "parameters": "stop \"USER:\"\nnum_ctx 4096",
                               "model_info": {"llama.context_length": 32768}},
    "/api/show nomic-embed-text:latest": {"capabilities": ["embedding"], "model_info": {"bert.context_length": 2048}},
}  # fmt: skip
LM_STUDIO: dict[str, Any] = {
    "/api/v0/models": {"object": "list", "data": [
        {"id": "qwen2-vl-7b-instruct", "object": "model", "type": "vlm", "state": "not-loaded",
         "max_context_length": 32768},
        {"id": "qwen2.5-coder", "object": "model", "type": "llm", "state": "loaded", "max_context_length": 32768,
         "loaded_context_length": 4096, "capabilities": ["tool_use"]},
        {"id": "text-embedding-nomic", "object": "model", "type": "embeddings", "state": "not-loaded"},
    ]},
}  # fmt: skip
LLAMA: dict[str, Any] = {
    "/v1/models": {"object": "list", "models": [], "data": [
        {"id": "qwen3.gguf", "object": "model", "owned_by": "llamacpp", "meta": {"n_ctx_train": 131072}}]},
    "/props": {"default_generation_settings": {"n_ctx": 8192}, "total_slots": 1, "modalities": {"vision": False},
               "chat_template_caps": {"supports_tools": True}},
}  # fmt: skip
VLLM: dict[str, Any] = {
    "/v1/models": {"object": "list", "data": [
        {"id": "Qwen/Qwen3-8B", "object": "model", "owned_by": "vllm", "root": "x", "max_model_len": 32768},
        {"id": "BAAI/bge-embedding", "object": "model", "owned_by": "vllm", "max_model_len": 512}]},
}  # fmt: skip
FOUND = {
    "Ollama": (OLLAMA, (
        LocalModel("qwen3:8b", 16_384, 40_960, True, False, True, True),
        LocalModel("llava:latest", 4_096, 32_768, False, True, False, False),
        LocalModel("plain:latest", loaded=False))),
    "LM Studio": (LM_STUDIO, (
        LocalModel("qwen2-vl-7b-instruct", 0, 32_768, None, True, None, False),
        LocalModel("qwen2.5-coder", 4_096, 32_768, True, False, None, True))),
    "llama.cpp": (LLAMA, (LocalModel("qwen3.gguf", 8_192, 131_072, True, False),)),
    "vLLM": (VLLM, (LocalModel("Qwen/Qwen3-8B", 32_768),)),
}  # fmt: skip


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    answers: Mapping[str, Any]
    asked: list[str]

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        key = f"{self.path} {json.loads(body)['model']}" if body else self.path
        self.asked.append(key)
        found = self.answers.get(key)
        told = found if isinstance(found, bytes) else json.dumps(found or {"error": "not found"}).encode()
        self.send_response(200 if found is not None else 404)
        self.send_header("content-length", str(len(told)))
        self.end_headers()
        self.wfile.write(told)

    do_GET = do_POST = _answer

    def log_message(self, format: str, *args: object) -> None:
        """Nothing is logged."""


@contextmanager
def serving(answers: Mapping[str, Any]) -> Iterator[tuple[int, list[str]]]:
    """A server with these answers; its port, and what it is asked."""
    asked: list[str] = []
    kind = type("Given", (Handler,), {"answers": answers, "asked": asked})
    server = ThreadingHTTPServer(("127.0.0.1", 0), kind)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield server.server_address[1], asked
    finally:
        server.shutdown()
        server.server_close()


def find(
    ports: Mapping[str, int], env: Mapping[str, str] | None = None, more: tuple[str, ...] = ()
) -> list[LocalServer]:
    return asyncio.run(asyncio.wait_for(servers(env or {}, more, ports), 30))


@pytest.mark.parametrize("kind", FOUND)
def test_each_kind_is_found_at_its_port_and_read_as_it_documents_itself(kind: str) -> None:
    answers, models = FOUND[kind]
    with serving(answers) as (port, _):
        assert find({kind: port}) == [LocalServer(kind, f"http://127.0.0.1:{port}/v1", models)]


def test_all_are_asked_at_once_and_told_in_their_order() -> None:
    with serving(OLLAMA) as (a, _), serving(LM_STUDIO) as (b, _), serving(LLAMA) as (c, _), serving(VLLM) as (d, _):
        found = find({"Ollama": a, "LM Studio": b, "llama.cpp": c, "vLLM": d})
    assert [s.kind for s in found] == ["Ollama", "LM Studio", "llama.cpp", "vLLM"]


def test_a_server_is_called_what_it_says_it_is_not_what_its_port_suggests() -> None:
    with serving(VLLM) as (port, _):
        assert find({"llama.cpp": port})[0].kind == "vLLM"
        assert find({"Ollama": port})[0].kind == "vLLM"
    plain = {"/v1/models": {"data": [{"id": "m", "owned_by": "me"}]}}
    with serving(plain) as (port, _):
        assert find({}, more=(f"http://localhost:{port}/v1",))[0].kind == "OpenAI-compatible server"
        assert find({"vLLM": port})[0].kind == "OpenAI-compatible server"  # llama-cpp-python, at vLLM's port


@pytest.mark.parametrize(
    "answers",
    [
        {},
        {"/v1/models": b"<html>hello</html>"},
        {"/v1/models": b"[1, 2]"},
        {"/v1/models": b""},
        {"/v1/models": {"data": []}},
        {"/v1/models": {"data": "x"}},
        {"/v1/models": {"data": [1, {"id": 2}, {"id": ""}]}},
        {"/v1/models": b"[" * 100_000},
        {"/v1/models": b" " * (5 << 20) + b"{}"},
    ],
)
def test_what_answers_something_else_is_not_there(answers: dict[str, Any]) -> None:
    with serving(answers) as (port, _):
        assert find({"vLLM": port, "Ollama": port}) == []


def test_an_ollama_without_models_is_there() -> None:
    with serving({"/api/tags": {"models": []}}) as (port, _):
        assert find({"Ollama": port}) == [LocalServer("Ollama", f"http://127.0.0.1:{port}/v1")]


def test_who_is_slow_or_not_there_does_not_hold_up_the_rest() -> None:
    with socket.socket() as mute, serving(VLLM) as (port, _):
        mute.bind(("127.0.0.1", 0))
        mute.listen()
        began = time.monotonic()
        found = find({"Ollama": mute.getsockname()[1], "LM Studio": 1, "vLLM": port})
        took = time.monotonic() - began
    assert [s.kind for s in found] == ["vLLM"]
    assert took < 10 * PATIENCE


def test_what_was_told_in_time_is_not_lost_for_what_was_not() -> None:
    """A server that has to read a large file before it says what a model can do has its models all the same."""

    class Slow(dict[str, Any]):
        def get(self, key: str, other: Any = None) -> Any:
            if key.startswith("/api/show"):
                time.sleep(1.5)
            return super().get(key, other)

    with serving(Slow({"/api/tags": {"models": [{"name": "big"}]}, "/api/show big": {}})) as (port, _):
        assert find({"Ollama": port}) == [
            LocalServer("Ollama", f"http://127.0.0.1:{port}/v1", (LocalModel("big", loaded=False),))
        ]


def test_ollama_host_says_where_it_is_and_nobody_else_is_asked_twice() -> None:
    with serving(OLLAMA) as (port, asked):
        found = find({"Ollama": 1}, {"OLLAMA_HOST": f"0.0.0.0:{port}"}, (f"http://127.0.0.1:{port}/v1",))
        assert [s.kind for s in found] == ["Ollama"]
        assert asked.count("/api/tags") == 1


@pytest.mark.parametrize(
    ("said", "place"),
    [
        ("", None), ("127.0.0.1", ("127.0.0.1", 11434)), ("0.0.0.0", ("127.0.0.1", 11434)),
        (":11500", ("127.0.0.1", 11500)),
        ("localhost:9", ("127.0.0.1", 9)), ("http://127.0.0.1:8080/v1", ("127.0.0.1", 8080)), ("[::1]:7", ("::1", 7)),
        ("http://192.168.1.9:11434", None), ("https://127.0.0.1:1", None), ("example.com", None), ("127.0.0.1:x", None),
        ("http://[bad", None), ("169.254.169.254", None), ("127.0.0.1.evil.example:80", None),
    ],
)  # fmt: skip
def test_only_this_machine_is_asked(said: str, place: tuple[str, int] | None) -> None:
    assert address(said, 11434) == place
