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
    "GIT_TERMINAL_PROMPT": "0",
    "SSH_ASKPASS_REQUIRE": "never",
    "DEBIAN_FRONTEND": "noninteractive",
    "PIP_NO_INPUT": "1",
    "TERM": "dumb",
}

# The keys that noria itself may be using. What else looks like a secret stays: commands may need it.
KEYS = frozenset(
    [
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_AUTH_TOKEN",
        "OPENAI_API_KEY",
        "GEMINI_API_KEY",
        "GOOGLE_API_KEY",
        *(f"{vendor}_API_KEY" for vendor in ("AZURE_OPENAI", "CEREBRAS", "COHERE", "DASHSCOPE", "DEEPSEEK")),
        *(f"{vendor}_API_KEY" for vendor in ("FIREWORKS", "GROQ", "KIMI", "MINIMAX", "MISTRAL", "MOONSHOT")),
        *(f"{vendor}_API_KEY" for vendor in ("NVIDIA", "OPENROUTER", "PERPLEXITY", "TOGETHER", "XAI", "ZAI")),
    ]
)


def environment(
    given: Mapping[str, str] | None = None, *, hide: Iterable[str] = (), show: Iterable[str] = ()
) -> dict[str, str]:
    """The environment of commands: the given one (this process's own) without the agent's keys, with QUIET.

    `hide`: more names to leave out (those that the configuration takes keys from); `show`: names to leave in after
    all. noria's own settings for models are left out too, since their headers may hold keys.
    """
    hidden = (KEYS | set(hide)) - set(show)
    source = os.environ if given is None else given
    kept = {k: v for k, v in source.items() if k not in hidden and not k.startswith("NORIA_MODELS")}
    return kept | QUIET
