"""An LLM judge: puts one case before a model and returns its judgment, or why there is none.

Whatever an endpoint does, no exception comes out of `Judge.judge`, and no call outlasts `total_timeout_s`.
"""

import asyncio
import logging
import random
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from quintain.contracts.endpoints import without_key
from quintain.contracts.untrusted import printable, whole_text
from quintain.errors import Owner
from quintain.verifiers.judging import UNSURE_BELOW, Case, JudgeSettings, Judgment, NoJudgment, json_digest
from quintain.verifiers.judging_answer import read_judgment
from quintain.verifiers.judging_cache import JudgmentCache
from quintain.verifiers.judging_prompt import answer_schema, messages, prompt_digest

if TYPE_CHECKING:
    from quintain.verifiers.judging_endpoint import Endpoints, Trouble

MAX_CONCURRENCY: Final = 16
"""Exchanges with one endpoint at a time; others wait their turn."""

MAX_RETRY_AFTER_S: Final = 60.0
"""Of a longer Retry-After only so much is waited."""

_FIRST_WAIT_S = 0.5
_LONGEST_WAIT_S = 20.0
_LOG = logging.getLogger(__name__)


@dataclass
class _Flight:
    """One question on its way, and how many wait for its answer."""

    key: tuple[str, str | None]
    task: "asyncio.Task[Judgment | NoJudgment]"
    waiting: int = 0


@dataclass
class _Gate:
    """The bound on exchanges with one endpoint."""

    room: asyncio.Semaphore
    users: int = 0


