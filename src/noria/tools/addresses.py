"""Which addresses the web tools may connect to: the public ones, and what a person has named.

Owns: what an address in a URL may look like, which network addresses are public, the allow list. Must not know: HTTP.
A name is resolved once; every address that it has is checked, and one of those very addresses is connected to, so that
no second answer of a name server can lead elsewhere.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Awaitable, Callable, Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import TypeAlias
from urllib.parse import quote, urlsplit

import msgspec

from noria.tools.aside import aside
from noria.tools.result import ToolError

Resolve: TypeAlias = Callable[[str, int], Awaitable[Sequence[str]]]
"""The addresses of a host. Raises OSError where it has none."""

LONGEST = 8_000  # characters of an address

# IANA's registries of special-purpose addresses, with the one public address that belongs to a cloud's inside (Azure).
_CLOSED_4 = tuple(
    map(
        ip_network,
        (
            "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12",
            "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24",
            "203.0.113.0/24", "224.0.0.0/3", "168.63.129.16/32",
        ),
    )
)  # fmt: skip
_OPEN_6 = ip_network("2000::/3")  # all that is global unicast
_CLOSED_6 = tuple(map(ip_network, ("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20")))
_WITH_4_INSIDE = (ip_network("::ffff:0:0/96"), ip_network("64:ff9b::/96"))  # mapped, and NAT64 of the public kind


class Target(msgspec.Struct, frozen=True):
    """Where a request goes. `host` is in ASCII, without brackets; `path` has the query; `url` is the whole again."""

    scheme: str
    host: str
    port: int
    path: str
    url: str

    @property
    def authority(self) -> str:
        """Host and port as a Host header has them."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == (443 if self.scheme == "https" else 80) else f"{host}:{self.port}"


def target(url: str) -> Target:
    """The target that a URL names. Raises ToolError for what is none, or could mean two things to two readers."""
    if len(url) > LONGEST:
        raise ToolError(f"the address is longer than {LONGEST:,} characters")
    if re.search(r"[\x00-\x20\x7f\\]", url):
        raise ToolError("an address has no blanks, control characters or backslashes: write them as %20, %5C")
    scheme, mark, _ = url.partition("://")
    if scheme.lower() not in ("http", "https") or not mark:
        raise ToolError(f"only http:// and https:// addresses can be fetched, not {_short(url)}")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise ToolError(f"{_short(url)} is no address: {error}") from None
    if "@" in parts.netloc:
        raise ToolError("an address with a login in it (user@host) is not fetched: leave the login out")
    host = _ascii(parts.hostname or "")
    if not host:
        raise ToolError(f"{_short(url)} names no host")
    path = quote(parts.path or "/", safe="/%:@!$&'()*+,;=~-._[]|")
    query = f"?{quote(parts.query, safe=_QUERY)}" if parts.query else ""
    scheme = scheme.lower()
    port = (443 if scheme == "https" else 80) if port is None else port
    found = Target(scheme, host, port, f"{path}{query}", "")
    return msgspec.structs.replace(found, url=f"{scheme}://{found.authority}{found.path}")


_QUERY = "/%:@!$&'()*+,;=~-._?[]|"


def _ascii(host: str) -> str:
    """The host as it is looked up: small letters, punycode, no dot at its end. Raises ToolError."""
    if ":" in host:
        try:
            if "%" in host:
                raise ValueError
            return str(IPv6Address(host))
        except ValueError:
            raise ToolError(f"{host} is no address of a host") from None
    try:
        plain = host.encode("idna").decode("ascii") if not host.isascii() else host
    except UnicodeError:
        raise ToolError(f"{_short(host)} is no name of a host") from None
    plain = plain.lower().removesuffix(".")
    if plain and not re.fullmatch(r"[a-z0-9_-]+(\.[a-z0-9_-]+)*", plain):
        raise ToolError(f"{_short(host)} is no name of a host")
    last = plain.rpartition(".")[2]
    if last.isdigit() or re.fullmatch(r"0x[0-9a-f]*", last):  # every form in which an IPv4 address can be written
        try:
            return str(IPv4Address(socket.inet_aton(plain)))
        except OSError:
            raise ToolError(f"{host} is no address of a host") from None
    return plain


