"""Failures in words for people: one line with the cause and what to do.

Owns: those words. Must not know: who shows them.
"""

from __future__ import annotations

from noria.models.catalog import Endpoint

# kind: what happened, and what to do; {name}, {model}, {url} are the endpoint's
TEXTS: dict[str, tuple[str, str]] = {
    "auth": ("{url} refused the key", "check OPENAI_API_KEY (or key_env of the model), or --base-url"),
    "quota": ("the account at {url} has no credit left", "top it up, or choose another --model"),
    "rate_limited": ("{url} still limits the rate after every retry", "wait, then go on with -c"),
    "overloaded": ("{url} is overloaded", "wait, then go on with -c"),
    "server": ("the server at {url} failed", "go on with -c later, or check the server's log"),
    "network": ("cannot reach {url}", "is the server running, and --base-url right? then go on with -c"),
    "timeout": ("{url} did not answer in time", "go on with -c later"),
    "truncated": (
        "{url} broke off its answer again and again",
        "is it an OpenAI-compatible server? then go on with -c",
    ),
    "empty": ("{model} answered with nothing, three times", "go on with -c, or choose another --model"),
    "context_overflow": ("the conversation does not fit {model}", "begin a new session, or choose a larger --model"),
    "bad_request": ("{url} refused the request", "check that it speaks the chat dialect and knows {model}"),
    "content_filtered": ("the provider's filter stopped the answer", "word the request differently"),
    "refused": ("{model} refused to answer", "word the request differently, or choose another --model"),
    "unknown_model": ("{url} has no model {model}", "check --model and --base-url"),
    "internal": ("noria itself failed", "please report it"),
    "repeated": (
        "{model} made the same call with the same result five times in a row",
        "say what it should try instead",
    ),
    "cut": ("the answer was cut at the output limit three times", "raise max_output_tokens, or ask for less at once"),
}


def explain(reason: str, detail: str, endpoint: Endpoint) -> str:
    """The line for a turn that failed for `reason`; `detail` are the provider's own words, if it had any."""
    what, advice = TEXTS.get(reason, (reason.replace("_", " ") or "the turn failed", "go on with -c"))
    names = {"name": endpoint.name, "model": endpoint.model, "url": endpoint.base_url}
    said = " ".join(detail.split())
    said = f" ({said[:300]})" if said else ""
    return f"{what.format(**names)}{said}: {advice.format(**names)}"
