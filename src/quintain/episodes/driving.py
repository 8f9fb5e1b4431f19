"""How an agent is driven through a started episode, and the limits it may run into."""

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from quintain.contracts.terminal import ENDINGS, TerminalReason
from quintain.contracts.tools import Tool
from quintain.contracts.turns import Ending
from quintain.environments.base import ToolOutcome
from quintain.episodes.base import Agent, JsonObject
from quintain.errors import Owner


class WallTime:
    """Seconds that an agent may take. The clock stands still while it is held up by what is not its doing."""

    def __init__(self, limit_s: float | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        """`limit_s` of None is no limit."""
        self.held_s = 0.0
        """Seconds that it has stood still."""
        self._limit_s = limit_s
        self._clock = clock
        self._began = clock()
        self._timeout: asyncio.Timeout | None = None

    def start(self) -> None:
        """Count from now."""
        self._began, self.held_s = self._clock(), 0.0

    @property
    def left_s(self) -> float | None:
        """Seconds that are left; None where there is no limit."""
        if self._limit_s is None:
            return None
        return self._limit_s - (self._clock() - self._began - self.held_s)

    @property
    def expired(self) -> bool:
        """Whether there is nothing left."""
        left = self.left_s
        return left is not None and left <= 0

    def within(self) -> asyncio.Timeout:
        """A timeout for what is left: `async with wall.within()`."""
        self._timeout = asyncio.timeout(self.left_s)
        return self._timeout

    @contextmanager
    def held(self) -> Iterator[None]:
        """The clock stands still, for as long as this lasts."""
        began, timeout = self._clock(), self._timeout
        if timeout is not None:
            timeout.reschedule(None)
        try:
            yield
        finally:
            self.held_s += self._clock() - began
            left = self.left_s
            if timeout is not None and left is not None:
                timeout.reschedule(asyncio.get_running_loop().time() + left)


@dataclass(frozen=True)
class DriveLimits:
    """What an agent may do and take; what runs into one is truncated."""

    max_steps: int | None = None
    wall: WallTime | None = None
    call_timeout_s: float = 30.0
    """How long one tool may take."""


class Driven(Protocol):
    """What is driven: a started episode."""

    @property
    def failure_owner(self) -> Owner | None:
        """Whose failure makes the reward unusable."""
        ...

    @property
    def tools(self) -> Sequence[Tool]:
        """The tools that there are now."""
        ...

    @property
    def done(self) -> bool:
        """Whether the environment has ended the episode itself."""
        ...

    def list_tools(self) -> Sequence[Tool]:
        """The tools, as a step."""
        ...

    async def call(self, name: str, arguments: JsonObject, timeout_s: float) -> ToolOutcome:
        """One call."""
        ...


async def drive(episode: Driven, agent: Agent, limits: DriveLimits) -> TerminalReason:
    """Let an agent act until it is finished, the environment ends it, a limit is met or the sandbox is lost.

    A call is never cut off. What tools there are may change from call to call.

    Raises what the agent raises, such as EndpointError.
    """
    wall = limits.wall or WallTime()
    wall.start()
    tools = episode.list_tools()
    outcome: ToolOutcome | None = None
    calls = 0
    while True:
        limit = wall.within()
        try:
            async with limit:
                action = await agent.act(tools, outcome)
        except TimeoutError:
            if not limit.expired():  # the agent's own
                raise
            return TerminalReason.WALL_TIME
        if action is None:
            return ended(agent)
        if limits.max_steps is not None and calls >= limits.max_steps:
            return TerminalReason.MAX_STEPS
        outcome = await episode.call(action.tool_name, action.arguments, limits.call_timeout_s)
        calls += 1
        if outcome.owner is Owner.INFRASTRUCTURE:
            return TerminalReason.SANDBOX_LOST
        if episode.done:
            tell_end(agent, outcome)
            return TerminalReason.ENVIRONMENT_ENDED
        tools = episode.tools
        if wall.expired:
            return TerminalReason.WALL_TIME


def tell_end(agent: Agent, last: ToolOutcome) -> None:
    """Tell an agent that wants to know, by `environment_ended(last)`, that its last call ended the episode."""
    tell = getattr(agent, "environment_ended", None)
    if tell is not None:
        tell(last)


def ended(agent: Agent) -> TerminalReason:
    """Why an agent that acts no more does not."""
    ending: Ending | None = getattr(agent, "ending", None)
    return TerminalReason.DONE if ending is None else ENDINGS[ending.reason]
