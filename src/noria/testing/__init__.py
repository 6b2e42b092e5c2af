"""For tests of agents: a scripted model behind a real HTTP server that refuses what the real APIs refuse. Public.

It speaks Chat Completions, Responses, Messages and generateContent, streamed and whole, with every fault of a network
and of a provider. It imports nothing of noria's loop, so it can judge any client. The guide: docs/guides/testing.md.
"""

from __future__ import annotations

from noria.testing.faults import BROKEN, REFUSED, Fault, Faults, Slow, Status
from noria.testing.request import DIALECTS, Dialect, Request, turns_so_far
from noria.testing.script import End, Follow, Script, Turn
from noria.testing.server import ModelServer
from noria.testing.validator import PROFILES, RULES, Problem, Rule, Violation, check

__all__ = [
    "BROKEN", "DIALECTS", "PROFILES", "REFUSED", "RULES", "Dialect", "End", "Fault", "Faults", "Follow", "ModelServer",
    "Problem", "Request", "Rule", "Script", "Slow", "Status", "Turn", "Violation", "check", "turns_so_far",
]  # fmt: skip
