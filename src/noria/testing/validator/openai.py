"""Checks that both APIs of OpenAI share: names, schemas, arguments. It knows neither API's requests."""

from __future__ import annotations

import json
import re
from typing import Any

from noria.testing.validator.rule import Problem
from noria.testing.validator.schema import nodes, types

NAME = re.compile(r"[a-zA-Z0-9_-]+")
NEWER = re.compile(r"(.*/)?(o\d|gpt-5)")
"""Models that refuse `max_tokens` and any temperature but 1."""


def invalid(param: str, why: str, code: str) -> Problem:
    """Invalid 'param': why."""
    return Problem(f"Invalid '{param}': {why}", param, code)


def missing(param: str) -> Problem:
    """A required parameter is not there."""
    return Problem(f"Missing required parameter: '{param}'.", param, "missing_required_parameter")


def name(param: str, given: Any) -> Problem | None:
    """A function's name: [a-zA-Z0-9_-]{1,64}."""
    if not isinstance(given, str):
        return missing(param)
    if not given:
        why = "empty string. Expected a string with minimum length 1, but got an empty string instead."
        return invalid(param, why, "empty_string")
    if len(given) > 64:
        return too_long(param, given, 64)
    if NAME.fullmatch(given) is None:
        why = "string does not match pattern. Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'."
        return invalid(param, why, "invalid_value")
    return None


def too_long(param: str, given: str, limit: int) -> Problem:
    """A string over its limit."""
    why = f"string too long. Expected a string with maximum length {limit}, "
    why += f"but got a string with length {len(given)} instead."
    return invalid(param, why, "string_above_max_length")


def empty_array(param: str) -> Problem:
    """An array that must not be empty."""
    why = "empty array. Expected an array with minimum length 1, but got an empty array instead."
    return invalid(param, why, "empty_array")


def too_many_tools(given: Any) -> Problem | None:
    """More than 128 tools."""
    if not isinstance(given, list) or len(given) <= 128:
        return None
    why = "array too long. Expected an array with maximum length 128, "
    why += f"but got an array with length {len(given)} instead."
    return invalid("tools", why, "array_above_max_length")


def arguments(param: str, given: Any) -> Problem | None:
    """The arguments of a call in the history: a string that is a JSON object."""
    if isinstance(given, str):
        try:
            if isinstance(json.loads(given), dict):
                return None
        except (ValueError, RecursionError):
            pass
    return Problem(f"Invalid request: {param}: arguments must be a valid JSON object string", param, "invalid_value")


def schema(function: str, given: Any, param: str) -> Problem | None:
    """The parameters of a function: an object at the top, with properties; arrays with items."""
    if given is None:
        return None
    if not isinstance(given, dict):
        return _bad(function, f"{given!r} is not of type 'object', 'boolean'.", param)
    found = types(given)
    if found != ["object"]:
        named = f'"{found[0]}"' if found else '"None"'
        return _bad(function, f"schema must be a JSON Schema of 'type: \"object\"', got 'type: {named}'.", param)
    if not isinstance(given.get("properties"), dict):
        return _bad(function, "In context=(), object schema missing properties.", param)
    for path, node in nodes(given):
        if "array" in types(node) and "items" not in node:
            return _bad(function, f"In context={_context(path)}, array schema missing items.", param)
    return None


def strict(function: str, given: Any, param: str) -> Problem | None:
    """A strict function: every property is required, and there are no others."""
    for path, node in nodes(given):
        if "object" not in types(node):
            continue
        where = f"In context={_context(path)}, "
        if node.get("additionalProperties") is not False:
            text = "'additionalProperties' is required to be supplied and to be false."
            return _bad(function, where + text, param)
        properties, required = node.get("properties"), node.get("required")
        wanted = list(properties) if isinstance(properties, dict) else []
        left = [p for p in wanted if p not in (required if isinstance(required, list) else [])]
        if left:
            text = "'required' is required to be supplied and to be an array including every key in properties. "
            return _bad(function, f"{where}{text}Missing '{left[0]}'.", param)
    return None


def _bad(function: str, why: str, param: str) -> Problem:
    return Problem(f"Invalid schema for function '{function}': {why}", param, "invalid_function_parameters")


def _context(path: tuple[str, ...]) -> str:
    return str(path)
