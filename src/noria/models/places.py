"""Where the clouds that serve others' models put them: Azure's deployments, Vertex AI's publishers.

Owns: those addresses. Must not know: keys, bodies. Loaded only where a profile says `address`.
"""

from __future__ import annotations

from urllib.parse import quote, urlencode


def azure(base_url: str, path: str, model: str, version: str) -> str:
    """An Azure OpenAI address (Microsoft Learn, REST API reference). Without a version that of the v1 API, whose base
    is `/openai/v1`; with one that of the dated API: chat below `/openai/deployments/MODEL`. What is there already is
    not added twice."""
    base, _, query = base_url.strip().partition("?")
    base = base.rstrip("/")
    if base.endswith(path):
        base = base.removesuffix(path)
    if "/openai" not in base:
        base += "/openai"
    if version and "/v1" not in base:
        if path == "/chat/completions" and "/deployments/" not in base:
            base += f"/deployments/{quote(model, safe='')}"
        if "api-version=" not in query:
            query += ("&" if query else "") + urlencode({"api-version": version})
    elif base.endswith("/openai") and "api-version=" not in query:
        base += "/v1"
    return base + path + (f"?{query}" if query else "")


def vertex(base_url: str, model: str, *, streamed: bool) -> str:
    """The address of a Claude model on Vertex AI (Google Cloud docs, Request predictions with Claude models): the base
    is `https://LOCATION-aiplatform.googleapis.com/v1/projects/PROJECT/locations/LOCATION`, or more of the path."""
    base, mark, query = base_url.strip().partition("?")
    base = base.rstrip("/")
    if base.endswith(("RawPredict", "rawPredict")):
        return base + mark + query
    for part in ("/publishers/anthropic", "/models"):
        if part not in base:
            base += part
    method = "streamRawPredict" if streamed else "rawPredict"
    return f"{base}/{quote(model, safe='@')}:{method}{mark}{query}"
