"""Which addresses may be connected to, in every form in which one can be written."""

from __future__ import annotations

import asyncio
from ipaddress import IPv4Address, IPv6Address, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noria.tools.addresses import Allowed, addresses, public, target
from noria.tools.result import ToolError
from tests.tools.webserver import names

CLOSED = [
    "127.0.0.1", "127.255.255.254", "0.0.0.0", "0.1.2.3", "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1",
    "169.254.169.254", "169.254.0.1", "100.64.0.1", "100.100.100.200", "100.127.255.255", "192.0.0.192", "192.0.2.1",
    "198.18.0.1", "198.51.100.1", "203.0.113.1", "224.0.0.1", "239.1.1.1", "240.0.0.1", "255.255.255.255",
    "168.63.129.16", "192.88.99.1", "::", "::1", "fe80::1", "fe80::1%eth0", "fc00::1", "fd00:ec2::254", "fec0::1",
    "ff02::1", "2001:db8::1", "2001::1", "2002:7f00:1::", "2002:a9fe:a9fe::1", "3fff::1", "::ffff:127.0.0.1",
    "::ffff:169.254.169.254", "::127.0.0.1", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::1", "100::1",
    "5f00::1", "not an address", "",
]  # fmt: skip
OPEN = ["1.1.1.1", "8.8.8.8", "93.184.215.14", "172.32.0.1", "100.128.0.1", "2606:4700::1111", "::ffff:8.8.8.8",
        "64:ff9b::808:808", "2a00:1450:4001:81b::200e"]  # fmt: skip


@pytest.mark.case("E06")
@pytest.mark.parametrize("address", CLOSED)
def test_what_is_not_public(address: str) -> None:
    assert not public(address)


@pytest.mark.parametrize("address", OPEN)
def test_what_is_public(address: str) -> None:
    assert public(address)


@given(st.ip_addresses())
def test_nothing_is_public_that_python_knows_to_be_special(address: IPv4Address | IPv6Address) -> None:
    if public(str(address)):
        found = address
        if isinstance(address, IPv6Address) and (address.ipv4_mapped or str(address).startswith("64:ff9b::")):
            found = ip_address(int(address) & 0xFFFFFFFF)
        assert not (found.is_private or found.is_loopback or found.is_link_local or found.is_multicast)
        assert not (found.is_reserved or found.is_unspecified)


@pytest.mark.case("E06")
@pytest.mark.parametrize(
    "host",
    ["2130706433", "0x7f000001", "0177.0.0.1", "127.1", "0x7f.1", "127.0.0.1.", "017700000001", "127.0.1", "0X7F.0.0.1",
     "１２７.0.0.1", "127。0。0。1", "0", "[::ffff:7f00:1]", "[::1]", "[0:0:0:0:0:0:0:1]", "[::ffff:127.0.0.1]"],
)  # fmt: skip
def test_every_form_of_this_machine_s_address_is_refused_before_a_name_is_looked_up(host: str) -> None:
    async def asked(name: str, port: int) -> list[str]:
        raise AssertionError(f"{name} was looked up")

    with pytest.raises(ToolError, match="is not a public address"):
        asyncio.run(addresses(target(f"http://{host}:8000/"), Allowed(()), asked))


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("file:///etc/passwd", "only http:// and https://"),
        ("gopher://x/", "only http:// and https://"),
        ("javascript:alert(1)", "only http:// and https://"),
        ("x", "only http:// and https://"),
        ("http://", "names no host"),
        ("http://user@host/", "login"),
        ("http://example.org:x/", "no address"),
        ("http://example.org:99999/", "no address"),
        ("http://8.8.8.8@127.0.0.1/", "login"),
        ("http://8.8.8.8\\@127.0.0.1/", "backslashes"),
        ("http://8.8.8.8\t127.0.0.1/", "control characters"),
        ("http://a b/", "blanks"),
        ("http://a\nHost: b/", "control characters"),
        ("http://[::1/", "no address"),
        ("http://[fe80::1%25eth0]/", "no address"),
        ("http://1.2.3.4.5/", "no address of a host"),
        ("http://256.1.1.1/", "no address of a host"),
        ("http://a..b/", "no name of a host"),
        ("http://a%2e%2e/", "no name of a host"),
        ("http://ex\u00adample\u2024.org" + "/" * 9_000, "longer than"),
    ],
)
def test_what_is_no_address(url: str, said: str) -> None:
    with pytest.raises(ToolError, match=said):
        target(url)


