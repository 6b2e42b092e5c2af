"""What a refusal teaches of a server: one fact, by which the same request is sent in another form of the same meaning.

Owns: reading refusals for that. Must not know: any one dialect's bodies, who remembers. Loaded with the first refusal.
A fact is text: the name of a parameter that is left out, or `field=value`, where the field is one of the profile's,
`limit` (the most tokens of a reply) or `level` (how hard to think). Tools and messages are never left out.
"""

from __future__ import annotations

import re
from collections.abc import Collection

import msgspec

from noria.models.profiles import Profile
from noria.models.retry import NULL_CONTENT, REASONING_ITEMS, STRUCTURED
from noria.models.spoken import OWN_BLOCKS
from noria.models.windows import reply_limit

LEVELS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
LIMITS = ("max_tokens", "max_completion_tokens", "max_output_tokens", "maxOutputTokens", "max_new_tokens")
OF_A_REPLY = (
    rf"{'|'.join(LIMITS)}|\bmax(?:imum)? (?:number of )?(?:output |completion )?tokens|\b(?:output|completion) tokens"
)
"""What it is called in a refusal: by one of its names, or in words (Bedrock)."""
OTHER_LIMIT = {"max_tokens": "max_completion_tokens", "max_completion_tokens": "max_tokens"}
"""The two names of the output limit in chat."""
SENT_BACK = ("reasoning_content", "reasoning_details", "reasoning_opaque", "thinking_blocks", "extra_content",
             "provider_specific_fields")  # fmt: skip
"""Fields of a reply that go back with it, and can stay away."""

_MOST = (
    r"> (\d[\d,]*)",
    r"(?:at most|less than or equal to|no more than|must be <=?|<=|maximum(?: value)?(?: is| of)?|model limit of"
    r"|limit of|cannot exceed|not exceed|up to)[^\d\[]{0,24}(\d[\d,]*)",
    r"[\[(]\s*\d+\s*,\s*(\d[\d,]*)\s*[\])]",
)
"""How a refusal names the highest output limit: a number after words that say so, or the end of a range."""
ESSENTIAL = frozenset(("messages", "message", "model", "models", "tools", "input", "contents", "content", "system"))
"""What a request is nothing without: where it is blamed, nothing else is."""
VAGUE = frozenset(("include", "store", "strict", "reasoning", "thinking", "container", "citations"))
"""Names of parameters that are words of their own too: said without quotes they may mean something else."""
_ADDRESS = re.compile(r"^\S+ answered \d+: ")
_REFUSE = (
    r"not (?:be )?(?:support|permitt|allow|accept|recogni|available|a valid)|unsupported|unrecogni[sz]ed|unknown"
    r"|unexpected|invalid|extra (?:inputs|fields)|deprecated|doesn['’]t support|must be set to false"
    r"|only \S+ (?:is|are) (?:allowed|supported)"
)
"""Words that refuse a parameter."""
_ADMITTED = re.compile(
    r"\b(?:supported (?:values?|efforts?|levels?|options?)|valid|allowed|accepted|possible|one of|must be|should be"
    r"|expected|choose)\b",
    re.I,
)


_TAGS = (  # how a refusal names the kind of a part of the history that it does not take
    r"input tag '(\w+)' found using 'type' does not match",  # Anthropic
    r"invalid value: '(\w+)'\. supported values are",  # OpenAI; it blames input[N].type or its like
    r"unknown name \"(\w+)\" at 'contents\[\d+\]\.parts\[\d+\]'",  # Google
    r"(?:unsupported|unknown|invalid|unrecognized|unexpected) (?:input |message )?(?:content|block|item|part)"
    r"(?: block| part| item)? ?type:? ?['\"`]?(\w+)",
)
_USUAL = re.compile(
    r"(?:text|image|image_url|document|file|audio|video|message|output_text|tool_use|tool_result|input_\w+|inline_?data"
    r"|function|function_?call|function_?response|function_call_output)$"
)
"""Kinds that are not the provider's own."""
_THOUGHT = re.compile(r"thinking|redacted|reasoning|thought")
_FORM = re.compile(
    r"response[_ ]?format|text\.format|output_config\.format|output_format|response[_ ]?(?:json[_ ]?)?schema"
    r"|response[_ ]?mime[_ ]?type|json[_ ]schema|structured[_ -]?outputs?|custom grammar|grammar constraint",
    re.I,
)
"""How refusals name the form of a final answer, in any dialect."""


