"""Starts wait for their turn and for memory, in order, within bounds."""

import asyncio
import time

import pytest

from quintain.episodes.admission import Admission
from quintain.errors import CapacityError

pytestmark = pytest.mark.asyncio

MIB = 2**20


class Memory:
    """Memory as a test wants it, and what relief does to it."""

    def __init__(self, mib: int, relief_mib: int = 0) -> None:
        self.mib = mib
        self.relief_mib = relief_mib
        self.relieved = 0

    def available(self) -> int:
        return self.mib * MIB

    async def relieve(self) -> None:
        self.relieved += 1
        self.mib += self.relief_mib


def admission(memory: Memory, **options: float) -> Admission:
    made = Admission(2, available=memory.available, floor_bytes=100 * MIB, **options)  # type: ignore[arg-type]
    made.relieve = memory.relieve
    return made


async def test_a_few_start_at_a_time_in_the_order_they_came() -> None:
    gate = Admission(2)
    order: list[int] = []
    at_once = most = 0

    async def start(number: int) -> None:
        nonlocal at_once, most
        async with gate:
            order.append(number)
            at_once += 1
            most = max(most, at_once)
            await asyncio.sleep(0.01)
            at_once -= 1

    await asyncio.gather(*(start(number) for number in range(10)))
    assert (order, most, gate.queued) == (list(range(10)), 2, 0)


async def test_while_memory_is_short_starts_wait_and_idle_sessions_give_some_back() -> None:
    memory = Memory(40, relief_mib=30)
    gate = admission(memory)
    started = time.monotonic()
    async with gate:
        assert memory.relieved == 2
        assert memory.mib == 100
    assert time.monotonic() - started < 30  # of the two minutes that one may wait
    async with gate:
        assert memory.relieved == 2  # there is enough now: nobody is asked


async def test_memory_that_comes_back_lets_everyone_through() -> None:
    memory = Memory(0)
    gate = admission(memory)

    async def start() -> None:
        async with gate:
            pass

    starts = [asyncio.create_task(start()) for _ in range(5)]
    await asyncio.sleep(0.3)
    assert gate.queued == 5
    memory.mib = 200
    await asyncio.wait_for(asyncio.gather(*starts), 20)
    assert gate.queued == 0


async def test_who_waits_too_long_is_refused_with_the_reason_and_the_counts() -> None:
    gate = admission(Memory(40), timeout_s=0.3)
    with pytest.raises(
        CapacityError, match="40 MiB of memory are left, and QUINTAIN_MIN_FREE_MEMORY keeps 100"
    ) as said:
        await gate.__aenter__()
    assert "QUINTAIN_QUEUE_TIMEOUT" in str(said.value)
    assert said.value.counts == {"queued_resets": 1, "max_queued_resets": gate.max_queued}
    assert gate.queued == 0


async def test_one_too_many_is_refused_at_once() -> None:
    gate = admission(Memory(40), max_queued=1)
    first = asyncio.create_task(gate.__aenter__())
    await asyncio.sleep(0)
    with pytest.raises(CapacityError, match="1 resets wait already") as said:
        await gate.__aenter__()
    assert said.value.counts == {"queued_resets": 1, "max_queued_resets": 1}
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    assert gate.queued == 0


async def test_a_turn_is_given_back_by_whoever_does_not_use_it() -> None:
    memory = Memory(0)
    gate = admission(memory)
    for _ in range(5):  # cancelled while it looks for memory, with the turn in its hand
        waiting = asyncio.create_task(gate.__aenter__())
        await asyncio.sleep(0.01)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
    memory.mib = 200
    async with gate, gate:
        pass


async def test_without_a_floor_memory_is_never_looked_at() -> None:
    def look() -> int:
        raise AssertionError("nobody needs to know")

    async with Admission(1, available=look):
        pass