def test_a_target_s_parts() -> None:
    found = target("HTTP://EXAMPLE.org:80/a b".replace(" ", "%20") + "?q=ä&x=%41#part")
    assert (found.host, found.port, found.path) == ("example.org", 80, "/a%20b?q=%C3%A4&x=%41")
    assert found.url == "http://example.org/a%20b?q=%C3%A4&x=%41" and found.authority == "example.org"
    assert target("https://bücher.example").host == "xn--bcher-kva.example"
    assert target("http://[2606:4700::1111]:8080/").authority == "[2606:4700::1111]:8080"
    assert target("https://example.org").path == "/"


@given(st.text(max_size=60))
def test_any_text_is_a_target_or_an_error_that_teaches(text: str) -> None:
    for url in (text, f"http://{text}", f"https://{text}/x"):
        try:
            found = target(url)
        except ToolError as error:
            assert str(error)
            continue
        assert target(found.url) == found  # what it means does not depend on how often it is read


@pytest.mark.case("E06")
def test_every_address_of_a_name_counts() -> None:
    """A name that has a public address and a private one is refused, in either order: which of them would be connected
    to is not left to chance."""
    resolve = names(a_test=["8.8.8.8", "10.0.0.1"], b_test=["127.0.0.1", "8.8.8.8"], c_test=["8.8.8.8", "1.1.1.1"],
                    d_test=["::1"], e_test=["2606:4700::1111", "8.8.8.8", "2606:4700::1001"], f_test=[])  # fmt: skip
    for name in ("a", "b", "d"):
        with pytest.raises(ToolError, match="web_fetch only reaches the public Internet"):
            asyncio.run(addresses(target(f"http://{name}.test/"), Allowed(()), resolve))  # type: ignore[arg-type]
    assert asyncio.run(addresses(target("http://c.test/"), Allowed(()), resolve)) == ["8.8.8.8", "1.1.1.1"]  # type: ignore[arg-type]
    found = asyncio.run(addresses(target("http://e.test/"), Allowed(()), resolve))  # type: ignore[arg-type]
    assert found == ["2606:4700::1111", "8.8.8.8", "2606:4700::1001"]
    for name, said in (("f", "has no address"), ("g", "cannot be found")):
        with pytest.raises(ToolError, match=said):
            asyncio.run(addresses(target(f"http://{name}.test/"), Allowed(()), resolve))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("allow", "url", "may"),
    [
        ("localhost:8000", "http://localhost:8000/", True),
        ("localhost:8000", "http://localhost:8001/", False),
        ("localhost", "http://localhost:8001/", True),
        ("localhost", "http://127.0.0.1/", False),
        ("127.0.0.1", "http://2130706433/", True),
        ("127.0.0.1", "http://localhost/", True),
        ("127.0.0.0/8", "http://localhost/", True),
        ("10.0.0.0/8", "http://localhost/", False),
        ("[::1]:80", "http://[::1]/", True),
        ("[::1]:81", "http://[::1]/", False),
        ("*.corp.example", "http://docs.corp.example/", True),
        ("*.corp.example", "http://corp.example/", False),
        ("*.corp.example", "http://evilcorp.example/", False),
        ("127.0.0.1", "http://[::ffff:127.0.0.1]/", True),
    ],
)
def test_the_allow_list(allow: str, url: str, may: bool) -> None:
    resolve = names(localhost="127.0.0.1", docs_corp_example="10.1.1.1", corp_example="10.1.1.1",
                    evilcorp_example="10.1.1.1")  # fmt: skip
    if may:
        assert asyncio.run(addresses(target(url), Allowed((allow,)), resolve))  # type: ignore[arg-type]
    else:
        with pytest.raises(ToolError, match="web_allow = "):
            asyncio.run(addresses(target(url), Allowed((allow,)), resolve))  # type: ignore[arg-type]


@pytest.mark.parametrize("entry", ["", "http://x", "a b", "x:y", "u@h", "10.0.0.0/99", "a/b"])
def test_what_is_no_entry_of_it(entry: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        Allowed((entry,))
