"""What the gates make of the web and of questions to a person."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from noria.core.content import Call
from noria.core.events import Allow, Ask, Decided, Verdict
from noria.guard.gates import Gates, WhenAsked
from noria.guard.modes import PermissionMode
from noria.guard.offered import advertised
from noria.guard.refusals import refused_by_person
from noria.tools.registry import builtin
from noria.tools.toolbox import Toolbox
from noria.tools.workspace import Workspace
from tests.guard.test_gates import refusal, written


def gates(root: Path, mode: PermissionMode = "default", asked: WhenAsked = "person") -> Gates:
    box = Toolbox(builtin(), Workspace(str(root)))
    return Gates(box.tools, box.claims, box.workspace.root, mode=mode, asked=asked)


def decide(guard: Gates, call: Call) -> Verdict:
    found = asyncio.run(guard.decide(1, call))
    assert not isinstance(found, Decided)
    return found


def page(url: str) -> Call:
    return written("web_fetch", url=url)


QUESTION = written("ask_user", questions=[{"question": "Which?", "options": ["a", "b"]}])


@pytest.mark.parametrize("mode", ["default", "accept-edits", "plan", "debug"])
def test_a_host_is_asked_about_once(tmp_path: Path, mode: PermissionMode) -> None:
    """A yes is for the host, for the rest of the session; another host, or a part of it, is asked about anew."""
    guard = gates(tmp_path, mode)
    assert decide(guard, page("https://docs.example/a")) == Ask()
    assert decide(guard, page("https://docs.example/b")) == Ask()
    guard.allowed(page("https://docs.example/a"))
    for url in ("https://docs.example/b", "http://DOCS.example.:8000/c?x"):
        assert isinstance(decide(guard, page(url)), Allow)
    for url in ("https://docs.example.evil/", "https://a.docs.example/", "https://evil.example/docs.example",
                "https://docs.example@evil.example/", "x", "https://[docs.example/"):  # fmt: skip
        assert decide(guard, page(url)) == Ask()
    guard.allowed(written("run_command", command="curl https://evil.example"))
    assert decide(guard, page("https://evil.example/")) == Ask()


def test_nobody_there_to_ask_about_a_host(tmp_path: Path) -> None:
    told = refusal(decide(gates(tmp_path, asked="deny"), page("https://docs.example/a")))
    assert told.status == "denied" and "--permission-mode goal" in told.text
    assert isinstance(decide(gates(tmp_path, "goal", "deny"), page("https://docs.example/a")), Allow)


def test_nobody_is_asked_about_what_cannot_work(tmp_path: Path) -> None:
    told = refusal(decide(gates(tmp_path), written("web_search", query="x")))
    assert told.status == "error" and told.text.startswith("ERROR: web_search cannot work here: no search backend")


@pytest.mark.seed("S04")
def test_a_question_is_the_person_s_to_answer(tmp_path: Path) -> None:
    for mode in ("default", "accept-edits", "plan", "debug"):
        assert decide(gates(tmp_path, mode), QUESTION) == Ask()
        assert decide(gates(tmp_path, mode, "pause"), QUESTION) == Ask()
    told = refusal(decide(gates(tmp_path, asked="deny"), QUESTION))
    assert told.status == "denied" and told.text.startswith("ERROR: nobody can be asked here. Decide by your own")
    assert "--on-ask pause" in told.text
    assert "not available in goal mode" in refusal(decide(gates(tmp_path, "goal"), QUESTION)).text
    none = refusal(decide(gates(tmp_path), written("ask_user", questions=[])))
    assert none.status == "error" and "must have at least 1 item" in none.text


@pytest.mark.seed("S05")
def test_declining_has_words_of_its_own() -> None:
    """S05: to decline, to skip every question, and to be interrupted read differently."""
    told = refused_by_person(QUESTION, "ask me later").result
    assert told.status == "denied"
    assert told.text.startswith('The person declined to answer: "ask me later". Go on by your own judgement')


def test_asking_is_offered_only_where_somebody_can_be_asked() -> None:
    def offered(mode: PermissionMode, asked: WhenAsked) -> bool:
        return "ask_user" in [t.name for t in advertised(mode, builtin(), asked)]

    assert offered("default", "person") and offered("plan", "pause") and not offered("default", "deny")
    assert not offered("goal", "person")


def test_a_commit_is_asked_about(tmp_path: Path) -> None:
    commit = written("git_commit", message="m", paths=["a.txt"])
    for mode in ("default", "accept-edits"):
        assert decide(gates(tmp_path, mode), commit) == Ask()
    for mode in ("plan", "debug"):
        assert f"not available in {mode} mode" in refusal(decide(gates(tmp_path, mode), commit)).text
    assert isinstance(decide(gates(tmp_path, "goal"), commit), Allow)
    outside = written("git_diff", paths=["../x"])
    assert decide(gates(tmp_path), outside) == Ask() and isinstance(decide(gates(tmp_path), written("git_diff")), Allow)
