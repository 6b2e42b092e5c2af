"""Where servers of one dialect differ: the shape of what is known of one.

Owns: Profile, and how the configuration's word goes over what is known. Must not know: any one server (servers.py), how
a dialect writes a request, any connection.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_type_hints

import msgspec
from msgspec.structs import replace

IdStyle: TypeAlias = Literal["any", "short", "nine", "kimi"]
"""Call ids in a history: up to 64 characters; up to 40; nine letters and digits; `functions.NAME:N`."""
SchemaStyle: TypeAlias = Literal[
    "plain", "openai", "anthropic", "gemini", "moonshot", "xai", "typed", "grammar", "simple", "least"
]
"""What is taken of JSON Schema: see `models.schemas.STYLES`."""
Sent: TypeAlias = Literal["", "reasoning_content", "reasoning", "reasoning_details", "thinking", "extra_content"]
"""Where a chat server wants its model's own reasoning back; empty: nowhere. `thinking`: as parts of the content
(Mistral); `extra_content`: beside each call (Gemini)."""
Way: TypeAlias = Literal["", "bearer", "x-api-key", "api-key", "query", "none"]


class Profile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where servers of one dialect differ. What is not said is the plainest form, which an unknown server gets.

    All dialects: `omit`: optional parameters that are never sent, by name. `images`, `documents` (PDF): whether they
    are taken; a text stands for them where they are not. `schema`: what is taken of JSON Schema in tools. `extra`:
    fields that are added to every body as they are. `address`: how the URL is made: `usual`; `azure` (`/openai/v1`, or
    with a `version`, the `api-version`, `/openai/deployments/MODEL`); `vertex` (publishers' models, messages only).
    `auth`: how the key goes along, where the configuration does not say. `structured`: whether the server is told to
    hold a final answer to the schema that is asked for: `never`, `alone` (where no tools are offered), `beside` (with
    tools too).

    chat: `output_parameter`: how the output limit is called. `ids`: the form of call ids. `reasoning`: the field in
    which its own reasoning goes back to a model. `bridge`: whether a user message straight after a tool message is
    refused: an assistant's stands between then. `empty`: the content of a reply that only calls: `null`, `blank` (""),
    or `omit`. `system`: the role of the system prompt. `effort`: the field that says how hard to think:
    `reasoning_effort: "low"`, `reasoning: {"effort": "low"}`, `thinking: {"type": "enabled"}`, `enable_thinking: true`.
    `result_images`: whether a tool message may hold images. `cache` (chat, responses): `marks` (`cache_control`, as for
    messages) or `key` (`prompt_cache_key`, the session's id).

    messages, gemini: `thinking`: how a model is told to think where an effort is configured: how hard (`adaptive`), or
    with a number of tokens (`budget`: models before Claude 4.6; those before Gemini 3 are known by their names).
    messages: `betas`: values of the `anthropic-beta` header. messages, responses: `reasoning` (`reasoning_content`):
    what is thought goes back though it is neither signed nor encrypted, and every reply with calls has some.
    """

    output_parameter: str = "max_tokens"
    images: bool = True
    reasoning: Sent = ""
    bridge: bool = False
    thinking: Literal["adaptive", "budget"] = "adaptive"
    documents: bool = False
    result_images: bool = False
    omit: list[str] = []
    ids: IdStyle = "any"
    empty: Literal["null", "blank", "omit"] = "null"
    system: Literal["system", "developer"] = "system"
    effort: Literal["reasoning_effort", "reasoning", "thinking", "enable_thinking"] = "reasoning_effort"
    cache: Literal["", "marks", "key"] = ""
    schema: SchemaStyle = "plain"
    extra: dict[str, Any] = {}
    address: Literal["usual", "azure", "vertex"] = "usual"
    version: str = ""
    auth: Way = ""
    structured: Literal["never", "alone", "beside"] = "never"
    betas: list[str] = []


if TYPE_CHECKING:
    Changes = Profile
else:
    Changes = msgspec.defstruct(
        "Changes",
        [(name, hint | None, None) for name, hint in get_type_hints(Profile).items()],
        frozen=True,
        forbid_unknown_fields=True,
        namespace={
            "__doc__": "What a configuration says of a server: the fields of Profile; None where it says nothing."
        },
    )


def changed(profile: Profile, changes: Changes) -> Profile:
    """The profile with what the configuration says in place of what is known."""
    said = {name: value for name in Profile.__struct_fields__ if (value := getattr(changes, name)) is not None}
    return replace(profile, **said) if said else profile
