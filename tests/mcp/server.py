"""A server over stdio, written by hand so that its oddities can be chosen: a JSON file says what it does.

    python server.py PLAN.json

The plan: `tools` (the list as it is sent), `answers` (by tool: a result, or a list of them, the last one for ever),
`errors` (by tool: a JSON-RPC error), `raw` (by tool: the whole answer but its number), `log` (a file: each message that
came, a line each), `noise` (texts, in base64, before the first answer), `slow` (seconds before the handshake is
answered; -1: never), `hang` (methods or tools that are never answered), `die` (a tool in whose call it ends; `once`: a
file that keeps it from doing so again), `stderr` (bytes that it writes first), `exit` (at once, with this status),
`spawn` (a program that it leaves running), `deaf` (it ignores TERM and the end of its input), `pages` (tools on a
page), `init` (replaces the handshake's result).
"""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
import sys
import time

with open(sys.argv[1]) as file:
    PLAN = json.load(file)
COUNT: dict[str, int] = {}


def send(message: object) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def log(line: str) -> None:
    if "log" in PLAN:
        with open(PLAN["log"], "a") as file:
            file.write(f"{line}\n")


def answer(message: dict) -> None:
    method, params = message.get("method"), message.get("params") or {}
    hang = PLAN.get("hang", ())
    if method in hang or params.get("name") in hang:
        return
    base = {"jsonrpc": "2.0", "id": message["id"]}
    if method == "initialize":
        if PLAN.get("slow", 0) < 0:
            return
        time.sleep(PLAN.get("slow", 0))
        result = {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}},
                  "serverInfo": {"name": "by hand", "version": "1"}}  # fmt: skip
        send(base | {"result": PLAN.get("init", result)})
    elif method == "tools/list":
        tools, size = PLAN.get("tools", []), PLAN.get("pages", 1_000)
        first = int(params.get("cursor") or 0)
        more = {"nextCursor": str(first + size)} if first + size < len(tools) else {}
        send(base | {"result": {"tools": tools[first : first + size], **more}})
    elif method == "tools/call":
        call(base, params)
    else:
        send(base | {"error": {"code": -32601, "message": f"no {method}"}})


def call(base: dict, params: dict) -> None:
    name = params["name"]
    if name == PLAN.get("die") and not os.path.exists(PLAN.get("once", "")):
        if "once" in PLAN:
            open(PLAN["once"], "w").close()
        sys.stderr.write("out of luck\n")
        sys.stderr.flush()
        os._exit(3)
    if name in PLAN.get("raw", {}):
        send({"id": str(base["id"])} | PLAN["raw"][name])
    elif name in PLAN.get("errors", {}):
        send(base | {"error": PLAN["errors"][name]})
    elif name in PLAN.get("answers", {}):
        found = PLAN["answers"][name]
        if isinstance(found, list):
            COUNT[name] = COUNT.get(name, -1) + 1
            found = found[min(COUNT[name], len(found) - 1)]
        send(base | {"result": found})
    elif name == "echo":
        said = json.dumps(params.get("arguments"))
        send(base | {"result": {"content": [{"type": "text", "text": said}]}})
    elif name == "env":
        send(base | {"result": {"content": [{"type": "text", "text": json.dumps(dict(os.environ))}]}})
    elif name == "cwd":
        send(base | {"result": {"content": [{"type": "text", "text": os.getcwd()}]}})
    else:
        send(base | {"error": {"code": -32602, "message": f"Unknown tool: {name}"}})


def main() -> None:
    log(f"started {os.getpid()}")
    if "exit" in PLAN:
        sys.stderr.write("it will not do\n")
        sys.exit(PLAN["exit"])
    if PLAN.get("deaf"):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if "spawn" in PLAN:
        subprocess.Popen(PLAN["spawn"], stdin=subprocess.DEVNULL)
    sys.stderr.write("x" * 99 + "\n")
    for _ in range(PLAN.get("stderr", 0) // 100):
        sys.stderr.write("x" * 99 + "\n")
    for line in PLAN.get("noise", ()):
        sys.stdout.buffer.write(base64.b64decode(line))
        sys.stdout.buffer.flush()
    for line in sys.stdin:
        log(line.strip())
        message = json.loads(line)
        if "id" in message and "method" in message:
            answer(message)
    while PLAN.get("deaf"):
        time.sleep(1)


main()
