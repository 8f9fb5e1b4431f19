"""The player of reference solutions: proves that a task can be solved."""

from collections.abc import Iterable, Sequence
from typing import Any

from quintain.contracts.tools import CallToolAction, Tool


class ReferenceAgent:
    """Makes the calls it was given, in order, whatever comes back; then gives its answer."""

    def __init__(self, calls: Iterable[CallToolAction], final_answer: str | None) -> None:
        self.final_answer = final_answer
        self._calls = iter(calls)

    async def act(self, tools: Sequence[Tool], last: Any) -> CallToolAction | None:
        """The next call, or None after the last."""
        return next(self._calls, None)
