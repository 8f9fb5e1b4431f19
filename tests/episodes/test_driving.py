"""The wall time of an agent: it runs, stands still while held, and is used up exactly once."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quintain.episodes.driving import WallTime


@given(st.lists(st.tuples(st.booleans(), st.floats(0, 100)), max_size=20), st.floats(0.1, 1000))
def test_only_time_that_it_is_not_held_counts(spans: list[tuple[bool, float]], limit: float) -> None:
    now = [50.0]
    wall = WallTime(limit, clock=lambda: now[0])
    now[0] += 7
    wall.start()
    for held, seconds in spans:
        if held:
            with wall.held():
                now[0] += seconds
        else:
            now[0] += seconds
    used = sum(seconds for held, seconds in spans if not held)
    assert wall.left_s == pytest.approx(limit - used, abs=1e-6)
    assert wall.expired == (wall.left_s is not None and wall.left_s <= 0)


def test_without_a_limit_it_never_ends() -> None:
    now = [0.0]
    wall = WallTime(clock=lambda: now[0])
    now[0] = 1e12
    assert (wall.left_s, wall.expired) == (None, False)


@pytest.mark.asyncio
async def test_a_timeout_waits_for_what_holds_it_and_then_takes_what_is_left() -> None:
    wall, loop = WallTime(0.2), asyncio.get_running_loop()

    async def use() -> None:
        async with wall.within():
            with wall.held():
                await asyncio.sleep(0.4)
            await asyncio.sleep(30)

    wall.start()
    began = loop.time()
    with pytest.raises(TimeoutError):
        await use()
    assert 0.55 <= loop.time() - began < 20
    assert wall.expired


@pytest.mark.asyncio
async def test_what_is_held_can_be_cancelled() -> None:
    wall = WallTime(5.0)

    async def hold() -> None:
        async with wall.within():
            with wall.held():
                await asyncio.sleep(30)

    holding = asyncio.create_task(hold())
    await asyncio.sleep(0.01)
    holding.cancel()
    with pytest.raises(asyncio.CancelledError):
        await holding
    assert wall.held_s > 0
