"""Which proxy a request of the web tools goes through: what HTTPS_PROXY, HTTP_PROXY, ALL_PROXY and NO_PROXY say.

Owns: the reading of these variables, by the standard library's rules. Must not know: sockets, or whether a proxy may be
used for what is asked.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from urllib.parse import unquote, urlsplit

import msgspec

from noria.tools.addresses import Target
from noria.tools.result import ToolError


class Way(msgspec.Struct, frozen=True):
    """A proxy, by a literal address; `authorization` is the value of its header, or nothing."""

    host: str
    port: int
    authorization: str = ""


def proxy_of(target: Target, env: Mapping[str, str] | None = None) -> tuple[str, int, str] | None:
    """Host, port and authorization of the proxy for the target, or None. Raises ToolError for a proxy that cannot be
    used."""
    found = os.environ if env is None else env
    names = [f"{target.scheme}_proxy", f"{target.scheme}_proxy".upper(), "all_proxy", "ALL_PROXY"]
    if "REQUEST_METHOD" in found:  # inside a CGI program a client can set this one
        names = [n for n in names if n != "HTTP_PROXY"]
    value = next((found[n].strip() for n in names if found.get(n, "").strip()), "")
    if not value or _exempt(target, found.get("no_proxy") or found.get("NO_PROXY") or ""):
        return None
    try:
        parts = urlsplit(value if "://" in value else f"http://{value}")
        host, port = parts.hostname, parts.port or 80
    except ValueError:
        raise ToolError("the proxy that the environment names is no address") from None
    if parts.scheme != "http" or not host:
        raise ToolError("only a proxy with an address like http://host:port can be used")
    login = ""
    if parts.username is not None:
        from base64 import b64encode

        plain = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        login = f"Basic {b64encode(plain.encode()).decode('ascii')}"
    return host, port, login


def _exempt(target: Target, no_proxy: str) -> bool:
    """Whether NO_PROXY names the host: `*`, a name with all below it, an address, a network, each with or without a
    port."""
    from ipaddress import ip_address, ip_network

    for item in no_proxy.replace(",", " ").lower().split():
        if item == "*":
            return True
        host, colon, port = item.rpartition(":")
        if colon and port.isdigit() and (":" not in host or host.endswith("]")):
            if int(port) != target.port:
                continue
            item = host
        item = item.strip("[]").removeprefix("*").lstrip(".")
        if "/" in item:
            try:
                if ip_address(target.host) in ip_network(item, strict=False):
                    return True
            except ValueError:
                pass
        elif item and (target.host == item or target.host.endswith(f".{item}")):
            return True
    return False
