"""Simulators: state machines with timers, and a counterpart by rules whose edge states can be forced."""

from pathlib import Path
from typing import Final

from quintain.artifacts import ArtifactStore
from quintain.environments.inprocess.kind import InProcessKind
from quintain.environments.simulator.check import check
from quintain.environments.simulator.machine import SimulatorMachine

__all__ = ["KIND", "SimulatorMachine", "check", "simulator_kind"]

KIND: Final = "simulator"


def simulator_kind(store: ArtifactStore, scratch: Path | None = None) -> InProcessKind:
    """The kind of environment of simulators."""
    return InProcessKind(KIND, check, SimulatorMachine.of, store, scratch=scratch)
