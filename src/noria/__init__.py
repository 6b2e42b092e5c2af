"""Noria: an agent runtime on one small pure loop. The public names, each loaded when it is first used.

report = await noria.run("fix the failing tests", noria.Options(model="chat:gpt-4.1", permission_mode="goal"))
"""

from noria._version import __version__

TYPE_CHECKING = False  # as type checkers read it, without loading typing: `noria --version` passes here
if TYPE_CHECKING:
    from noria.app.report import Report
    from noria.app.session import Session, Which, run
    from noria.app.settings import Options
    from noria.core.errors import NoriaError, UsageError
    from noria.models.scripted import ScriptedModel, call, say
    from noria.runtime.simulate import Simulation
    from noria.sessions.memory import MemoryJournal
    from noria.tools.registry import ToolSet
    from noria.tools.schema import Tool, tool

_PLACES = {
    "MemoryJournal": "noria.sessions.memory",
    "NoriaError": "noria.core.errors",
    "Options": "noria.app.settings",
    "Report": "noria.app.report",
    "ScriptedModel": "noria.models.scripted",
    "Session": "noria.app.session",
    "Simulation": "noria.runtime.simulate",
    "Tool": "noria.tools.schema",
    "ToolSet": "noria.tools.registry",
    "UsageError": "noria.core.errors",
    "Which": "noria.app.session",
    "call": "noria.models.scripted",
    "run": "noria.app.session",
    "say": "noria.models.scripted",
    "tool": "noria.tools.schema",
}

__all__ = [
    "MemoryJournal", "NoriaError", "Options", "Report", "ScriptedModel", "Session", "Simulation", "Tool", "ToolSet",
    "UsageError", "Which", "__version__", "call", "run", "say", "tool",
]  # fmt: skip


def __getattr__(name: str) -> object:
    """Load a public name from its room."""
    place = _PLACES.get(name)
    if place is None:
        raise AttributeError(f"module 'noria' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(place), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """The public names."""
    return __all__
