"""An agent that lives elsewhere: the episode waits while something outside acts, until that is done or time is up.

It may act in two ways. Over the agent plane of a server its calls go to the episode themselves, and this agent only
waits for `finish`. Without a server it calls `ExternalAgent.call`, which hands each call to whoever drives the episode.
"""

import asyncio
from collections.abc import Awaitable, Sequence
from typing import Any, TypeVar

from quintain.agents.base import JsonObject, Observation, observed
from quintain.agents.calls import action
from quintain.contracts.tools import CallToolAction, Tool
from quintain.contracts.turns import Ending, EndReason, TurnRecord
from quintain.errors import Delivery, EpisodeOver

T = TypeVar("T")


class ExternalAgent:
    """The episode's end of an agent outside. All of it runs in one event loop.

    Args:
        deadline_s: seconds from the first `act`. What is not finished then is truncated, without a final answer.
    """

    def __init__(self, deadline_s: float) -> None:
        self.final_answer: str | None = None
        self.turns: Sequence[TurnRecord] = ()
        self.ending: Ending | None = None
        self._deadline_s = deadline_s
        self._deadline: float | None = None
        self._tools: Sequence[Tool] = ()
        self._begun = asyncio.Event()
        self._over = asyncio.Event()
        self._offers: asyncio.Queue[tuple[CallToolAction, asyncio.Future[Observation]]] = asyncio.Queue()
        self._answer: asyncio.Future[Observation] | None = None

    async def act(self, tools: Sequence[Tool], last: Any) -> CallToolAction | None:
        """Wait for the agent's next call; None when it has finished or its time is up."""
        loop = asyncio.get_running_loop()
        if self._deadline is None:
            self._deadline = loop.time() + self._deadline_s
            self._begun.set()
        self._tools = tools
        if self._answer is not None:
            if not self._answer.done():
                self._answer.set_result(observed(last))
            self._answer = None
        offer = asyncio.ensure_future(self._offers.get())
        over = asyncio.ensure_future(self._over.wait())
        try:
            await asyncio.wait((offer, over), timeout=self._deadline - loop.time(), return_when=asyncio.FIRST_COMPLETED)
            if over.done() or not offer.done():
                self._end()
                return None
            wanted, self._answer = offer.result()
            return wanted
        except BaseException:
            self._over.set()  # nobody drives the episode any more, so nobody may wait for it
            raise
        finally:
            for waiting in (offer, over):
                waiting.cancel()
            await asyncio.gather(offer, over, return_exceptions=True)

    def environment_ended(self, last: Any) -> None:
        """Its last call ended the episode; that call is answered, and no other is."""
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(observed(last))
        self.ending = self.ending or Ending(reason=EndReason.ENVIRONMENT_ENDED)
        self._over.set()

    def _end(self) -> None:
        if self.ending is None:
            self.ending = Ending(reason=EndReason.DEADLINE, detail=f"not finished within {self._deadline_s:g} s")
        self._over.set()

    async def tools(self) -> Sequence[Tool]:
        """The tools that there are now, once the episode has begun."""
        await self._unless_over(self._begun.wait())
        return self._tools

    async def call(self, name: str, arguments: JsonObject) -> Observation:
        """Make a call and wait for what it comes to. Calls are made one at a time, in the order in which they came.

        Raises:
            EpisodeOver: the call was not made, or the episode ended before it was answered.
        """
        answer: asyncio.Future[Observation] = asyncio.get_running_loop().create_future()
        if not self._over.is_set():
            self._offers.put_nowait((action(name, arguments), answer))
        try:
            return await self._unless_over(answer)
        except EpisodeOver as error:
            if answer is self._answer:  # the driver has taken it
                raise EpisodeOver(str(error), delivery=Delivery.POSSIBLY_DELIVERED) from None
            raise

    def finish(self, final_answer: str | None = None) -> None:
        """The agent is done. A second time it changes nothing."""
        if not self._over.is_set():
            self.final_answer, self.ending = final_answer, Ending(reason=EndReason.FINISHED)
            self._over.set()

    async def _unless_over(self, waiting: Awaitable[T]) -> T:
        wanted = asyncio.ensure_future(waiting)
        over = asyncio.ensure_future(self._over.wait())
        try:
            await asyncio.wait((wanted, over), return_when=asyncio.FIRST_COMPLETED)
            if not wanted.done():
                raise EpisodeOver("the episode is over; begin another", delivery=Delivery.NOT_SENT)
            return wanted.result()
        finally:
            for one in (wanted, over):
                one.cancel()
            await asyncio.gather(wanted, over, return_exceptions=True)
