"""What an episode's process holds beyond its database: whether the process can go and another take over."""

import os
from dataclasses import dataclass
from typing import Any

from .app import Scenario
from .traces import memory


@dataclass(frozen=True)
class Held:
    """What the process held when its template was ready: every episode begins with it."""

    remembered: str
    variables: dict[str, str]
    directory: str

    @classmethod
    def now(cls, scenario: Scenario) -> "Held":
        """What this process holds."""
        return cls(memory(scenario.module, _state(scenario)), dict(os.environ), os.getcwd())

    def change(self, scenario: Scenario) -> str | None:
        """Says what is different by now, None if nothing is."""
        try:
            directory = os.getcwd()
        except OSError:  # it was removed
            directory = ""
        if directory != self.directory:
            return "calls changed the working directory"
        if dict(os.environ) != self.variables:
            return "calls changed environment variables"
        if memory(scenario.module, _state(scenario)) != self.remembered:
            return "calls changed what the scenario's module holds"
        return None


def _state(scenario: Scenario) -> Any:
    return scenario.app.state
