"""What the kinds of environment share that run in process: tools, arguments, state, clock; no code of a pack runs."""

from quintain.environments.inprocess.environment import START_KIND, InProcessEnvironment
from quintain.environments.inprocess.findings import Finding
from quintain.environments.inprocess.kind import InProcessKind, Payload, ReadyMachine
from quintain.environments.inprocess.machine import Call, Machine, State, Turn

__all__ = [
    "START_KIND",
    "Call",
    "Finding",
    "InProcessEnvironment",
    "InProcessKind",
    "Machine",
    "Payload",
    "ReadyMachine",
    "State",
    "Turn",
]
