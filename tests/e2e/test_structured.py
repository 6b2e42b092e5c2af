"""Typed output from the command and the library, with servers that are told of the schema in their own form: it is sent
with every request of the run, refused once and then left out, and the answer is read in either case."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

import noria
from noria.models.catalog import Endpoint
from noria.models.profiles import Profile
from noria.testing import DIALECTS, Dialect, ModelServer, Request, Status
from tests.e2e.run import Place
from tests.models.test_answers import FORMS, sent

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}, "why": {"type": "string"}}, "required": ["n"]}
LOOKS: list[Any] = [{"text": "", "calls": [["list_dir", {}]]}, {"text": '{"n":0,"why":null}'}]


class Count(msgspec.Struct):
    """How many there are."""

    n: int
    why: str = "I counted."


def settings(root: Path, server: ModelServer, dialect: Dialect) -> Any:
    from noria.app.settings import Settings

    (root / "work").mkdir()
    profile = Profile(structured="beside", schema=FORMS[dialect])  # type: ignore[arg-type]
    where = Endpoint(name="m", model="m", base_url=server.base_url(dialect), dialect=dialect, profile=profile)
    return Settings(models=(where,), workspace=str(root / "work"), data=str(root), mode="goal")


@pytest.mark.seed("I16", "Z27")
@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_command_tells_the_server(tmp_path: Path, dialect: Dialect) -> None:
    """Beside tools, in both requests; what is optional comes as null and is left out."""
    with ModelServer(LOOKS) as server:
        place = Place(tmp_path, server.base_url(dialect), dialect)
        (place.work / "s.json").write_text(json.dumps(SCHEMA))
        place.env |= {"NORIA_MODELS_IT_PROFILE_STRUCTURED": "beside", "NORIA_MODELS_IT_PROFILE_SCHEMA": FORMS[dialect]}
        status, result, err = place.run("how many?", "--json-schema", "s.json")
        assert (status, result["output"]) == (0, {"n": 0}), err
        first, second = (sent(dialect, request) for request in server.requests)
        assert first == second and first["additionalProperties"] is False and not server.violations


@pytest.mark.seed("I16")
@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_library_tells_the_server(tmp_path: Path, dialect: Dialect) -> None:
    with ModelServer([{"text": '{"n":2,"why":null}'}]) as server:
        agent = noria.Agent(settings(tmp_path, server, dialect), output=Count, instructions="Count.")
        answer = asyncio.run(agent.run("how many?"))
        assert answer.output == Count(2) and sent(dialect, server.requests[0])["properties"]["n"]["type"] == "integer"
        assert not server.violations


def test_any_text_and_lists_are_not_told_of(tmp_path: Path) -> None:
    with ModelServer([{"text": "[1, 2]"}]) as server:
        given = settings(tmp_path, server, "chat")
        assert asyncio.run(noria.Agent(given).run("?")).output == "[1, 2]"
        assert asyncio.run(noria.Agent(given, output=list[int]).run("?")).output == [1, 2]
        assert all("response_format" not in request for request in server.requests)


def test_a_server_that_refuses_it_is_asked_without(tmp_path: Path) -> None:
    """The way that works with every model is the fallback: the schema in the words."""

    def refuse(request: Request) -> Status | None:
        said = {"message": "Cannot use custom grammar constraints with tools.", "type": "invalid_request_error"}
        return Status(400, body={"error": said}) if "response_format" in request else None

    script = [{"text": "two"}, {"text": '{"n":2}'}]
    with ModelServer(script, refuse, follow="order") as server:  # type: ignore[arg-type]
        answer = asyncio.run(noria.Agent(settings(tmp_path, server, "chat"), output=Count).run("how many?"))
        assert answer.output == Count(2)
        assert ["response_format" in request for request in server.requests] == [True, False, False]


def test_an_answer_that_begins_anew_after_it_was_cut(tmp_path: Path) -> None:
    """A server that holds every text to the schema does not go on where the answer was cut."""
    script: list[Any] = [{"text": '{"n":2,"why":"be', "end": "cut"}, {"text": '{"n":3}'}]
    with ModelServer(script, follow="order") as server:
        answer = asyncio.run(noria.Agent(settings(tmp_path, server, "chat"), output=Count).run("how many?"))
        assert answer.output == Count(3) and len(server.requests) == 2
