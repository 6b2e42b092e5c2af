"""PDF pages reach the model as a document where it reads those, and as text where it does not, in every dialect."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from noria.testing import DIALECTS, Dialect, ModelServer
from tests.cli.kit import PYTHON, House
from tests.tools.test_pictures import document

WRITTEN = "JVBERi0x"  # %PDF-1, as base64


@pytest.mark.seed("E11", "X08")
@pytest.mark.parametrize("documents", [True, False])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_pages_of_a_document(tmp_path: Path, dialect: Dialect, documents: bool) -> None:
    pytest.importorskip("pypdf", reason="the extra noria[pdf] is not installed")
    with ModelServer([{"calls": [["read_file", {"path": "d.pdf"}]]}, {"text": "I see."}]) as server:
        house = House(tmp_path, server.url)
        (house.workspace / "d.pdf").write_bytes(document("Hello", "World"))
        config = tmp_path / "c.toml"
        config.write_text(
            f'model = "m"\n[models.m]\ndialect = "{dialect}"\nmodel = "scripted"\nkey_env = "OPENAI_API_KEY"\n'
            f'base_url = "{server.base_url(dialect)}"\nprofile = {{documents = {str(documents).lower()}}}\n'
        )
        ran = house.plain(*PYTHON, "--config", str(config), "-p", "go", "--output-format", "json")
        sent = json.dumps(server.requests[-1])
        assert server.violations == []
    assert ran.status == 0 and ran.result["text"] == "I see.", ran.err
    assert (sent.count(WRITTEN), "--- page 2 ---\\nWorld" in sent.replace("\\\\n", "\\n")) == (
        (1, False) if documents else (0, True)
    )
