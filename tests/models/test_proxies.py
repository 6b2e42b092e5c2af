"""Which proxy a request takes, by the environment."""

from __future__ import annotations

import asyncio

import pytest

from noria.models.connection import open_connection
from noria.models.errors import TransportError
from noria.models.proxies import Proxy, exempt, proxy_for, shown_url


@pytest.mark.parametrize(
    ("scheme", "env", "host"),
    [
        ("https", {"HTTPS_PROXY": "http://p:1"}, "p"),
        ("https", {"https_proxy": "http://q:1", "HTTPS_PROXY": "http://p:1"}, "q"),
        ("https", {"HTTP_PROXY": "http://p:1"}, None),
        ("http", {"HTTP_PROXY": "p:1"}, "p"),
        ("http", {"HTTP_PROXY": "http://p:1", "REQUEST_METHOD": "GET"}, None),
        ("http", {"ALL_PROXY": "http://a:1"}, "a"),
        ("http", {"HTTP_PROXY": "  ", "all_proxy": "http://a:1"}, "a"),
        ("http", {"HTTP_PROXY": "http://p:1", "NO_PROXY": "server"}, None),
        ("http", {}, None),
    ],
)
def test_which(scheme: str, env: dict[str, str], host: str | None) -> None:
    found = proxy_for(scheme, "server", 80, env)
    assert (found and found.host) == host


def test_its_parts() -> None:
    assert proxy_for("http", "s", 80, {"HTTP_PROXY": "https://me:p%40ss@p"}) == Proxy(
        "p", 443, True, "Basic bWU6cEBzcw=="
    )
    assert proxy_for("http", "s", 80, {"HTTP_PROXY": "http://p"}) == Proxy("p", 80)


@pytest.mark.parametrize("value", ["socks5://p:1", "http://", "http://p:x", "http://[::1"])
def test_one_that_cannot_be_used_says_so_without_its_login(value: str) -> None:
    with pytest.raises(TransportError) as caught:
        proxy_for("https", "s", 443, {"HTTPS_PROXY": value})
    assert caught.value.kind == "bad_request" and "HTTPS_PROXY" in caught.value.detail


@pytest.mark.parametrize(
    ("host", "port", "no_proxy", "right"),
    [
        ("api.example.com", 443, "example.com", True),
        ("api.example.com", 443, ".example.com", True),
        ("api.example.com", 443, "*.example.com", True),
        ("example.com", 443, "EXAMPLE.com", True),
        ("notexample.com", 443, "example.com", False),
        ("example.com", 443, "a, example.com b", True),
        ("example.com", 443, "example.com:443", True),
        ("example.com", 443, "example.com:80", False),
        ("10.1.2.3", 80, "10.0.0.0/8", True),
        ("11.1.2.3", 80, "10.0.0.0/8", False),
        ("example.com", 80, "10.0.0.0/8", False),
        ("::1", 80, "::1", True),
        ("::1", 80, "[::1]:80", True),
        ("fd00::1", 80, "fd00::/8", True),
        ("anything", 1, "*", True),
        ("localhost", 80, "", False),
    ],
)
def test_exempt(host: str, port: int, no_proxy: str, right: bool) -> None:
    assert exempt(host, port, no_proxy) == right


def test_addresses_are_shown_without_secrets() -> None:
    assert shown_url("https://me:secret@host:8/v1?key=secret") == "https://host:8/v1"
    assert shown_url("/v1?key=secret") == "/v1"


def test_one_that_cannot_be_reached_is_named_as_the_proxy() -> None:
    """Else a person looks for the mistake in the server's address."""
    with pytest.raises(
        TransportError, match=r"cannot connect to 127\.0\.0\.1 port 9: .*: that is the proxy which HTTPS"
    ):
        asyncio.run(open_connection("example.com", 80, None, Proxy("127.0.0.1", 9), None, 5))
