"""Schemas of tools as a server takes them, with the same meaning as far as it can be said there.

Owns: what each kind of server takes of JSON Schema, and how the rest is said. Must not know: tools, requests. Mending
only loosens: whatever a schema accepts, the mended one accepts; what it cannot hold stands in the description. A call's
arguments are held against the tool's own schema, never this one.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import msgspec

from noria.models.meaning import (
    CHECKS,
    COUNTS,
    NUMBERS,
    Schema,
    any_of,
    apt,
    both,
    distinct,
    joined_branches,
    kinds_of,
    listed,
    modern,
    of_kind,
    said_of,
    simple_union,
)
from noria.models.profiles import SchemaStyle

ANYTHING = ["string", "number", "boolean", "object", "array", "null"]
INSIDE = ["string", "number", "boolean", "object", "null"]
"""What an array of anything holds where every schema names its type: an end has to be made somewhere."""
NOTED = (*NUMBERS, *COUNTS, "pattern", "format", "enum", "default", "uniqueItems")
"""What the description says where the schema may not."""
KEPT = frozenset(
    ("type", "title", "description", "properties", "required", "items", "additionalProperties", "anyOf", *NOTED)
)
"""The keywords of a mended schema, in any style; what else JSON Schema has is said by these, or loosened."""
GEMINI = KEPT - {"additionalProperties", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "uniqueItems"}
REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
UNROLLED = 2  # how often a definition may stand inside itself
DEEPEST = 30
MOST = 2_000  # nodes of one schema; what is beyond them is loosened
NOTE = 300  # characters of a note
KEY = re.compile(r"[a-zA-Z0-9_.-]{1,64}")


class Style(msgspec.Struct, frozen=True):
    """What a kind of server takes. `keywords`: which of KEPT. `formats`: of strings (None: any). `typed`: every schema
    names its type, or is a union. `apart`: nothing constrains beside a union. `closed`: whether additionalProperties
    may be true or false, rather than a schema. `lists`: whether a type may be a list. `texts`: an enum is of strings
    alone, none of them empty. `keys`: whether names of properties must fit KEY."""

    keywords: frozenset[str] = KEPT
    formats: frozenset[str] | None = None
    typed: bool = False
    apart: bool = False
    closed: bool = True
    lists: bool = True
    texts: bool = False
    keys: bool = False


STYLES: dict[SchemaStyle, Style] = {
    # OpenAI, Anthropic and with them everybody: an object at the top, without a union; arrays say what is in them
    "plain": Style(),
    "openai": Style(),
    # nspady/google-calendar-mcp#39; anthropics/claude-code#5973; the API's "Property keys should match pattern"
    "anthropic": Style(keys=True),
    # Gemini API reference, Schema; pizza-bot-app/pizza-bot#62; zed-industries/zed#44875
    "gemini": Style(GEMINI, frozenset(("date-time", "enum")), typed=True, apart=True, lists=False, texts=True),
    # moonshotai/walle; vercel/ai moonshotai 3.0.35
    "moonshot": Style(apart=True),
    # vercel/ai#14678; xAI docs, Structured outputs (no bounds of lengths)
    "xai": Style(KEPT - {"minLength", "maxLength", "minItems", "maxItems"}, closed=False),
    # docker/mcp-gateway#234; earendil-works/pi#5352
    "typed": Style(typed=True, apart=True),
    # ggml-org/llama.cpp#26930, #27580 (patterns), #14227, #17574
    "grammar": Style(KEPT - {"pattern"}, frozenset(("date", "time", "date-time", "uuid")), typed=True, apart=True),
    # Databricks docs, Function calling, limitations
    # for a server that was seen to refuse a schema: what every one takes
    "least": Style(
        frozenset(("type", "title", "description", "properties", "required", "items", "enum")),
        frozenset(),
        typed=True,
        apart=True,
        closed=False,
        texts=True,
        keys=True,
    ),
    "simple": Style(KEPT - {"anyOf", "pattern", "minLength", "maxLength", "minItems", "maxItems", *NUMBERS}),
}


def mend(text: str, style: SchemaStyle = "plain") -> bytes:
    """The schema as servers of this style take it, in few bytes; one that needs no mending is equal to what it was.
    What is no schema at all takes any object."""
    try:
        schema = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        schema = {}
    return msgspec.json.encode(mended(schema, style))


def mended(schema: object, style: SchemaStyle = "plain") -> Schema:
    """As `mend`, of a decoded schema, which stays as it is."""
    return _Mender(schema, STYLES[style]).top()


def shaped(schema: object, style: Style, change: Callable[[Schema], Schema | None]) -> Schema | None:
    """As `mended`, but what it means is put to `change` first, which may say None: it is None then."""
    mender = _Mender(schema, style)
    meant = change(mender.meaning())
    return None if meant is None else mender.finished(meant)


class _Mender:
    """Mends one schema. `root` is where its references point to."""

    def __init__(self, root: object, style: Style) -> None:
        self._root: Schema = root if isinstance(root, dict) else {}
        self._style = style
        self._nodes = 0
        self._names: dict[str, object] | None = None

    def top(self) -> Schema:
        """The whole: an object's schema, without a union at the top."""
        found = self._node(self._root, ())
        if "anyOf" in found:
            found = joined_branches(found)
        found.pop("enum", None)
        found = {"type": "object"} | found if "type" not in found else found
        found["type"] = "object"
        found.setdefault("properties", {})
        return self._finished(found)

    def meaning(self) -> Schema:
        """The whole in the keywords of KEPT alone."""
        return self._node(self._root, ())

    def finished(self, node: Schema) -> Schema:
        """A schema in those keywords within the style's limits."""
        return self._finished(node)

    # -- what it means, in few keywords --------------------------------------------------------------------------

    def _node(self, schema: object, way: tuple[str, ...]) -> Schema:
        """A schema in the keywords of KEPT alone, before the style's own limits. `way`: how it was come to, with the
        names of the definitions on it."""
        self._nodes += 1
        if not isinstance(schema, dict) or len(way) > DEEPEST or self._nodes > MOST:
            return {}
        given = modern(schema)
        found: Schema = {}
        for key, value in given.items():
            if key in ("anyOf", "oneOf") and isinstance(value, list):
                if "anyOf" not in found:
                    found["anyOf"] = [self._node(each, (*way, "")) for each in value if each is not False]
            elif key in ("items", "prefixItems"):
                self._items(given, found, (*way, ""))
            elif key == "additionalProperties":
                self._others(given, found, (*way, ""))
            elif key == "properties" and isinstance(value, dict):
                found[key] = {k: self._node(v, (*way, "")) for k, v in value.items() if v is not False}
            elif key in CHECKS and CHECKS[key](value):
                found[key] = distinct(value) if key in ("enum", "required") else value
        found = simple_union(found)
        for part in self._parts(given, way):
            found = both(found, part)
        return found

    def _parts(self, given: Schema, way: tuple[str, ...]) -> list[Schema]:
        """What has to be fulfilled as well: what a reference points to, and the schemas of allOf."""
        parts: list[Schema] = []
        for word in REFERENCES:
            name = given.get(word)
            if isinstance(name, str) and way.count(name) <= UNROLLED:
                parts.append(self._node(self._target(name), (*way, name)))
        every = given.get("allOf")
        parts += [self._node(each, (*way, "")) for each in (every if isinstance(every, list) else ())]
        return parts

    def _target(self, name: str) -> object:
        """What a reference within this document points to: by a path, an anchor or an id; anything, where it leads
        nowhere."""
        from urllib.parse import unquote, urljoin  # few schemas have references

        place, _, path = name.partition("#")
        target: object = self._root
        if place:
            target = self._named().get(place, self._named().get(urljoin(self._base, place), {}))
        path = unquote(path)
        if path and not path.startswith("/"):
            return self._named().get(f"#{path}", {})
        for word in path.split("/")[1:]:
            word = word.replace("~1", "/").replace("~0", "~")
            if isinstance(target, dict):
                target = target.get(word, {})
            elif isinstance(target, list) and word.isdigit() and int(word) < len(target):
                target = target[int(word)]
            else:
                return {}
        return target

    @property
    def _base(self) -> str:
        identity = self._root.get("$id", self._root.get("id"))
        return identity if isinstance(identity, str) else ""

    def _named(self) -> dict[str, object]:
        """The schemas of this document that have a name of their own: `#anchor`, or an id."""
        if self._names is None:
            from urllib.parse import urljoin

            self._names, rest = {}, [self._root]
            while rest:
                node = rest.pop()
                for word, value in node.items():
                    rest += [each for each in (value if isinstance(value, list) else [value]) if isinstance(each, dict)]
                    if not isinstance(value, str):
                        continue
                    if word in ("$anchor", "$dynamicAnchor"):
                        self._names[f"#{value}"] = node
                    elif word in ("$id", "id"):
                        self._names[value] = self._names[urljoin(self._base, value)] = node
        return self._names

    def _items(self, given: Schema, found: Schema, way: tuple[str, ...]) -> None:
        """What is in an array; of a tuple, any of its places' schemas in any place."""
        items, first = given.get("items", True), given.get("prefixItems")
        if isinstance(items, list):  # draft 7
            items, first = given.get("additionalItems", True), items
        places = [self._node(each, way) for each in first] if isinstance(first, list) else []
        if items is False:
            found["maxItems"] = min(len(places), found.get("maxItems", len(places)))
        if items is not False or not places:
            places.append(self._node(items, way))
        found["items"] = any_of(places)

    def _others(self, given: Schema, found: Schema, way: tuple[str, ...]) -> None:
        """What other properties hold: any of what patternProperties say of names, and what is said of the rest."""
        rest, named = given["additionalProperties"], given.get("patternProperties")
        if not isinstance(rest, bool | dict):
            return
        if isinstance(named, dict) and named and rest is not True:
            places = [self._node(each, way) for each in named.values()]
            made = any_of(places if rest is False else [*places, self._node(rest, way)])
            found["additionalProperties"] = made or True
        else:
            found["additionalProperties"] = self._node(rest, way) if isinstance(rest, dict) else rest

    # -- what the server takes -----------------------------------------------------------------------------------

    def _finished(self, node: Schema) -> Schema:
        """The schema within the style's limits; what these leave out is noted."""
        style, notes = self._style, list[str]()
        node = dict(apt(node))
        self._union(node)
        self._typed(node, notes)
        node = apt(node)
        for key in [k for k in node if k not in style.keywords and k != "nullable"]:
            _note(notes, key, node.pop(key))
        if style.formats is not None and node.get("format", "enum") not in style.formats:
            _note(notes, "format", node.pop("format", ""))
        if not style.closed and isinstance(node.get("additionalProperties"), bool):
            del node["additionalProperties"]
        self._members(node, notes)
        if notes:
            text = "; ".join(notes)
            text = f"({text if len(text) <= NOTE else text[: NOTE - 1] + '…'})"
            node["description"] = f"{node['description']} {text}" if node.get("description") else text
        return node

    def _union(self, node: Schema) -> None:
        """A union in the style's form."""
        branches: list[Schema] | None = node.get("anyOf")
        if branches and "anyOf" not in self._style.keywords:
            del node["anyOf"]
            kinds = [kinds_of(each) for each in branches]
            others = [each for each, kind in zip(branches, kinds, strict=True) if kind != ["null"]]
            if len(others) == 1:
                one = dict(others[0])
                if one.get("type") and "enum" not in one:
                    one["type"] = listed([*kinds_of(one), "null"])
                    node |= both(said_of(node), one)
            elif all(kinds) and "type" not in node:
                node["type"] = listed([kind for each in kinds for kind in each])
        elif branches and self._style.apart:
            beside = {k: v for k, v in node.items() if k not in ("anyOf", "title", "description", "default")}
            if beside:
                for key in beside:
                    del node[key]
                node["anyOf"] = [both(beside, each) for each in branches]

    def _typed(self, node: Schema, notes: list[str]) -> None:
        """Types where the style wants them, in the form that it takes."""
        style = self._style
        null = not style.lists and _without_null(node)
        if (
            style.texts
            and "enum" in node
            and not all((isinstance(v, str) and v) or (v is None and not style.lists) for v in node["enum"])
        ):
            node.setdefault("type", listed(kinds_of({"enum": node["enum"]})))
            _note(notes, "enum", node.pop("enum"))
        if style.typed and node.get("items") == {}:
            node["items"] = {"type": INSIDE}
        if style.typed and "type" not in node and "anyOf" not in node:
            node["type"] = listed(kinds_of(node) or ANYTHING)
        if not style.lists:
            _nullable(node, null=null)

    def _members(self, node: Schema, notes: list[str]) -> None:
        """The schemas inside, finished; arrays say what is in them, and what is required is among the properties."""
        kinds = node.get("type", [])
        if "array" in kinds and "items" not in node:
            node["items"] = {"type": INSIDE} if self._style.typed else {}
        table: Schema | None = node.get("properties")
        if table is not None and self._style.keys:
            odd = [k for k in table if not KEY.fullmatch(k)]
            if odd:
                node["properties"] = table = {k: v for k, v in table.items() if k not in odd}
                node["required"] = [k for k in node.get("required", ()) if k in table]
                node.pop("additionalProperties", None)
                notes.append(f"also takes: {', '.join(map(repr, odd))}")
        wanted: list[str] = [k for k in node.get("required", ()) if not self._style.keys or KEY.fullmatch(k)]
        if "required" in node:
            missing = [k for k in wanted if k not in (table or {})]
            if missing and node.get("additionalProperties") is not False:
                node["properties"] = table = (table or {}) | {k: {} for k in missing}
            node["required"] = [k for k in wanted if k in (table or {})]
            if not node["required"]:
                del node["required"]
        if table is not None:
            node["properties"] = {k: self._finished(v) for k, v in table.items()}
        for key in ("items", "additionalProperties"):
            if isinstance(node.get(key), dict):
                node[key] = self._finished(node[key])
        if "anyOf" in node:
            node["anyOf"] = [self._finished(each) for each in node["anyOf"]]


