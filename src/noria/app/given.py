"""From the configuration to what the tools of a session are given: the web, and where memory lies.

Owns: which keys mean what for them, and what is wrong with these. Must not know: how a tool works.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from noria.core.errors import UsageError
from noria.tools.memory import NOWHERE, Memory
from noria.tools.web import NO_SEARCH, USUAL, Web

if TYPE_CHECKING:
    from noria.app.settings import Config

KEYS = {"brave": "BRAVE_API_KEY", "tavily": "TAVILY_API_KEY"}
"""The variable that has the key of a search backend, where the configuration names none."""


def web(config: Config, env: Mapping[str, str]) -> Web:
    """What the web tools are given. Raises UsageError for a host or a backend that is none."""
    if not (config.web_allow or config.web_proxy or config.web_search):
        return USUAL
    from noria.tools.addresses import Allowed

    try:
        Allowed(config.web_allow)
    except ValueError as error:
        raise UsageError(f"web_allow: {error}") from None
    search, why = None, NO_SEARCH
    if config.web_search:
        from noria.tools.web_search import backend

        variable = search_variable(config)
        key = env.get(variable, "").strip() if variable else ""
        if variable and not key:
            why = f"the key of {config.web_search} is missing: a person sets {variable}"
        else:
            try:
                search = backend(config.web_search, config.web_search_url, key)
            except ValueError as error:
                raise UsageError(str(error)) from None
    return Web(tuple(config.web_allow), config.web_proxy, search, why)


def search_variable(config: Config) -> str:
    """The variable of the environment that has the search backend's key; empty where it needs none."""
    return config.web_search_key_env or KEYS.get(config.web_search, "") if config.web_search else ""


def memory(config: Config, data: str) -> Memory:
    """Where memory lies; nowhere while it is off. `data`: the data folder."""
    if not config.memory:
        return NOWHERE
    return Memory(os.path.abspath(os.path.expanduser(config.memory_dir)) if config.memory_dir else f"{data}/memory")
