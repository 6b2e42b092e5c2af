"""What the vendors publish of their models: windows, output limits, prices, what they can do.

Owns: reading known.json and finding a model in it by any of the names it goes by. Must not know: what is configured
(that wins, see app/endpoint.py), any connection. The file has, for each vendor, where its figures are from and of when;
a price that is not there is not known. A name is looked up once in a process, and only its own row is decoded.
"""

from __future__ import annotations

import os
import re
from functools import cache
from typing import Annotated, Any, TypeAlias

import msgspec

Dollars: TypeAlias = Annotated[float, msgspec.Meta(ge=0)]


class Price(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Dollars for a million tokens. `cached` is that of input read from the provider's cache, `written` of input
    written to it (for an hour: `written_hour`); each is the input's unless given."""

    input: Dollars
    output: Dollars
    cached: Dollars | None = None
    written: Dollars | None = None
    written_hour: Dollars | None = None


class Tariff(Price, frozen=True, forbid_unknown_fields=True):
    """A price that is another one, `beyond`, for requests whose input has more than `over` tokens (0: it never is)."""

    over: int = 0
    beyond: Price | None = None

    def of(self, tokens: int) -> Price:
        """The price of a request with so many tokens of input."""
        return self.beyond if self.beyond is not None and 0 < self.over < tokens else self


class Known(msgspec.Struct, frozen=True):
    """A model: the tokens that go in (`window`) and the most of one reply (`output`), 0 where they are not known; what
    it can do (`can`: of tools, images, documents, reasoning); its price, None where that is not known."""

    window: int = 0
    output: int = 0
    can: str = ""
    price: Tariff | None = None

    def does(self, what: str) -> bool:
        """Whether it can do that."""
        return what in self.can.split()


class Vendor(msgspec.Struct, frozen=True):
    """A vendor's models by name. `source` and `date`: where the figures are from, and of when; `also`: other names."""

    source: str
    date: str
    models: dict[str, dict[str, Any]]
    also: dict[str, str] = {}
    note: str = ""


NOTHING = Known()
FREE = Tariff(0.0, 0.0)
REGIONS = ("us", "eu", "apac", "au", "jp", "ca", "sa", "us-gov", "global")
MAKERS = ("anthropic", "openai", "google", "xai", "mistral", "deepseek")
HARMLESS = {"0", "1", "2", "thinking", "beta"}
"""What may stand after a model's name and a colon without changing its price."""
VERSION = r"-(\d)-(\d{1,2})(?=-|$)"  # claude-opus-4-1 is claude-opus-4.1
EDITION = (
    r"(?:-\d{8}|-\d{4}-\d\d-\d\d|-\d\d-\d\d(?:-\d{4})?|-\d{3,4}|-v\d+"
    r"|-latest|-preview|-exp|-experimental|-stable|-beta)$"
)
"""What may end a model's name without changing its price: dates, and how finished it is."""


@cache
def vendors() -> dict[str, Vendor]:
    """All vendors, by name. The file is ours: its form is a test's business, not that of every start."""
    with open(os.path.join(os.path.dirname(__file__), "known.json"), "rb") as file:
        return {name: Vendor(**vendor) for name, vendor in msgspec.json.decode(file.read()).items()}


@cache
def known(name: str) -> Known:
    """What is known of a model, by its own name, a dated one, one of a gateway (`anthropic/claude-sonnet-4.5:free`), of
    Bedrock (`us.anthropic.claude-...-v1:0`), Vertex (`claude-...@20250514`) or Gemini (`models/gemini-...`).

    A name that only begins like a known one has its window and abilities, and no price: variants are priced apart.
    """
    bare, tags, tuned = _bare(name)
    found, exact = _found(bare)
    if "free" in tags:
        return msgspec.structs.replace(found, price=FREE)
    if tuned or not exact or tags - HARMLESS:
        return msgspec.structs.replace(found, price=None)
    return found


def _bare(name: str) -> tuple[str, set[str], bool]:
    """The model's own name, what a gateway has put after it, and whether it is a tuned one, which is priced apart."""
    name = name.strip().lower()
    tuned = name.startswith("ft:")
    name, _, rest = name.removeprefix("ft:").rpartition("/")[2].partition("@")[0].partition(":")
    parts = name.split(".")
    if parts[0] in REGIONS:
        del parts[0]
    if parts[0] in MAKERS:
        del parts[0]
    return ".".join(parts), set(rest.split(":")) - {""}, tuned


def _found(name: str) -> tuple[Known, bool]:
    """The model's row, and whether it is its own: not that of a model whose name is a beginning of this one."""
    if name.startswith("claude"):
        name = re.sub(VERSION, r"-\1.\2", name)
    exact = True
    while name:
        for vendor in vendors().values():
            if (row := vendor.models.get(vendor.also.get(name, name))) is not None:
                return _row(row), exact
        if shorter := re.search(EDITION, name):
            name = name[: shorter.start()]
            continue
        exact = False
        name = name[: max(name.rfind("-"), name.rfind("."), 0)]
    return NOTHING, False


def _row(row: dict[str, Any]) -> Known:
    """The row of the file as a value."""
    price: dict[str, Any] = dict(row.get("price", {}))
    if beyond := price.get("beyond"):
        price["beyond"] = Price(**beyond)
    tariff = Tariff(**price) if price else None
    return Known(row.get("window", 0), row.get("output", 0), row.get("can", ""), tariff)
