"""Known shapes of keys are masked, and nothing else is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noria.guard.masks import LEAST, masked

A = "Ab3" * 20
KEYS = [
    f"sk-{A[:48]}", f"sk-proj-{A[:30]}_{A[:10]}", f"sk-ant-api03-{A}", f"sk-or-v1-{A}", f"ghp_{A[:36]}",
    f"gho_{A[:36]}", f"github_pat_{A[:22]}_{A[:50]}", "AKIA" + "ABCD" * 4, "ASIA" + "Z" * 16,
    f"xoxb-123456789012-{A[:24]}", f"xoxp-1-2-3-{A[:20]}", f"AIza{A[:35]}", f"glpat-{A[:20]}",
    f"npm_{A[:36]}", f"hf_{A[:34]}", f"gsk_{A[:52]}",
    f"xai-{A}", f"pypi-{A}", f"ya29.{A}", f"SG.{A[:22]}.{A[:43]}", "sk_" + f"live_{A[:24]}",
    f"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.{A[:43]}",
    f"-----BEGIN RSA PRIVATE KEY-----\n{A}\n{A}\n-----END RSA PRIVATE KEY-----",
    f"-----BEGIN OPENSSH PRIVATE KEY-----\n{A}", f"123456789:AA{A[:33]}", f"M{A[:23]}.{A[:6]}.{A[:27]}",
    "dop_v1_" + "ab12" * 16, "shpat_" + "ab12" * 8, "dapi" + "ab12" * 8, "AGE-SECRET-KEY-1" + "AB12" * 14,
]  # fmt: skip
BEHIND = [
    f"Authorization: Bearer {A[:30]}", f"authorization: Basic {A[:20]}==", f"x-api-key: {A[:32]}",
    f'"api-key": "{A[:32]}"', f"aws_secret_access_key = {A[:40]}", f'"SecretAccessKey": "{A[:40]}"',
    f"DefaultEndpointsProtocol=https;AccountName=x;AccountKey={A}Ab==;EndpointSuffix=y",
    f"https://h/v1?key={A[:39]}&x=1", f"https://user:{A[:12]}@host/path",
]  # fmt: skip
PLAIN = [
    "The task-list of a disk-based risk-assessment-for-everybody-involved-in-it", "sk-learn and sk-", "ask-me-anything",
    "commit 3f786850e387550fdab836ed7e6dc881de23001b", "AKIAxyz", "a bearer of news", "basic training",
    "key=value&token=short", "https://host:8080/a@b", "git@github.com:a/b.git", "ghp_", "xoxo-", "eyJ.eyJ.x",
    "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----", "-----BEGIN PUBLIC KEY-----\nMIIB", "AIzabcdef",
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIC me@host", "123e4567-e89b-12d3-a456-426614174000",
    "basic: authorization: no", "12345678:AAA", "secret_access_key = config.read()", "AccountKey=x", "dapi-x",
]  # fmt: skip


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("around", ["{}", "key {} here", '{{"k":"{}"}}', "KEY={}\n", "({})", "'{}',"])
def test_a_known_shape_is_masked_wherever_it_stands(key: str, around: str) -> None:
    found = masked(around.format(key))
    assert key[-12:] not in found and A[:12] not in found and "[" in found
    before, _, after = around.replace("{{", "{").replace("}}", "}").partition("{}")
    assert found.startswith(before)
    assert found.endswith(after) or key.endswith(A)  # a private key that was cut goes on to the end


@pytest.mark.parametrize("text", BEHIND)
def test_what_stands_behind_a_name_is_masked(text: str) -> None:
    found = masked(text)
    assert A[:8] not in found and "[key]" in found
    assert found[:8] == text[:8]


@pytest.mark.parametrize("text", PLAIN)
def test_other_texts_stay(text: str) -> None:
    assert masked(text) == text


@given(st.text(), st.text(alphabet="abcXYZ019+/=-_.", min_size=LEAST, max_size=60))
def test_an_exact_secret_is_never_left(text: str, secret: str) -> None:
    assert secret not in masked(f"{text}{secret}{text}", [secret, "", "x"])


@given(st.text())
def test_masking_twice_changes_nothing_more(text: str) -> None:
    assert masked(masked(text)) == masked(text)


def test_it_is_quick_on_long_texts() -> None:
    """No shape takes more than linear time: lines that nearly fit do not hold anything up."""
    import time

    for piece in (
        "sk-",
        "M",
        "12345678:AA",
        "secretaccesskey=",
        "AccountKey=",
        "eyJ",
        "-----BEGIN RSA PRIVATE KEY-----",
        "a://",
        "x-api-key: ",
        "AIza",
        "bearer ",
        "a:",
    ):
        began = time.monotonic()
        masked(piece * (400_000 // len(piece)))
        assert time.monotonic() - began < 5, piece