def _note(notes: list[str], key: str, value: object) -> None:
    if key in NOTED and value not in ("", None):
        text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
        notes.append(f"{key}: {text}")


def _without_null(node: Schema) -> bool:
    """Take null out of a union; whether it was there."""
    branches = [each for each in node.get("anyOf", ()) if kinds_of(each) != ["null"]]
    null = len(branches) < len(node.get("anyOf", ()))
    if null and len(branches) == 1:
        said = said_of(node)
        node.clear()
        node |= both(said, branches[0])
    elif branches:
        node["anyOf"] = branches
    elif null:
        del node["anyOf"]
        node["type"] = "null"
    return null


def _nullable(node: Schema, *, null: bool) -> None:
    """No lists of types and no null: `nullable`, and unions (the OpenAPI form)."""
    kinds = node.get("type")
    if isinstance(kinds, list):
        null = null or "null" in kinds
        kinds = [kind for kind in kinds if kind != "null"]
        if len(kinds) == 1:
            node["type"] = kinds[0]
        else:
            beside = {k: v for k, v in node.items() if k not in ("type", "title", "description", "default")}
            for key in (*beside, "type"):
                del node[key]
            node["anyOf"] = [of_kind(beside, kind) for kind in kinds]
    if "enum" in node and None in node["enum"]:
        null, node["enum"] = True, [v for v in node["enum"] if v is not None]
        if not node["enum"]:
            del node["enum"]
    if node.get("type") == "null":
        node["type"], null = "string", True
    if null:
        node["nullable"] = True