class Now(msgspec.Struct, frozen=True):
    """What was asked for. `optional`: what can be left out; `sent`: the output limit; `level`: how hard to think."""

    optional: Collection[str]
    profile: Profile
    sent: int = 0
    level: str = ""


def lesson(culprit: str, words: str, now: Now) -> str:
    """The fact that a refusal teaches; nothing where it teaches none."""
    if culprit == NULL_CONTENT and now.profile.empty == "null":
        return "empty=blank"
    return (
        _unstructured(culprit, words, now)
        or _fitting(words, now)
        or _other_name(culprit, words, now)
        or _limit(culprit, words, now)
        or _level(culprit, words, now)
        or _form(words, now)
        or _own_block(culprit, words, now)
        or _left_out(culprit, words, now)
        or _schema(culprit, words, now)
        or _left_out_by_words(culprit, words, now)
    )


def _unstructured(culprit: str, words: str, now: Now) -> str:
    """A server that does not hold an answer to a schema, or not to this one, or not beside tools, is not told to: the
    model itself is told of the schema in any case."""
    return STRUCTURED if STRUCTURED in now.optional and _FORM.search(f"{culprit} {words}") else ""


def _fitting(words: str, now: Now) -> str:
    """A limit that does not fit the window beside what goes in becomes one that does."""
    return f"limit={fits}" if 0 < (fits := reply_limit(words)) < now.sent else ""


def _other_name(culprit: str, words: str, now: Now) -> str:
    """The output limit goes by its other name, where the refusal says that name."""
    name = now.profile.output_parameter
    other = OTHER_LIMIT.get(name, "")
    if other and name in _names(culprit) and re.search(rf"\b{other}\b", words):
        return f"output_parameter={other}"
    return ""


def _limit(culprit: str, words: str, now: Now) -> str:
    """A limit that is too high for the model becomes the one that is named."""
    if not now.sent or not (set(_names(culprit)) & set(LIMITS) or re.search(OF_A_REPLY, words, re.I)):
        return ""
    for pattern in _MOST:
        for found in re.finditer(pattern, words, re.I):
            most = int(found[1].replace(",", ""))
            if 0 < most < now.sent:
                return f"limit={most}"
    return ""


def _level(culprit: str, words: str, now: Now) -> str:
    """A level of thinking that the model has not becomes the nearest of those that are named, the lower of two."""
    if now.level not in LEVELS or not re.search(r"effort|reasoning", f"{culprit} {words}", re.I):
        return ""
    start = _ADMITTED.search(words)
    named = re.findall(rf"\b(?:{'|'.join(LEVELS)})\b", words[start.end() :] if start else "")
    others = sorted({LEVELS.index(word) for word in named} - {LEVELS.index(now.level)})
    if not others or now.level in named:
        return ""
    wanted = LEVELS.index(now.level)
    return f"level={LEVELS[min(others, key=lambda at: (abs(at - wanted), at))]}"


def _form(words: str, now: Now) -> str:
    """A form of the history that this server demands: see the rows of servers.py that have it."""
    demands = (
        (r"tool call id.{0,80}length of 9", "ids=nine", now.profile.ids != "nine"),
        (r"unexpected role 'user' after role 'tool'", "bridge=true", not now.profile.bridge),
        (
            r"(?:reasoning_content|content\[\]\.thinking).{0,80}(?:missing|must be passed|required)"
            r"|missing.{0,20}reasoning_content",
            "reasoning=reasoning_content",
            now.profile.reasoning != "reasoning_content",
        ),
        (r"invalid message content type: <nil>", "empty=blank", now.profile.empty != "blank"),
    )
    return next((fact for pattern, fact, new in demands if new and re.search(pattern, words, re.I)), "")


