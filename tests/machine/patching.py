"""Changes the source of a module in memory, for as long as a test needs: the code of its functions and its constants
are put in place of the real ones, whose classes and identity stay."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType, FunctionType, ModuleType
from typing import Any

from noria.core.errors import NoriaError
from noria.runtime.simulate import PLANS, Simulation

from .checker import Checker
from .golden import files, replay
from .reading import Violation

CONSTANTS = (bool, int, str, tuple, frozenset)
SECONDS = 20


class Hung(BaseException):
    """The checks did not come to an end."""


def source_of(module: ModuleType) -> str:
    """The text of a module."""
    return Path(str(module.__file__)).read_text(encoding="utf-8")


@contextmanager
def patched(module: ModuleType, source: str | Any) -> Iterator[None]:
    """The module with the functions and constants of another text (or syntax tree) of it."""
    fresh = ModuleType(module.__name__)
    fresh.__file__ = module.__file__
    exec(compile(source, str(module.__file__), "exec"), vars(fresh))
    undo: list[tuple[Any, str, Any]] = []
    try:
        _swap(vars(module), vars(fresh), module, undo)
        yield
    finally:
        for owner, name, value in reversed(undo):
            setattr(owner, name, value)


def _swap(real: dict[str, Any], fresh: dict[str, Any], owner: object, undo: list[tuple[Any, str, Any]]) -> None:
    for name, new in fresh.items():
        old = real.get(name)
        pair = (_function(old), _function(new))
        if isinstance(pair[0], FunctionType) and isinstance(pair[1], FunctionType):
            if new is not old and pair[1].__module__ == pair[0].__module__:
                for part in ("__code__", "__defaults__", "__kwdefaults__"):
                    undo.append((pair[0], part, getattr(pair[0], part)))
                    setattr(pair[0], part, getattr(pair[1], part))
        elif isinstance(old, type) and isinstance(new, type) and new is not old:
            _swap(dict(vars(old)), dict(vars(new)), old, undo)
        elif isinstance(owner, ModuleType) and isinstance(new, CONSTANTS) and new != old and not name.startswith("__"):
            undo.append((owner, name, old))
            setattr(owner, name, new)


def _function(value: object) -> object:
    """The function inside a property or static method."""
    if isinstance(value, property):
        return value.fget
    return value.__func__ if isinstance(value, staticmethod | classmethod) else value


@contextmanager
def bounded(seconds: float = SECONDS) -> Iterator[None]:
    """Raises Hung when it takes longer (Unix)."""

    def over(number: int, frame: FrameType | None) -> None:
        raise Hung

    before = signal.signal(signal.SIGALRM, over)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def by_golden() -> str:
    """The first golden journal that differs (empty: none)."""
    for path in files():
        kept = path.read_text(encoding="utf-8")
        try:
            with bounded():
                if replay(kept) != kept:
                    return f"golden {path.stem}"
        except (Exception, Hung) as error:  # noqa: BLE001 - whatever a fault raises, it is caught
            return f"golden {path.stem} ({type(error).__name__})"
    return ""


def by_simulation(seeds: int = 2, events: int = 200) -> str:
    """The first law that a slice of the simulation breaks (empty: none)."""
    for seed in range(seeds):
        for plan in PLANS:
            try:
                with bounded():
                    report = Simulation(seed, plan, checks=[Checker()]).run(events)
            except Violation as law:
                return f"{law}"
            except NoriaError as error:
                return f"conservation: {type(error).__name__}"
            except (Exception, Hung) as error:  # noqa: BLE001 - whatever a fault raises, it is caught
                return f"legality: {type(error).__name__}"
            if not report.rested:
                return "progress: no rest in clear weather"
    return ""
