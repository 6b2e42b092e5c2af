"""The environment that commands get: this process's own, without the agent's keys, and nothing that waits for a person.

Owns: which variables are keys, and hiding them: from commands, from who looks into /proc, in what tools give back.
Knows nothing of how a process is started.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import msgspec

from noria.core.content import Call, Result, Text

if TYPE_CHECKING:
    from noria.tools.toolbox import Edits

# Nothing may wait for a person, page, or open an editor.
QUIET = {
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "MANPAGER": "cat",
    "SYSTEMD_PAGER": "cat",
    "EDITOR": "true",
    "VISUAL": "true",
    "GIT_EDITOR": "true",
    "GIT_SEQUENCE_EDITOR": "true",
    "HGEDITOR": "true",
    "GIT_TERMINAL_PROMPT": "0",
    "SSH_ASKPASS_REQUIRE": "never",
    "DEBIAN_FRONTEND": "noninteractive",
    "PIP_NO_INPUT": "1",
    "TERM": "dumb",
    "NO_COLOR": "1",
}

# What would have programs write for a terminal all the same.
LOUD = ("FORCE_COLOR", "CLICOLOR_FORCE")

# The tables of noria's own settings that may hold keys or headers.
TABLES = ("NORIA_MODELS", "NORIA_MCP", "NORIA_WEB_SEARCH")

# The keys that noria itself may be using. What else looks like a secret stays: commands may need it.
KEYS = frozenset(
    [
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_AUTH_TOKEN",
        "OPENAI_API_KEY",
        "GEMINI_API_KEY",
        "GOOGLE_API_KEY",
        "AI_GATEWAY_API_KEY",
        "BRAVE_API_KEY",
        "TAVILY_API_KEY",
        *(
            f"{vendor}_API_KEY"
            for vendor in ("AZURE_OPENAI", "BASETEN", "CEREBRAS", "COHERE", "DASHSCOPE", "DEEPINFRA")
        ),
        *(f"{vendor}_API_KEY" for vendor in ("DEEPSEEK", "FIREWORKS", "GROQ", "HYPERBOLIC", "KIMI", "MINIMAX")),
        *(f"{vendor}_API_KEY" for vendor in ("MISTRAL", "MOONSHOT", "NEBIUS", "NVIDIA", "OLLAMA", "OPENROUTER")),
        *(f"{vendor}_API_KEY" for vendor in ("PERPLEXITY", "SAMBANOVA", "SILICONFLOW", "TOGETHER", "XAI", "ZAI")),
        "ZHIPUAI_API_KEY",
    ]
)


def environment(
    given: Mapping[str, str] | None = None, *, hide: Iterable[str] = (), show: Iterable[str] = ()
) -> dict[str, str]:
    """The environment of commands: the given one (this process's own) without the agent's keys, with QUIET.

    `hide`: more names to leave out (those that the configuration takes keys from); `show`: names to leave in after
    all. noria's own settings for models are left out too, since their headers may hold keys.
    """
    hidden = (KEYS | set(hide) | set(LOUD)) - set(show)
    source = os.environ if given is None else given
    kept = {k: v for k, v in source.items() if k not in hidden and not k.startswith(TABLES)}
    return kept | QUIET


def is_key(name: str, more: Iterable[str] = ()) -> bool:
    """Whether a variable holds a key of the agent's."""
    return name in KEYS or name.startswith(TABLES) or name in more


def overwrite(more: Iterable[str] = ()) -> int:
    """Overwrite the agent's keys in the memory that /proc/PID/environ shows, so that no command reads them there,
    whoever it runs as; how many. `os.environ` has them all the same; what is started with no environment of its own
    has not. 0 where the system has no such thing (it is Linux's)."""
    named, done = frozenset(more), 0
    try:
        with open("/proc/self/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        start, end = int(fields[47]), int(fields[48])  # env_start and env_end of proc(5)
        with open("/proc/self/mem", "r+b", buffering=0) as memory:
            memory.seek(start)
            at = start
            for entry in memory.read(end - start).split(b"\0"):
                name, _, value = entry.partition(b"=")
                if value and is_key(os.fsdecode(name), named):
                    memory.seek(at + len(name) + 1)
                    memory.write(b"*" * len(value))
                    done += 1
                at += len(entry) + 1
    except (OSError, ValueError, IndexError, OverflowError):
        return done
    return done


LEAST = 12  # characters of a key that is hidden wherever it stands: a shorter one may be a word
MOST = 1 << 26  # bytes of a kept output that are searched
HIDDEN = "[a key of noria's, hidden]"


class Hiding:
    """A stage after every tool: the agent's keys are in no result, and so neither in the journal nor with a model."""

    def __init__(self, secrets: Iterable[str]) -> None:
        self._secrets = sorted({s for s in secrets if len(s) >= LEAST}, key=len, reverse=True)

    async def __call__(self, call: Call, result: Result) -> Result:
        """The result without them; the same object where there are none. In the file that has the whole output they
        are overwritten."""
        if result.spill and self._secrets:
            self._overwrite(result.spill)
        texts = [part.text for part in result.content if isinstance(part, Text)]
        if not any(secret in text for secret in self._secrets for text in texts):
            return result
        return msgspec.structs.replace(
            result, content=tuple(Text(self._without(p.text)) if isinstance(p, Text) else p for p in result.content)
        )

    def _overwrite(self, path: str) -> None:
        """As many bytes as there were: whoever writes to the file or reads it in pages goes on as before."""
        try:
            with open(path, "r+b") as file:
                data = file.read(MOST)
                for secret in (each.encode("utf-8", "surrogateescape") for each in self._secrets):
                    at = data.find(secret)
                    while at >= 0:
                        file.seek(at)
                        file.write(b"*" * len(secret))
                        at = data.find(secret, at + len(secret))
        except OSError:
            pass  # it is gone, or was never kept

    def edits(self, edits: Edits) -> Edits:
        """The same for texts that a call changed, before people see how."""
        return tuple(
            (name, before and self._without(before), now and self._without(now)) for name, before, now in edits
        )

    def _without(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, HIDDEN)
        return text
