"""An agent that calls tools at random: the least that a task must withstand."""

import random
from collections.abc import Sequence
from typing import Any

from quintain.agents.samples import arguments
from quintain.contracts.tools import CallToolAction, Tool
from quintain.contracts.turns import Ending, EndReason, TurnRecord


class RandomAgent:
    """Makes a number of calls to tools drawn at random, with arguments that fit their schemas; then it says nothing.

    What it does depends on seed, episode and the tools, and on nothing else: not on what came back.
    """

    def __init__(self, seed: int, episode: str, *, min_steps: int = 1, max_steps: int = 10) -> None:
        """`episode` tells episodes apart, such as an episode id with an attempt."""
        if not 0 <= min_steps <= max_steps:
            raise ValueError(f"min_steps {min_steps} and max_steps {max_steps} are no range of step counts")
        self.final_answer: str | None = None
        self.turns: Sequence[TurnRecord] = ()
        self.ending: Ending | None = None
        self._dice = random.Random(f"{seed}:{episode}")
        self._left = self._dice.randint(min_steps, max_steps)

    async def act(self, tools: Sequence[Tool], last: Any) -> CallToolAction | None:
        """The next call; None at the end, or where there are no tools."""
        if not tools or self._left == 0:
            self.ending = Ending(reason=EndReason.FINISHED)
            return None
        self._left -= 1
        tool = self._dice.choice(tools)
        return CallToolAction(tool_name=tool.name, arguments=arguments(tool.input_schema, self._dice))