class Judge:
    """Judges cases at any OpenAI-compatible endpoint. Each call names its settings; close it with `aclose`.

    Judgments are cached by (case, prompt, model, endpoint), and equal questions at the same time are asked once. What
    is no judgment is never cached.
    """

    def __init__(
        self,
        cache: JudgmentCache | None = None,
        *,
        max_concurrency: int = MAX_CONCURRENCY,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        rng: random.Random | None = None,
        nonce: Callable[[], str] = lambda: secrets.token_hex(8),
    ) -> None:
        self._cache = cache or JudgmentCache()
        self._max_concurrency = max_concurrency
        self._clock = clock
        self._sleep = sleep
        self._rng = rng or random.Random()
        self._nonce = nonce
        self._gates: dict[str | None, _Gate] = {}
        self._flights: dict[tuple[str, str | None], _Flight] = {}
        self._endpoints: Endpoints | None = None
        self._closed = False

    async def judge(self, settings: JudgeSettings, case: Case) -> Judgment | NoJudgment:
        """The judgment of a case, or why there is none."""
        if self._closed:
            return _CLOSED
        if settings.missing is not None:
            return NoJudgment(settings.missing, Owner.VERIFIER)
        flight = self._flight(settings, case)
        flight.waiting += 1
        try:
            return await asyncio.shield(flight.task)
        except asyncio.CancelledError:
            own = asyncio.current_task()
            if flight.task.cancelled() and self._closed and own is not None and not own.cancelling():
                return _CLOSED
            raise
        finally:
            flight.waiting -= 1
            if flight.waiting == 0 and not flight.task.done():  # nobody wants the answer any more
                self._forget(flight)
                flight.task.cancel()

    async def aclose(self) -> None:
        """End what is on its way, which then has no judgment, and close the connections. Idempotent."""
        self._closed = True
        tasks = [flight.task for flight in self._flights.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._endpoints is not None:
            await self._endpoints.aclose()

    def _flight(self, settings: JudgeSettings, case: Case) -> _Flight:
        question = json_digest([case.digest, prompt_digest(), settings.model, settings.base_url])
        # who has another key must not have his answer, or refusal, from a call with this one
        key = (question, settings.api_key.get_secret_value() if settings.api_key is not None else None)
        if key not in self._flights:
            task = asyncio.create_task(self._answer(question, settings, case))
            self._flights[key] = flight = _Flight(key, task)
            task.add_done_callback(lambda _: self._forget(flight))
        return self._flights[key]

    def _forget(self, flight: _Flight) -> None:
        if self._flights.get(flight.key) is flight:
            del self._flights[flight.key]

    async def _answer(self, question: str, settings: JudgeSettings, case: Case) -> Judgment | NoJudgment:
        kept = await self._cache.get(question)
        if kept is not None:
            return kept
        answer = await self._asked(settings, case)
        if isinstance(answer, NoJudgment):
            return answer
        if answer.confidence < UNSURE_BELOW:
            why = "; ".join(answer.reasons) or "it gives no reasons"
            sure = f"says {answer.classification} with confidence {answer.confidence:g}, under {UNSURE_BELOW}"
            return NoJudgment(f"the judge is unsure: {settings.model} {sure}: {why}", Owner.VERIFIER)
        await self._cache.put(question, answer)
        return answer

    async def _asked(self, settings: JudgeSettings, case: Case) -> Judgment | NoJudgment:
        """Ask until there is a judgment, the endpoint is beyond help, or attempts or time are used up."""
        deadline = self._clock() + settings.total_timeout_s
        attempts, why, owner = 0, "there was no turn with the endpoint", Owner.INFRASTRUCTURE
        while True:
            try:
                async with asyncio.timeout(max(0.0, deadline - self._clock())):
                    answer = await self._attempt(settings, case)
            except TimeoutError:
                late = f"no judgment within {settings.total_timeout_s:g} s; {why}"
                return NoJudgment(late, Owner.INFRASTRUCTURE if attempts == 0 else owner, attempts)
            if isinstance(answer, Judgment):
                return answer
            attempts += 1
            why, owner = answer.reason, answer.owner
            _LOG.info("judge attempt %d: %s", attempts, why)
            wait = self._wait(attempts, answer)
            if not answer.retry or attempts > settings.max_retries:
                break
            if self._clock() + wait >= deadline:
                why += f"; another attempt would be over the {settings.total_timeout_s:g} s for all of them"
                break
            await self._sleep(wait)
        return NoJudgment(f"no judgment after {attempts} attempts: {why}", owner, attempts)

    async def _attempt(self, settings: JudgeSettings, case: Case) -> "Judgment | Trouble":
        from quintain.verifiers import judging_endpoint as endpoint  # the HTTP client is slow to load

        if self._endpoints is None:
            self._endpoints = endpoint.Endpoints()
        nonce = self._nonce()
        async with self._turn(settings):
            reply = await self._endpoints.complete(settings, messages(case, nonce), answer_schema(case.choices))
        if isinstance(reply, endpoint.Trouble):
            return reply

        def clean(text: str) -> str:
            return printable(whole_text(without_key(text, settings.api_key)))

        read = read_judgment(reply.text, nonce, case.choices, clean)
        if isinstance(read, str):
            return endpoint.Trouble(f"model {settings.model} gave no judgment: {read}", Owner.VERIFIER)
        return read.model_copy(update={"served_model": reply.model})

    @asynccontextmanager
    async def _turn(self, settings: JudgeSettings) -> AsyncIterator[None]:
        url = settings.base_url
        gate = self._gates.setdefault(url, _Gate(asyncio.Semaphore(self._max_concurrency)))
        gate.users += 1
        try:
            async with gate.room:
                yield
        finally:
            gate.users -= 1
            if gate.users == 0:
                del self._gates[url]

    def _wait(self, attempts: int, trouble: "Trouble") -> float:
        """Seconds before the next attempt: doubling, with jitter, and as long as the endpoint asks within bounds."""
        longest: float = min(_FIRST_WAIT_S * 2.0 ** (attempts - 1), _LONGEST_WAIT_S)
        backoff = longest * self._rng.uniform(0.5, 1.0)
        asked = min(trouble.retry_after_s or 0.0, MAX_RETRY_AFTER_S)
        return max(backoff, asked)


_CLOSED = NoJudgment("the judge was closed before it answered; verify again", Owner.INFRASTRUCTURE)
