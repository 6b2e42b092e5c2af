"""An image that the model's server refuses: the turn goes on without it, and the person is told."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from noria.testing import DIALECTS, Dialect, ModelServer, Request, Status
from tests.e2e.run import Place
from tests.testing.bodies import PNG

REFUSED = {"error": {"message": "Image input is not supported by this model.", "type": "invalid_request_error"}}


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_person_is_told_that_an_image_was_left_out(tmp_path: Path, dialect: Dialect) -> None:
    def fault(request: Request) -> Status | None:
        return Status(400, body=REFUSED) if PNG.encode() in request.raw else None

    with ModelServer([{"text": "I see nothing."}], fault) as server:
        place = Place(tmp_path / "at", server.base_url(dialect), dialect)
        (place.work / "a.png").write_bytes(base64.b64decode(PNG))
        status, result, err = place.run("What is it?", "--image", "a.png")
        assert server.violations == [] and len(server.requests) == 2
    assert (status, result["text"]) == (0, "I see nothing."), err
    (line,) = err.strip().splitlines()
    assert line.startswith("noria: warning: going on without the images: bad request (")
    assert "Image input is not supported by this model" in line
