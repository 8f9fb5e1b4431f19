"""Measure how many sessions live at once: `make bench-density SESSIONS=1000`, or hibernating ones: `HIBERNATE=1`.

Opens sessions on the shipped pack, makes 20 calls in each, waits for freed memory to come back, asks every session
once more, opens a few more one at a time, and says what all of it took. Stops opening when less than 2 GiB is left.
"""

import argparse
import asyncio
import random
import time
from contextlib import AsyncExitStack
from pathlib import Path

import uvloop
from measuring import (
    SCENARIO,
    Figures,
    Served,
    available_mib,
    calls,
    conditions,
    descriptors,
    episode_processes,
    percentile,
    private_mib,
    report,
    served,
    threads,
    timed,
)

from quintain.clients.wire import WireSession

_FLOOR_MIB = 2048
_SETTLE_S = 20.0
_LATE = 50


async def measure(target: Served, sessions: int, call_count: int, hibernate_after_s: float) -> Figures:
    """Open, call, settle, ask again."""
    before, idle_descriptors = available_mib(), descriptors(target.pid)
    claims: list[float] = []
    async with AsyncExitStack() as stack:
        opened: list[WireSession] = []
        while len(opened) < sessions and available_mib() > _FLOOR_MIB:
            batch = [await stack.enter_async_context(WireSession(target.url)) for _ in range(8)]
            claims += await asyncio.gather(*map(_claim, batch))
            for number in range(1, call_count):
                await asyncio.gather(*(session.call(*calls(number)) for session in batch))
            opened += batch
        await asyncio.sleep(_SETTLE_S + hibernate_after_s)
        processes = episode_processes()
        private = [private_mib(pid) for pid in processes]
        taken, held = before - available_mib(), descriptors(target.pid) - idle_descriptors
        began = time.perf_counter()
        again = [await timed(session.call("get_product", {"product_id": 3})) for session in random.sample(opened, 200)]
        answered = await asyncio.gather(*(session.state() for session in opened))
        late = []
        for _ in range(_LATE):
            late.append(await _claim(await stack.enter_async_context(WireSession(target.url))))
        return {
            "sessions": len(opened),
            "sessions that answer": sum(answer["step_count"] >= call_count for answer in answered),
            "live processes": len(processes),
            "memory taken, MemAvailable (MiB)": taken,
            "memory per session, MemAvailable (MiB)": taken / len(opened),
            "private memory of all episodes (MiB)": sum(private),
            "private memory per episode p50 (MiB)": percentile(private, 0.5) if private else 0.0,
            "reset to first call done while opening, 8 at a time, p50 (ms)": percentile(claims, 0.5),
            "reset to first call done while opening, 8 at a time, p99 (ms)": percentile(claims, 0.99),
            "reset to first call done beside all of them, p50 (ms)": percentile(late, 0.5),
            "reset to first call done beside all of them, p99 (ms)": percentile(late, 0.99),
            "a call afterwards p50 (ms)": percentile(again, 0.5),
            "a call afterwards p99 (ms)": percentile(again, 0.99),
            "asking again took (s)": time.perf_counter() - began,
            "server memory (MiB)": private_mib(target.pid),
            "server descriptors per session": held / len(opened),
            "server threads": threads(target.pid),
        }


async def _claim(session: WireSession) -> float:
    began = time.perf_counter()
    await session.reset(scenario=SCENARIO, task_idx=0)
    await session.call(*calls(0))
    return (time.perf_counter() - began) * 1e3


def main() -> None:
    """Run, print a table, write JSON if asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sessions", type=int, default=1000)
    parser.add_argument("--calls", type=int, default=20)
    parser.add_argument("--hibernate-after", type=float, default=0.0, help="seconds; 0 keeps every process")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    described = conditions(calls=options.calls, hibernate_after_s=options.hibernate_after)
    with served(QUINTAIN_HIBERNATE_AFTER=str(options.hibernate_after)) as target:
        figures = uvloop.run(measure(target, options.sessions, options.calls, options.hibernate_after))
    report(figures, described, {}, options.json)


if __name__ == "__main__":
    main()
