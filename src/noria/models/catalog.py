"""What is known of a model by configuration: where it is, how it is asked, its window and its price.

Owns: Endpoint, the rules for base URLs, cost. Must not know: any connection, any frame.
"""

from __future__ import annotations

from sys import intern

import msgspec
from msgspec.structs import replace

from noria.core.content import Usage
from noria.core.errors import UsageError
from noria.core.state import ModelSpec, Policy
from noria.models.idle import Idle
from noria.models.known import Price, Tariff, known
from noria.models.profiles import Profile

LINE = Policy().line
OWN_HEADERS = ("host", "content-length", "transfer-encoding", "connection")
SECRET_HEADERS = ("auth", "key", "token", "secret", "cookie")
"""Words in the names of headers whose values are secret."""
AUTHS = ("bearer", "x-api-key", "api-key", "x-goog-api-key", "query", "none")


UNKNOWN_LIMIT = 8_192


def output_limit(model: str) -> int:
    """The most tokens of one reply, for a dialect that demands a limit."""
    return known(model).output or UNKNOWN_LIMIT


def context_window(model: str) -> int:
    """The tokens that go into a request; 0 where the model is not known."""
    return known(model).window


def list_price(model: str) -> Price | None:
    """The vendor's published price; None where it is not known."""
    return known(model).price


def fitting(profile: Profile, model: str) -> Profile:
    """The profile, without images where the model is known to take none: a text stands for them then."""
    facts = known(model)
    return replace(profile, images=False) if facts.can and not facts.does("images") else profile


def reasons(model: str) -> bool:
    """Whether a model may reason: those of OpenAI that do not refuse to be asked for their reasoning."""
    return not model.rpartition("/")[2].startswith(("gpt-3", "gpt-4", "chatgpt-4"))


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """A configured model: `name` is noria's word for it, `model` the provider's. What is 0, empty or None is left out.

    `keys`: those that may be used instead of `key` (keys.py); `key_command`: what gave it, and can be asked again;
    `key_from`: what to name where a person has to look after the key.
    `auth`: how the key goes along: `bearer`, `x-api-key`, `api-key`, `x-goog-api-key` (headers), `query` (`?key=`),
    `none`. `context_window` and `max_output_tokens` in tokens.
    """

    name: str
    model: str
    base_url: str
    dialect: str = "chat"
    key: str = ""
    keys: tuple[str, ...] = ()
    key_command: str = ""
    key_from: str = ""
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
    def secrets(self) -> tuple[str, ...]:
        """What must be in no text: the keys, what headers for them hold, the login in the address."""
        found = [self.key, *self.keys]
        for name, value in self.headers.items():
            if any(word in name.lower() for word in SECRET_HEADERS):
                found += [value, value.rpartition(" ")[2]]
        if "@" in self.base_url:
            from noria.models.proxies import secrets_in

            found += secrets_in(self.base_url)
        return tuple(dict.fromkeys(text for text in found if text))

    @property
    def spec(self) -> ModelSpec:
        """What the machine knows of it. Where the reply's limit is set, what goes in and the longest reply have to fit
        the window together: the line at which a history is compacted is no later than that."""
        window, output = self.context_window, self.max_output_tokens
        if 0 < output < window:
            window = min(window, -((output - window) * 1_000 // LINE))
        return ModelSpec(self.name, window)

    @property
    def voice(self) -> str:
        """Who speaks, whatever it is called here: a reply and its reasoning are told to be this model's by it."""
        return intern(f"{self.dialect}:{self.model}")  # every reply that is kept has it

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
        for header in self.headers:
            if header.strip().lower() in OWN_HEADERS:
                raise UsageError(
                    f"the header {header} of model {self.name!r} is not to be set: it follows from the request"
                )
        keys = (("key", key) for key in (self.key, *self.keys))
        for what, value in (*keys, *((f"header {k}", f"{k}{v}") for k, v in self.headers.items())):
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
    """The key as a header, else a login in the address (RFC 7617); the configured headers may replace either."""
    named: dict[str, str] = {}
    if not endpoint.key and "@" in endpoint.base_url:
        from noria.models.proxies import login

        if basic := login(endpoint.base_url):
            named["authorization"] = basic
    if endpoint.key and endpoint.auth == "bearer":
        named["authorization"] = f"Bearer {endpoint.key}"
    elif endpoint.key and endpoint.auth in ("x-api-key", "api-key", "x-goog-api-key"):
        named[endpoint.auth] = endpoint.key
    named |= {name.lower(): value for name, value in endpoint.headers.items()}
    return list(named.items())


def priced(usage: Usage, price: Price | None, *, whole: bool) -> Usage:
    """The usage of one request as the machine counts it: requests 1, cost in microdollars (dollars for a million tokens
    are microdollars a token). Without a price, or for a whole reply whose tokens were not reported, it is unpriced."""
    if price is None or (whole and not usage.tokens):
        return replace(usage, requests=1, cost=0, unpriced=int(whole or usage.tokens > 0))
    rate = price.of(usage.input) if isinstance(price, Tariff) else price
    hour = min(usage.written_hour, usage.written)
    cost = (
        (usage.input - usage.cached - usage.written) * rate.input
        + usage.cached * _or(rate.cached, rate.input)
        + (usage.written - hour) * (written := _or(rate.written, rate.input))
        + hour * _or(rate.written_hour, written)
        + usage.output * rate.output
    )
    return replace(usage, requests=1, cost=round(cost), unpriced=0)


def _or(value: float | None, usual: float) -> float:
    return usual if value is None else value
