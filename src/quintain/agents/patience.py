"""Tries an endpoint again where that may help. To repeat a chat completion is safe: it changes nothing but the bill."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable

from pydantic import BaseModel, ConfigDict, Field

from quintain.agents.base import ChatRequest, Completer, Completion
from quintain.contracts.turns import FailedExchange
from quintain.errors import EndpointError


class Retries(BaseModel):
    """How often and how long. Untold, a wait is `first_wait_s`, doubled each time, a quarter more or less."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    attempts: int = Field(default=4, ge=1, le=100, description="All attempts, the first included")
    first_wait_s: float = Field(default=1.0, ge=0)
    max_wait_s: float = Field(default=60.0, ge=0, description="Longest wait; a Retry-After beyond it is not waited for")


class PatientCompleter:
    """A completer that tries again what is retryable; what it waited for is in `Completion.retried`.

    The error that it raises at last has those before it in `retried` (a tuple of `FailedExchange`).
    """

    def __init__(
        self,
        completer: Completer,
        retries: Retries | None = None,
        *,
        dice: random.Random | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._completer = completer
        self._retries = retries or Retries()
        self._dice = dice or random.Random()
        self._sleep = sleep
        self._clock = clock

    async def complete(self, request: ChatRequest) -> Completion:
        """The model's answer. Raises the last attempt's EndpointError."""
        failed = list[FailedExchange]()
        while True:
            began = self._clock()
            try:
                completion = await self._completer.complete(request)
            except EndpointError as error:
                wait = self._wait(error, len(failed) + 1)
                if wait is None:
                    error.retried = tuple(failed)
                    raise
                failed.append(failed_exchange(error, (self._clock() - began) * 1e3))
            else:
                return completion.model_copy(update={"retried": (*failed, *completion.retried)})
            await self._sleep(wait)

    def _wait(self, error: EndpointError, attempts: int) -> float | None:
        """Seconds until the next attempt; None where there is to be none."""
        if not error.retryable or attempts >= self._retries.attempts:
            return None
        if error.retry_after_s is not None:
            return error.retry_after_s if error.retry_after_s <= self._retries.max_wait_s else None
        wait = self._retries.first_wait_s * 2.0 ** (attempts - 1) * self._dice.uniform(0.75, 1.25)
        return min(wait, self._retries.max_wait_s)


def failed_exchange(error: EndpointError, latency_ms: float) -> FailedExchange:
    """An error as the evidence keeps it."""
    return FailedExchange(
        error=type(error).__name__,
        message=str(error),
        delivery=error.delivery,
        status=error.status,
        retry_after_s=error.retry_after_s,
        latency_ms=latency_ms,
    )