def _own_block(culprit: str, words: str, now: Now) -> str:
    """Blocks of the provider's own, or its reasoning, that a server does not take back are left out."""
    for pattern in _TAGS:
        found = re.search(pattern, words, re.I)
        if found and ("supported values" not in pattern or culprit.startswith("input")):
            kind = found[1].lower()
            fact = REASONING_ITEMS if _THOUGHT.match(kind) else "" if _USUAL.match(kind) else OWN_BLOCKS
            return fact if fact in now.optional else ""
    return ""


def _left_out(culprit: str, words: str, now: Now) -> str:
    """What is optional, and blamed by name; in the history it is the reasoning there, not how the model is told to."""
    names = _names(culprit)
    found = next((name for name in names if name in now.optional and not _missed(name, words)), "")
    if found in ("thinking", "reasoning") and names[0] in ESSENTIAL and REASONING_ITEMS in now.optional:
        return REASONING_ITEMS
    return found


def _left_out_by_words(culprit: str, words: str, now: Now) -> str:
    """What is optional, and refused in words where nothing else is blamed: by its name, or, of how hard to think, by
    what it is."""
    if ESSENTIAL & set(_names(culprit)):
        return ""
    said = _ADDRESS.sub("", words)
    plain = [name for name in now.optional if name not in VAGUE]
    for name in sorted(plain, key=lambda each: (-len(each), each)):
        if _refused(re.sub("_", r"[_ ]?", name), said) and not _missed(name, said):
            return name
    quoted = re.findall(r"['\"`]([a-z_]+)['\"`]", said)
    if name := next((each for each in quoted if each in now.optional and not _missed(each, said)), ""):
        return name
    if not _refused(r"think(?:ing)?|reasoning|effort", said):
        return ""
    told = ("output_config",) if re.search(r"\beffort\b", said) else ()
    fields = (*told, now.profile.effort, "reasoning", "thinking", "thinking_config")
    return next((name for name in fields if name in now.optional), "")


def _refused(name: str, words: str) -> bool:
    """Whether a name stands beside words that refuse it; a part of a longer name is none (`qwen3-thinking`)."""
    name = rf"(?<![\w-])(?:{name})(?![\w-])"
    return re.search(rf"{name}.{{0,60}}?(?:{_REFUSE})|(?:{_REFUSE}).{{0,60}}?{name}", words, re.I) is not None


def _missed(name: str, words: str) -> bool:
    """Whether it is blamed for not being there."""
    lacks = r"(?:is|are|was)? ?(?:missing|(?<!to )(?<!, )(?<!or )required|must be (?:passed|provided|set(?! to)|present"
    lacks += r"|specified))|field required"
    return re.search(rf"\b{name}\b.{{0,60}}(?:{lacks})|missing.{{0,30}}\b{name}\b", words, re.I) is not None


def _schema(culprit: str, words: str, now: Now) -> str:
    """A schema of a tool that the server cannot read is said with the fewest keywords."""
    if now.profile.schema == "least":
        return ""
    blamed = re.search(r"input_schema|parameters|function_declarations|tools\b", culprit)
    said = re.search(r"\bschema\b|function_declarations|grammar", words, re.I)
    return "schema=least" if said and (blamed or not culprit or "schema" in culprit) else ""


def _names(culprit: str) -> list[str]:
    """The names in a culprit, which may be a path (`reasoning.effort`, `tools[0].strict`) or several."""
    return re.findall(r"[A-Za-z][A-Za-z_]*", culprit)