def public(address: str) -> bool:
    """Whether an address is one that anybody on the Internet could have. What is none is not."""
    try:
        found = ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if "%" in address:
        return False
    if isinstance(found, IPv4Address):
        return not any(found in network for network in _CLOSED_4)
    if any(found in network for network in _WITH_4_INSIDE):
        return public(str(IPv4Address(int(found) & 0xFFFFFFFF)))
    return found in _OPEN_6 and not any(found in network for network in _CLOSED_6)


class Allowed:
    """The allow list of the configuration: `localhost:8000`, `docs.internal`, `*.corp.example`, `10.1.0.0/16`,
    `[::1]:8080`. Without a port it is every port."""

    def __init__(self, entries: Sequence[str]) -> None:
        """Raises ValueError for an entry that is none of these."""
        self._entries = tuple(map(_entry, entries))

    def host(self, target: Target) -> bool:
        """Whether the host is named, so that all its addresses may be connected to."""
        return any(self._fits(each, target.host, target.port) for each in self._entries)

    def address(self, address: str, port: int) -> bool:
        """Whether this address is named, or a network that it is in."""
        return any(self._fits(each, address, port) for each in self._entries)

    @staticmethod
    def _fits(entry: _Entry, host: str, port: int) -> bool:
        if entry.port and entry.port != port:
            return False
        if "/" in entry.host:
            try:
                return ip_address(host) in ip_network(entry.host)
            except ValueError:
                return False
        if entry.host.startswith("*."):
            return host.endswith(entry.host[1:])
        return host == entry.host


class _Entry(msgspec.Struct, frozen=True):
    host: str
    port: int = 0


def _entry(text: str) -> _Entry:
    """One entry of the list. Raises ValueError."""
    if "/" in text:
        return _Entry(str(ip_network(text, strict=False)))
    wild = "*." if text.startswith("*.") else ""
    try:
        parts = urlsplit(f"//{text.removeprefix(wild)}")
        host, port = _ascii(parts.hostname or ""), parts.port or 0
    except ToolError as error:
        raise ValueError(str(error)) from None
    if not host or "@" in text or parts.path or parts.query:
        raise ValueError(f"{text!r} is no host: write a name, an address or a network, with or without a port")
    return _Entry(wild + host, port)


async def addresses(target: Target, allowed: Allowed, resolve: Resolve) -> list[str]:
    """The addresses of the target, each of which may be connected to. Raises ToolError where one may not."""
    try:
        literal = str(ip_address(target.host))
        found: Sequence[str] = [literal]
    except ValueError:
        try:
            found = list(dict.fromkeys(await resolve(target.host, target.port)))
        except OSError as error:
            why = error.strerror or str(error)
            raise ToolError(f"the host {target.host} cannot be found ({why}): check the address") from None
        if not found:
            raise ToolError(f"the host {target.host} has no address") from None
    if not allowed.host(target):
        for address in found:
            if not public(address) and not allowed.address(_plain(address), target.port):
                why = "is not a public address" if address == target.host else f"is {address}"
                raise ToolError(_closed(target, why))
    return _interleaved(found)


def _plain(address: str) -> str:
    """An IPv4 address that is written as an IPv6 one, as itself."""
    try:
        found = ip_address(address)
    except ValueError:
        return address
    inner = found.ipv4_mapped if isinstance(found, IPv6Address) else None
    return str(inner or found)


def _closed(target: Target, why: str) -> str:
    return (
        f"{target.host} {why}: web_fetch only reaches the public Internet. Do not try other spellings of it. A person "
        f'can allow it in the configuration: web_allow = ["{target.authority}"]'
    )


def _interleaved(found: Sequence[str]) -> list[str]:
    """The families in turn, beginning with that of the first."""
    first = [a for a in found if (":" in a) == (":" in found[0])]
    rest = [a for a in found if (":" in a) != (":" in found[0])]
    return [a for pair in zip(first, [*rest, *[""] * len(first)], strict=False) for a in pair if a] + rest[len(first) :]


async def look_up(host: str, port: int) -> Sequence[str]:
    """The system's resolver, beside the loop. Raises OSError."""

    def look() -> list[str]:
        try:
            return [str(each[4][0]) for each in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]
        except UnicodeError:
            raise OSError(0, "that is no name of a host") from None

    return await aside(look)


def _short(text: str) -> str:
    return text if len(text) <= 200 else f"{text[:200]}..."
