"""Failures in words for people: one line with the cause and what to do.

Owns: those words. Must not know: who shows them.
"""

from __future__ import annotations

from noria.app.endpoint import USUAL
from noria.models.catalog import Endpoint
from noria.models.proxies import shown_url

# kind: what happened, where the provider has not said it better, and what to do. {model}, {url} and {dialect} are the
# endpoint's (the address without a login in it), {key} is where its key comes from.
TEXTS: dict[str, tuple[str, str]] = {
    "auth": ("{url} refused the key", "check {key} and --base-url"),
    "quota": ("the account at {url} has no credit left", "top it up, or choose another --model"),
    "rate_limited": ("{url} limits the rate", "it did so after every retry: wait a while"),
    "overloaded": ("{url} is overloaded", "it was so after every retry: wait a while"),
    "server": ("the server at {url} failed", "try again later, or look into the server's log"),
    "network": ("cannot reach {url}", "check --base-url and the network"),
    "timeout": ("{url} did not answer in time", "try again later"),
    "truncated": (
        "{url} broke off its answer",
        "it did so at every try: look into its log, and check that it speaks the {dialect} dialect",
    ),
    "empty": ("{model} answered with nothing", "three times: choose another --model, or check --base-url"),
    "context_overflow": ("the conversation does not fit {model}", "begin a new session, or choose a larger --model"),
    "bad_request": ("{url} refused the request", "check that it speaks the {dialect} dialect and knows {model}"),
    "content_filtered": ("the provider's filter stopped the answer", "word the request differently"),
    "refused": ("{model} refused to answer", "word the request differently, or choose another --model"),
    "unknown_model": ("{url} has no model {model}", "check --model and --base-url"),
    "internal": ("noria itself failed", "please report it"),
    "stopped": ("the session was closed, or its journal could not go on, before the turn's end", "see the notices"),
    "repeated": ("the same calls had the same results five times in a row", "say what {model} should try instead"),
    "cut": ("the answer was cut at the output limit, three times", "raise max_output_tokens, or ask for less at once"),
}

PROXIES = ("the proxy", "_PROXY names")
ADVISED = {
    "bad_request": ("base_url", "SSL_CERT_FILE", *PROXIES), "network": PROXIES, "auth": ("the proxy asks for a login",),
}  # fmt: skip
"""By reason: what a failure's own words name where they say what to do. No other advice stands beside that."""


def explain(reason: str, detail: str, endpoint: Endpoint, wait: int = 0) -> str:
    """The line for a turn that failed for `reason`; `detail` are the provider's or the transport's words, if any.
    `wait`: the milliseconds it asked to wait where that was too long to be waited for, else 0."""
    what, advice = TEXTS.get(reason, (reason.replace("_", " ") or "the turn failed", "try again"))
    if not endpoint.model:  # an object of the program's own answers: there is no server to look at
        own = {"model": endpoint.name, "url": endpoint.name, "dialect": "", "key": "its key"}
        return " ".join(detail.split())[:500] or what.format(**own)
    if reason == "auth" and not (endpoint.key or endpoint.headers or "@" in endpoint.base_url):
        advice = "no key was sent: set {key}, and check --base-url"
    if wait:
        advice = f"it asks to wait {_span(wait)}: try again then, or choose another --model"
    url = shown_url(endpoint.base_url)
    key = endpoint.key_from or f"{USUAL.get(endpoint.dialect, USUAL['chat'])[2]} (or key_env of the model)"
    names = {"model": endpoint.model, "url": url, "dialect": endpoint.dialect, "key": key}
    said = " ".join(detail.split())[:500].rstrip(".") if reason not in ("repeated", "cut", "stopped") else ""
    if said and not said.startswith("blocked by ") and url.split("/")[2] not in said:
        said = f"{url}: {said}"
    if any(word in said for word in ADVISED.get(reason, ())):
        return said
    return f"{said or what.format(**names)}: {advice.format(**names)}"


def _span(ms: int) -> str:
    minutes = -(-ms // 60_000)
    return f"{minutes} minutes" if minutes < 120 else f"{-(-minutes // 60)} hours"
