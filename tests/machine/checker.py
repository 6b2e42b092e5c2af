"""The four families of checks, after every simulated event: legality, conservation, progress, truth.

It shares no code with the machine: it has its own reading of what is legal, its own accounts and its own sums.
"""

from __future__ import annotations

from noria.runtime.simulate import Moment, Simulation

from .conservation import Conservation
from .legality import Legality
from .progress import Progress
from .truth import Truth


class Checker:
    """One for each simulation. Called with every moment; raises Violation where a law does not hold."""

    def __init__(self) -> None:
        self.families = (Conservation(), Legality(), Progress(), Truth())

    def __call__(self, simulation: Simulation, moment: Moment) -> None:
        for family in self.families:
            family.see(simulation, moment)
