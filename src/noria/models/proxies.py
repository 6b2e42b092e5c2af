"""Which proxy a request goes through: HTTPS_PROXY, HTTP_PROXY, ALL_PROXY and NO_PROXY, in either case.

Owns: the reading of these variables. Must not know: sockets. Nothing is exempt that NO_PROXY does not name.
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import unquote, urlsplit

import msgspec

from noria.models.errors import TransportError


class Proxy(msgspec.Struct, frozen=True):
    """A proxy's address; `authorization` is the value of its header, empty where it asks for none."""

    host: str
    port: int
    tls: bool = False
    authorization: str = ""


def proxy_for(scheme: str, host: str, port: int, env: Mapping[str, str]) -> Proxy | None:
    """The proxy for that server, or None. Lower case wins over upper case; the scheme's own over ALL_PROXY.

    HTTP_PROXY in upper case is not believed inside a CGI program, where a client can set it. Raises TransportError
    (bad_request) for a proxy that cannot be used.
    """
    names = [f"{scheme}_proxy", f"{scheme}_proxy".upper(), "all_proxy", "ALL_PROXY"]
    if "REQUEST_METHOD" in env and "HTTP_PROXY" in names:
        names.remove("HTTP_PROXY")
    value, name = next(((env[n].strip(), n) for n in names if env.get(n, "").strip()), ("", ""))
    if not value or exempt(host, port, env.get("no_proxy") or env.get("NO_PROXY") or ""):
        return None
    return _parse(value, name)


def _parse(value: str, name: str) -> Proxy:
    try:
        parts = urlsplit(value if "://" in value else "http://" + value)
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port, parts = None, None, urlsplit("")
    if parts.scheme not in ("http", "https") or not host:
        raise TransportError(
            "bad_request",
            f"{name} names a proxy that cannot be used: an address like http://host:port is needed (SOCKS is not "
            "supported); correct it, or name the server in NO_PROXY",
        )
    tls = parts.scheme == "https"
    return Proxy(host, port or (443 if tls else 80), tls, login(value if "://" in value else "http://" + value))


def login(url: str) -> str:
    """The header value for the login in an address (`https://name:word@host`); empty where there is none."""
    parts = urlsplit(url)
    if parts.username is None:
        return ""
    from base64 import b64encode

    return "Basic " + b64encode(f"{unquote(parts.username)}:{unquote(parts.password or '')}".encode()).decode("ascii")


def secrets_in(url: str) -> tuple[str, ...]:
    """What is secret of the login in an address: the password as it is written and as it is meant, and the value that
    is sent; none where there is none."""
    try:
        written = urlsplit(url.strip()).password or ""
        return (written, unquote(written), login(url).rpartition(" ")[2]) if written else ()
    except ValueError:
        return ()


def exempt(host: str, port: int, no_proxy: str) -> bool:
    """Whether NO_PROXY names the server: `*`, a name with all below it, an address, a network (10.0.0.0/8), each with
    or without a port."""
    host = host.strip("[]").lower()
    for item in no_proxy.replace(",", " ").lower().split():
        if item == "*":
            return True
        name, item_port = _split_port(item)
        if item_port and item_port != port:
            continue
        name = name.strip("[]").removeprefix("*").lstrip(".")
        if name and (host == name or host.endswith("." + name) or ("/" in name and _in_network(host, name))):
            return True
    return False


def _split_port(item: str) -> tuple[str, int]:
    name, colon, port = item.rpartition(":")
    if colon and port.isdigit() and (":" not in name or name.endswith("]")):
        return name, int(port)
    return item, 0


def _in_network(host: str, network: str) -> bool:
    from ipaddress import ip_address, ip_network

    try:
        return ip_address(host) in ip_network(network, strict=False)
    except ValueError:
        return False


def shown_url(url: str) -> str:
    """An address without its query and without a login in it: both may be secret."""
    bare = url.split("?", 1)[0]
    scheme, mark, rest = bare.partition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme}{mark}{host.rpartition('@')[2]}{slash}{path}" if mark else bare
