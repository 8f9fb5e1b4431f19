"""Where untrusted code runs: a class is prepared, a payload becomes a template, an episode is claimed from it."""

from quintain.sandboxes.base import (
    IsolationLevel,
    Sandbox,
    SandboxClass,
    SandboxLimits,
    SandboxProvider,
    StateFile,
    Template,
)
from quintain.sandboxes.policy import SecurityPolicy

__all__ = [
    "IsolationLevel",
    "Sandbox",
    "SandboxClass",
    "SandboxLimits",
    "SandboxProvider",
    "SecurityPolicy",
    "StateFile",
    "Template",
]
