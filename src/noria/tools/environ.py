"""The environment that commands get: this process's own, without the agent's keys, and nothing that waits for a person.

Knows nothing of how a process is started.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

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
