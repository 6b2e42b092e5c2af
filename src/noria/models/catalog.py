"""What is known of a model by configuration: where it is, how it is asked, its window and its price.

Owns: Endpoint, Price, the rules for base URLs, cost. Must not know: any connection, any frame.
"""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from noria.core.content import Usage
from noria.core.errors import UsageError
from noria.core.state import ModelSpec
from noria.models.idle import Idle
from noria.models.profiles import Profile

AUTHS = ("bearer", "x-api-key", "api-key", "query", "none")


KNOWN = (
    # what a name begins with, the tokens that go in, the most tokens of one reply
    ("claude-3-7-sonnet", 200_000, 64_000),
    ("claude-3-5", 200_000, 8_192),
    ("claude-3-", 200_000, 4_096),
    ("claude-opus-4-0", 200_000, 32_000),
    ("claude-opus-4-1", 200_000, 32_000),
    ("claude-opus-4-2", 200_000, 32_000),  # the dated names of Opus 4
    ("claude-", 200_000, 64_000),
    ("gpt-5", 272_000, 128_000),
    ("gpt-4.1", 1_047_576, 32_768),
    ("gpt-4o", 128_000, 16_384),
    ("o1", 200_000, 100_000),
    ("o3", 200_000, 100_000),
    ("o4-mini", 200_000, 100_000),
)
"""Models by the first of these that fits, as the vendors' model overviews have them. A window that is set wins."""
UNKNOWN_LIMIT = 8_192


def _known(model: str) -> tuple[int, int]:
    """Window and limit of a model; what a gateway puts before its name is passed over."""
    name = model.rpartition("/")[2].rpartition("anthropic.")[2]
    return next(((window, limit) for begin, window, limit in KNOWN if name.startswith(begin)), (0, 0))


def output_limit(model: str) -> int:
    """The most tokens of one reply, for a dialect that demands a limit."""
    return _known(model)[1] or UNKNOWN_LIMIT


def context_window(model: str) -> int:
    """The tokens that go into a request; 0 where the model is not known."""
    return _known(model)[0]


def reasons(model: str) -> bool:
    """Whether a model may reason: those of OpenAI that do not refuse to be asked for their reasoning."""
    return not model.rpartition("/")[2].startswith(("gpt-3", "gpt-4", "chatgpt-4"))


class Price(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Dollars for a million tokens. `cached` is that of input read from the provider's cache: input's unless given."""

    input: float
    output: float
    cached: float | None = None


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """A configured model: `name` is noria's word for it, `model` the provider's. What is 0, empty or None is left out.

    `auth`: how the key goes along: `bearer`, `x-api-key`, `api-key` (headers), `query` (`?key=`), `none`.
    `context_window` and `max_output_tokens` in tokens.
    """

    name: str
    model: str
    base_url: str
    dialect: str = "chat"
    key: str = ""
    auth: str = "bearer"
    headers: dict[str, str] = {}
    stream: bool = True
    context_window: int = 0
    max_output_tokens: int = 0
    temperature: float | None = None
    reasoning_effort: str = ""
    price: Price | None = None
    profile: Profile = Profile()
    idle: Idle = Idle()

    def __repr__(self) -> str:
        """Without the key."""
        return f"Endpoint({self.name!r}, {self.dialect}:{self.model!r})"

    @property
    def spec(self) -> ModelSpec:
        """What the machine knows of it."""
        return ModelSpec(self.name, self.context_window)

    @property
    def voice(self) -> str:
        """Who speaks, whatever it is called here: a reply and its reasoning are told to be this model's by it."""
        return f"{self.dialect}:{self.model}"

    def check(self) -> None:
        """Raises UsageError where it can never work: one line, the cause and what to do."""
        from noria.models.errors import TransportError
        from noria.models.transport import address

        if not self.base_url.strip():
            raise UsageError(f"model {self.name!r} has no address: give --base-url or base_url")
        try:
            address(self.base_url)
        except TransportError as error:
            raise UsageError(f"base_url of model {self.name!r}: {error.detail}") from None
        if self.auth not in AUTHS:
            raise UsageError(f"auth of model {self.name!r} is {self.auth!r}: one of {', '.join(AUTHS)} is needed")
        for what, value in (("key", self.key), *((f"header {k}", f"{k}{v}") for k, v in self.headers.items())):
            if not (value.isascii() and value.isprintable()) or value != value.strip():
                raise UsageError(
                    f"the {what} of model {self.name!r} has a character that cannot be sent: was it pasted whole?"
                )


def join(base_url: str, path: str) -> str:
    """The address of `path` (`/chat/completions`) below a base URL, whose query stays; a path that is there already is
    not added twice."""
    base, mark, query = base_url.strip().partition("?")
    base = base.rstrip("/")
    if not base.endswith(path):
        base += path
    return base + mark + query


def auth_headers(endpoint: Endpoint) -> list[tuple[str, str]]:
    """The key as a header, then the configured headers, which may replace it."""
    named: dict[str, str] = {}
    if endpoint.key and endpoint.auth == "bearer":
        named["authorization"] = f"Bearer {endpoint.key}"
    elif endpoint.key and endpoint.auth in ("x-api-key", "api-key"):
        named[endpoint.auth] = endpoint.key
    named |= {name.lower(): value for name, value in endpoint.headers.items()}
    return list(named.items())


def priced(usage: Usage, price: Price | None, *, whole: bool) -> Usage:
    """The usage of one request as the machine counts it: requests 1, cost in microdollars (dollars for a million tokens
    are microdollars a token). Without a price, or for a whole reply whose tokens were not reported, it is unpriced."""
    if price is None or (whole and not usage.tokens):
        return replace(usage, requests=1, cost=0, unpriced=int(whole or usage.tokens > 0))
    cached = price.input if price.cached is None else price.cached
    cost = (usage.input - usage.cached) * price.input + usage.cached * cached + usage.output * price.output
    return replace(usage, requests=1, cost=round(cost), unpriced=0)
