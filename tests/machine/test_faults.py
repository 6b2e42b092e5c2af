"""What the checks have to notice: every named fault, and that planting one leaves nothing behind."""

from __future__ import annotations

import pytest

from noria.core import machine, state, transcript
from noria.core.machine import step

from .faults import FAULTS, Fault, plant
from .mutate import MODULES, kill, listed, mutants
from .patching import by_golden, by_simulation, patched, source_of


@pytest.mark.seed("V06")
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_every_named_fault_is_caught(fault: Fault) -> None:
    """V06, noria's form: the loop itself is what is tested most; each of its rules, broken, is noticed."""
    with patched(fault.module, plant(fault)):
        assert by_golden() or by_simulation()
    assert not by_golden()


def test_there_are_forty_faults_of_most_rules() -> None:
    assert len(FAULTS) >= 40
    assert len({fault.name for fault in FAULTS}) == len(FAULTS)
    assert len({fault.rule for fault in FAULTS}) >= 20


def test_what_was_planted_is_taken_out_again() -> None:
    codes = {name: f.__code__ for name, f in vars(machine).items() if callable(f) and hasattr(f, "__code__")}
    repeat = machine.REPEAT
    text = (
        source_of(machine).replace('"rate_limited", "overloaded"', '"overloaded"').replace("attempt=1,", "attempt=9,")
    )
    with patched(machine, text):
        assert repeat != machine.REPEAT
        assert machine.step is step
    assert machine.REPEAT is repeat
    assert {name: f.__code__ for name, f in vars(machine).items() if name in codes and hasattr(f, "__code__")} == codes


def test_a_patch_reaches_methods_and_properties() -> None:
    entry = transcript.Transcript()
    with patched(transcript, source_of(transcript).replace("return self.length\n", "return self.length + 7\n")):
        assert len(entry) == 7
    assert len(entry) == 0
    with patched(state, source_of(state).replace("IMAGE_TOKENS = 1_600", "IMAGE_TOKENS = 16")):
        assert state.IMAGE_TOKENS == 16
    assert state.IMAGE_TOKENS == 1_600


@pytest.mark.parametrize("module", sorted(MODULES))
def test_mutants_are_made(module: str) -> None:
    every = mutants(module)
    assert {"dropped", "negated", "swapped", "wrong id", "off by one"} == {m.kind for m in every}
    assert [m.number for m in every] == list(range(len(every)))


def test_mutants_are_killed() -> None:
    for mutant in [m for m in mutants("machine") if m.name not in listed()][::60]:
        assert kill(mutant)[1], mutant.name
