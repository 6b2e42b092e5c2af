"""What an agent is made of and given, checked: each mistake of its maker is a UsageError of one line.

Owns: these checks. Must not know: sessions, how a turn goes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any

from noria.app.hook_list import Hook
from noria.app.settings import Options, Settings
from noria.core.errors import UsageError
from noria.guard.modes import MODES
from noria.tools.schema import Tool

PDF = "application/pdf"


def tools(given: object) -> tuple[Tool, ...]:
    """The tools, each with its schema made. Raises UsageError for what cannot be one."""
    found: dict[str, Tool] = {}
    for each in () if given is None else _listed(given, "tools", "functions: tools=[weather]"):
        try:
            tool = each if isinstance(each, Tool) else Tool(each)
            tool.schema  # noqa: B018 (derived here, so that mistakes are met where the agent is made)
        except TypeError as error:
            raise UsageError(str(error)) from None
        if tool.name in found:
            raise UsageError(f"two tools are called {tool.name}: give one another name with @tool(name=...)")
        found[tool.name] = tool
    return tuple(found.values())


def hooks(given: object) -> tuple[Hook, ...]:
    """The hooks. Raises UsageError for what is none."""
    every = tuple(_listed(given, "hooks", 'hooks: hooks=[Hook("PreToolUse", guard)]'))
    for each in every:
        if not isinstance(each, Hook):
            raise UsageError(f'{_shown(each)} is no hook: write Hook("PreToolUse", function)')
    return every


def text(given: object, what: str) -> str:
    """A text. Raises UsageError for anything else."""
    if not isinstance(given, str):
        raise UsageError(f"{what} is text, not {type(given).__name__}: {_shown(given)}")
    return given


def steps(given: object) -> int | None:
    """A number of steps, or None. Raises UsageError."""
    if given is None:
        return None
    if not isinstance(given, int) or isinstance(given, bool) or given < 0:
        raise UsageError(f"max_steps is {_shown(given)}: give 1 or more, or 0 for no limit")
    return given


def mode(given: Any) -> Any:
    """A permission mode, or None. Raises UsageError."""
    if given is None or given in MODES:
        return given
    near = get_close_matches(str(given), MODES, 1, 0.6)
    hint = f"; did you mean {near[0]}?" if near else ""
    raise UsageError(f"there is no permission mode {given!r}: choose one of {', '.join(MODES)}{hint}")


def approver(given: object) -> None:
    """A function that is asked, or None. Raises UsageError."""
    if given is not None and not callable(given):
        raise UsageError(f"approve is a function that gets an Approval, not {type(given).__name__}: {_shown(given)}")


def model(given: object) -> None:
    """A model's name, Options, Settings, or an object that answers itself. Raises UsageError."""
    if isinstance(given, str | Options | Settings):
        return
    if isinstance(given, type) or not callable(getattr(given, "reply", None)):
        raise UsageError(
            f"{_shown(given)} is no model: give a name like 'chat:gpt-4.1', Options(model=...), or a ScriptedModel"
        )


def journal(given: object) -> None:
    """A journal of the caller's, or None. Raises UsageError."""
    if isinstance(given, bytes | str):
        raise UsageError("a journal is a MemoryJournal: MemoryJournal.load(saved) makes one of what save() gave")
    if given is not None and not hasattr(given, "put"):
        raise UsageError(f"a journal is a MemoryJournal, not {type(given).__name__}: {_shown(given)}")


def images(given: Any) -> list[tuple[bytes, str]]:
    """The images of a prompt, each with the media type that its bytes say. Raises UsageError for what no model
    takes."""
    if not given:
        return []
    found: list[tuple[bytes, str]] = []
    for each in _listed(given, "images", "pairs: images=[(data, 'image/png')]"):
        match each:
            case [bytes() | bytearray() as data, str() as kind]:
                found.append(_image(bytes(data), kind))
            case _:
                how = "give its bytes and media type, as in (data, 'image/png')"
                raise UsageError(f"{_shown(each)} is no image: {how}")
    return found


def _image(data: bytes, kind: str) -> tuple[bytes, str]:
    from noria.tools.picture import look

    if data.startswith(b"%PDF-"):
        return data, PDF
    seen = look(data)
    if seen is None:
        what = "is empty" if not data else "is none that models take (PNG, JPEG, GIF, WebP, PDF)"
        raise UsageError(f"the image of type {kind} {what}: {data[:12]!r}")
    return data, seen.media_type  # one that is damaged is left out once the server has refused it


def _listed(given: object, name: str, how: str) -> Iterable[Any]:
    if isinstance(given, str | bytes | Mapping | Tool) or not isinstance(given, Iterable):
        raise UsageError(f"{name} is a list of {how}, not {type(given).__name__}")
    return given


def _shown(value: object) -> str:
    said = repr(value)
    return said if len(said) <= 80 else f"{said[:77]}..."
