"""Checks of values that both APIs of OpenAI share: images, options, schemas as a whole. It knows neither's requests."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from noria.testing.validator import openai, pictures
from noria.testing.validator.rule import Problem
from noria.testing.validator.schema import is_valid

UNPARSED = "We could not parse the JSON body of your request. (HINT: {}.)"
EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
TOP = ("oneOf", "anyOf", "allOf", "enum", "not")
Bounds = tuple[type, float | None, float | None]
"""The type of an option, and its least and greatest value."""


def parsed(body: Mapping[str, Any]) -> Problem | None:
    """The body is JSON."""
    why = pictures.not_json(body)
    return Problem(UNPARSED.format(why)) if why else None


def objects(param: str, given: Any) -> Problem | None:
    """Whatever stands in a list is an object."""
    for k, each in enumerate(given if isinstance(given, list) else ()):
        if not isinstance(each, dict):
            text = f"Invalid type for '{param}[{k}]': expected an object, but got {_named(each)} instead."
            return Problem(text, f"{param}[{k}]", "invalid_type")
    return None


def _named(value: object) -> str:
    kinds: tuple[tuple[type, str], ...] = ((bool, "a boolean"), (int, "an integer"), (str, "a string"))
    return next((word for kind, word in kinds if isinstance(value, kind)), "null" if value is None else "another type")


def picture(param: str, url: Any) -> Problem | None:
    """The address of an image: on the web, or a data URL with an image of a kind that is taken."""
    if not isinstance(url, str):
        return openai.missing(param) if url is None else Problem(f"Invalid type for '{param}'.", param, "invalid_type")
    if pictures.is_web(url):
        return None
    found = pictures.data_url(url)
    if found is None:
        return openai.invalid(param, "Expected a valid URL, but got a value with an invalid format.", "invalid_value")
    kind, data = found
    if data is None:
        why = "Expected a base64-encoded data URL with an image MIME type, but got invalid base64-encoded data."
        return openai.invalid(param, why, "invalid_value")
    if kind not in pictures.MAGIC or not pictures.kind_of(data):
        text = "You uploaded an unsupported image. Please make sure your image is valid and has one of the following"
        return Problem(f"{text} formats: ['png', 'jpeg', 'gif', 'webp'].", param, "invalid_image_format")
    return None


def options(body: Mapping[str, Any], known: Mapping[str, Bounds]) -> Problem | None:
    """Each option has its type and is within its bounds."""
    for param, (kind, least, most) in known.items():
        given = body.get(param)
        if given is None:
            continue
        fits = isinstance(given, int | float) if kind is float else isinstance(given, kind)
        if not fits or (isinstance(given, bool) and kind is not bool):
            word = {int: "an integer", float: "a decimal", bool: "a boolean", str: "a string"}[kind]
            text = f"Invalid type for '{param}': expected {word}, but got {_named(given)} instead."
            return Problem(text, param, "invalid_type")
        if isinstance(given, str):
            continue
        number = "integer" if kind is int else "decimal"
        if least is not None and given < least:
            why = f"{number} below minimum value. Expected a value >= {least:g}, but got {given} instead."
            return openai.invalid(param, why, f"{number}_below_min_value")
        if most is not None and given > most:
            why = f"{number} above maximum value. Expected a value <= {most:g}, but got {given} instead."
            return openai.invalid(param, why, f"{number}_above_max_value")
    return None


def one_of(param: str, given: Any, words: Collection[str]) -> Problem | None:
    """A value is one of some words."""
    if isinstance(given, str) and given in words:
        return None
    listed = [f"'{word}'" for word in words]
    supported = f"{', '.join(listed[:-1])}, and {listed[-1]}"
    return Problem(f"Invalid value: '{given}'. Supported values are: {supported}.", param, "invalid_value")


def whole_schema(function: str, given: Any, param: str) -> Problem | None:
    """The parameters of a function are a JSON Schema, whose references lead somewhere."""
    if isinstance(given, dict) and openai.schema(function, given, param) is None and not is_valid(given):
        text = f"Invalid schema for function '{function}': it is not valid under any of the given schemas."
        return Problem(text, param, "invalid_function_parameters")
    return None


def plain_schema(function: str, given: Any, param: str) -> Problem | None:
    """At the top it is an object and nothing else."""
    if isinstance(given, dict) and any(key in given for key in TOP):
        why = "schema must have type 'object' and not have 'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the top level."
        return Problem(f"Invalid schema for function '{function}': {why}", param, "invalid_function_parameters")
    return None
