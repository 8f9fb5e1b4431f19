"""The adaptive limit: within its bounds whatever happens, halved once for each congestion, and paused on request."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quintain.agents.base import ChatRequest, Completion
from quintain.errors import EndpointRefused, EndpointTimeout, EndpointUnavailable, RateLimited
from quintain.rollout.concurrency import MAX_PAUSE_S, AdaptiveLimit, LimitedCompleter


@given(
    bound=st.integers(1, 40),
    results=st.lists(st.sampled_from(["answered", "congested", "neither"]), max_size=200),
    at_once=st.integers(1, 60),
)
def test_it_stays_between_one_and_its_bound(bound: int, results: list[str], at_once: int) -> None:
    async def use() -> None:
        limit = AdaptiveLimit(bound)
        left = list(results)

        async def worker() -> None:
            while left:
                epoch = await limit.acquire()
                assert 1 <= limit.under_way <= bound
                await asyncio.sleep(0)
                what = left.pop() if left else "neither"
                limit.release(epoch, answered=what == "answered", congested=what == "congested")
                assert 1 <= limit.limit <= bound

        await asyncio.gather(*(worker() for _ in range(at_once)))
        assert limit.under_way == 0

    asyncio.run(use())


@pytest.mark.asyncio
async def test_all_that_were_under_way_halve_it_once() -> None:
    limit = AdaptiveLimit(16)
    epochs = [await limit.acquire() for _ in range(16)]
    for epoch in epochs:
        limit.release(epoch, congested=True)
    assert (limit.limit, limit.decreases) == (8, 1)
    limit.release(await limit.acquire(), congested=True)
    assert (limit.limit, limit.decreases) == (4, 2)


@pytest.mark.asyncio
async def test_a_round_of_answers_adds_one() -> None:
    told: list[int] = []
    limit = AdaptiveLimit(16, start=4, told=told.append)
    for _ in range(5):  # a little more than a round: the share that is added shrinks as the limit grows
        limit.release(await limit.acquire(), answered=True)
    assert limit.limit == 5
    assert told == [5]


@pytest.mark.asyncio
async def test_a_pause_keeps_everyone_out_until_it_is_over() -> None:
    limit = AdaptiveLimit(4)
    limit.release(await limit.acquire(), congested=True, pause_s=0.2)
    loop = asyncio.get_running_loop()
    began = loop.time()
    await asyncio.gather(*(held(limit) for _ in range(3)))
    assert loop.time() - began >= 0.19


async def held(limit: AdaptiveLimit) -> None:
    epoch = await limit.acquire()
    await asyncio.sleep(0.01)
    limit.release(epoch)


@pytest.mark.asyncio
async def test_a_pause_is_bounded() -> None:
    now = [0.0]
    limit = AdaptiveLimit(4, clock=lambda: now[0])
    limit.release(await limit.acquire(), congested=True, pause_s=10**6)
    now[0] = MAX_PAUSE_S
    await asyncio.wait_for(limit.acquire(), 20)


@pytest.mark.asyncio
async def test_whoever_is_cancelled_in_line_leaves_no_hole() -> None:
    limit = AdaptiveLimit(1)
    first = await limit.acquire()
    waiting = [asyncio.create_task(limit.acquire()) for _ in range(3)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    limit.release(first)  # it goes to the second in line, who is cancelled with the place in hand
    waiting[1].cancel()
    epoch = await asyncio.wait_for(waiting[2], 20)
    limit.release(epoch)
    assert limit.under_way == 0
    assert [task.cancelled() for task in waiting] == [True, True, False]


class Failing:
    def __init__(self, error: Exception | None) -> None:
        self.error = error

    async def complete(self, request: ChatRequest) -> Completion:
        if self.error is not None:
            raise self.error
        return Completion(text="yes")


@pytest.mark.parametrize(
    ("error", "decreases"),
    [
        (None, 0),
        (RateLimited("slower", status=429), 1),
        (EndpointTimeout("no answer"), 1),
        (EndpointUnavailable("overloaded", status=503), 1),
        (EndpointUnavailable("a bug there", status=500), 0),
        (EndpointRefused("no such model", status=404), 0),
    ],
)
@pytest.mark.asyncio
async def test_what_counts_as_congestion(error: Exception | None, decreases: int) -> None:
    limit = AdaptiveLimit(8)
    waited: list[bool] = []

    @contextmanager
    def waiting() -> Iterator[None]:
        waited.append(True)
        yield

    completer: Any = LimitedCompleter(Failing(error), limit, waiting)
    if error is None:
        assert (await completer.complete(ChatRequest(messages=()))).text == "yes"
    else:
        with pytest.raises(type(error)):
            await completer.complete(ChatRequest(messages=()))
    assert (limit.decreases, limit.under_way, waited) == (decreases, 0, [True])
