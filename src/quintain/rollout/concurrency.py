"""How many requests an endpoint is sent at a time: more while it answers, half as many when it asks for fewer.

Additive increase, multiplicative decrease, as TCP has it (RFC 5681): each answered request adds 1/limit, so a whole
round adds one; a request that was refused for its rate, or ran out of time, halves the limit, once for all that were
under way when it did.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Final

from quintain.agents.base import ChatRequest, Completer, Completion
from quintain.errors import EndpointTimeout, EndpointUnavailable, RateLimited

DECREASE: Final = 0.5
MAX_PAUSE_S: Final = 60.0
"""Longest time that a Retry-After keeps everyone else from the endpoint."""


class AdaptiveLimit:
    """How many may be under way at a time, between 1 and a bound. First come, first served."""

    def __init__(
        self,
        bound: int,
        *,
        start: int | None = None,
        clock: Callable[[], float] = time.monotonic,
        told: Callable[[int], object] = lambda _: None,
    ) -> None:
        """
        Args:
            bound: it is never over this.
            start: what it begins with; the bound where it is left out.
            told: called with the new limit, in whole requests, whenever that has changed.
        """
        self.bound = bound
        self.under_way = 0
        self.decreases = 0
        self.lowest = self._limit = float(min(start or bound, bound))
        self._epoch = 0
        self._paused_until = 0.0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._clock = clock
        self._told = told
        self._waking: asyncio.TimerHandle | None = None

    @property
    def limit(self) -> int:
        """Requests that may be under way."""
        return max(1, int(self._limit))

    async def acquire(self) -> int:
        """Wait for a place; hand what it returns to `release`."""
        if self._waiting or not self._free():
            place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(place)
            self._wake_later()
            try:
                await place
            except asyncio.CancelledError:
                if place.done() and not place.cancelled():
                    self.under_way -= 1
                    self._admit()
                elif place in self._waiting:
                    self._waiting.remove(place)
                raise
        else:
            self.under_way += 1
        return self._epoch

    def release(self, epoch: int, *, answered: bool = False, congested: bool = False, pause_s: float = 0.0) -> None:
        """Give a place back, with what came of the request.

        Args:
            congested: the endpoint could not take so many.
            pause_s: seconds in which it wants none.
        """
        self.under_way -= 1
        before = self.limit
        if answered:
            self._limit = min(self._limit + 1 / self._limit, float(self.bound))
        elif congested and epoch == self._epoch:  # those that were under way with it say the same thing again
            self._epoch += 1
            self.decreases += 1
            self._limit = max(1.0, self._limit * DECREASE)
            self.lowest = min(self.lowest, self._limit)
        if pause_s > 0:
            self._paused_until = max(self._paused_until, self._clock() + min(pause_s, MAX_PAUSE_S))
        if self.limit != before:
            self._told(self.limit)
        self._admit()

    def _free(self) -> bool:
        return self.under_way < self.limit and self._clock() >= self._paused_until

    def _admit(self) -> None:
        while self._waiting and self._free():
            place = self._waiting.popleft()
            if not place.done():
                self.under_way += 1
                place.set_result(None)
        self._wake_later()

    def _wake_later(self) -> None:
        """Look again when a pause is over; nothing else would."""
        pause = self._paused_until - self._clock()
        if self._waiting and pause > 0 and self._waking is None:
            self._waking = asyncio.get_running_loop().call_later(pause, self._woken)

    def _woken(self) -> None:
        self._waking = None
        self._admit()


class LimitedCompleter:
    """A completer that takes its turn at an endpoint, and tells the limit what came of it."""

    def __init__(
        self,
        completer: Completer,
        limit: AdaptiveLimit,
        waiting: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        """`waiting` is entered for as long as it waits for its turn."""
        self._completer = completer
        self._limit = limit
        self._held = waiting

    async def complete(self, request: ChatRequest) -> Completion:
        """The model's answer; raises what the completer raises."""
        with self._held():
            epoch = await self._limit.acquire()
        answered = congested = False
        pause_s = 0.0
        try:
            completion = await self._completer.complete(request)
            answered = True
        except RateLimited as error:
            congested, pause_s = True, error.retry_after_s or 0.0
            raise
        except EndpointTimeout:
            congested = True
            raise
        except EndpointUnavailable as error:
            congested = error.status in (503, 529)  # overloaded, by the two statuses that say so
            pause_s = error.retry_after_s or 0.0 if congested else 0.0
            raise
        finally:
            self._limit.release(epoch, answered=answered, congested=congested, pause_s=pause_s)
        return completion
