"""Noria: an agent runtime on one small pure loop. The public names, each loaded when it is first used.

agent = noria.Agent("chat:gpt-4.1", tools=[weather])
result = await agent.run("What shall I wear in Hama?")
"""

from noria._version import __version__

TYPE_CHECKING = False  # as type checkers read it, without loading typing: `noria --version` passes here
if TYPE_CHECKING:
    from noria.app.agent import Agent, Chat
    from noria.app.approvals import Answer, Approval
    from noria.app.hook_list import Hook
    from noria.app.output import OutputError
    from noria.app.report import Report
    from noria.app.result import RunResult
    from noria.app.session import Session, Which, run
    from noria.app.settings import Options
    from noria.app.stream import AgentEvent, Done, Error, Retry, Stream, ToolEnd, ToolStart
    from noria.core.errors import JournalDamaged, NoriaError, PromptBlocked, SessionBusy, UsageError
    from noria.core.ports import Failure, ReasoningDelta, TextDelta
    from noria.models.scripted import ScriptedModel, call, say
    from noria.runtime.bus import Discarded, Notice
    from noria.runtime.simulate import Simulation
    from noria.sessions.memory import MemoryJournal
    from noria.telemetry.ledger import Ledger, Tally
    from noria.tools.registry import ToolSet
    from noria.tools.schema import Deps, Tool, tool

_PLACES = {
    "Agent": "noria.app.agent",
    "AgentEvent": "noria.app.stream",
    "Answer": "noria.app.approvals",
    "Approval": "noria.app.approvals",
    "Chat": "noria.app.agent",
    "Deps": "noria.tools.schema",
    "Discarded": "noria.runtime.bus",
    "Done": "noria.app.stream",
    "Error": "noria.app.stream",
    "Failure": "noria.core.ports",
    "Hook": "noria.app.hook_list",
    "JournalDamaged": "noria.core.errors",
    "Ledger": "noria.telemetry.ledger",
    "MemoryJournal": "noria.sessions.memory",
    "NoriaError": "noria.core.errors",
    "Notice": "noria.runtime.bus",
    "Options": "noria.app.settings",
    "PromptBlocked": "noria.core.errors",
    "OutputError": "noria.app.output",
    "ReasoningDelta": "noria.core.ports",
    "Report": "noria.app.report",
    "Retry": "noria.app.stream",
    "RunResult": "noria.app.result",
    "ScriptedModel": "noria.models.scripted",
    "Session": "noria.app.session",
    "SessionBusy": "noria.core.errors",
    "Simulation": "noria.runtime.simulate",
    "Stream": "noria.app.stream",
    "Tally": "noria.telemetry.ledger",
    "TextDelta": "noria.core.ports",
    "Tool": "noria.tools.schema",
    "ToolEnd": "noria.app.stream",
    "ToolSet": "noria.tools.registry",
    "ToolStart": "noria.app.stream",
    "UsageError": "noria.core.errors",
    "Which": "noria.app.session",
    "call": "noria.models.scripted",
    "run": "noria.app.session",
    "say": "noria.models.scripted",
    "tool": "noria.tools.schema",
}

__all__ = [
    "Agent", "AgentEvent", "Answer", "Approval", "Chat", "Deps", "Discarded", "Done", "Error", "Failure", "Hook",
    "JournalDamaged", "Ledger", "MemoryJournal", "NoriaError", "Notice", "Options", "OutputError", "PromptBlocked",
    "ReasoningDelta", "Report", "Retry", "RunResult", "ScriptedModel", "Session", "SessionBusy", "Simulation",
    "Stream", "Tally", "TextDelta", "Tool", "ToolEnd", "ToolSet", "ToolStart", "UsageError", "Which", "__version__",
    "call", "run", "say", "tool",
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
