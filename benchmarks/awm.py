"""Measure AWM episodes through a real server: `make bench-awm`, or as JSON too: `make bench-awm JSON=path`.

With `URL=` it drives any other OpenEnv AWM server that has the scenario, so that two can be measured in one sitting.
One server process and one client process on this machine, over loopback; the client takes part of the processors
too. Beside each figure stands what the public AWM server measured on a quiet two-core machine with the same
scenario. Medians of one run; nothing here is asserted.
"""

import argparse
import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import uvloop
from measuring import (
    BASELINE,
    SCENARIO,
    Figures,
    Served,
    calls,
    conditions,
    cpu_seconds,
    episode_processes,
    percentile,
    private_mib,
    report,
    served,
    timed,
)

from quintain.clients.wire import WireSession

Action = Callable[[WireSession], Awaitable[Any]]


async def one_episode(session: WireSession) -> None:
    """Reset, four reads, a write, verification, done."""
    await session.reset(scenario=SCENARIO, task_idx=0)
    for number in range(5):
        await session.call(*calls(number))
    await session.call("verify", {"verifier_mode": "code"})
    await session.call("done")


async def first_sight(url: str) -> Figures:
    """The first reset of scenarios that the server has not loaded: what a scenario costs once."""
    await asyncio.sleep(4)  # a zygote imports its libraries behind a server that is ready
    async with WireSession(url) as session:
        listed = (await session.call("__list_scenarios__"))["observation"]["scenarios"]
        others = [one["name"] for one in listed if one["name"] != SCENARIO][:4]
        taken = [await timed(session.reset(scenario=name)) for name in others]
        taken.append(await timed(session.reset(scenario=SCENARIO)))
    return {"first sight of a scenario, worst of the pack (ms)": max(taken)}


async def latencies(url: str, rounds: int) -> tuple[Figures, dict[str, float]]:
    """Latencies with one client, and where the milliseconds of a reset go as the server tells it."""
    kinds: dict[str, list[float]] = {}
    segments: dict[str, list[float]] = {}
    point = ("get_product", {"product_id": 3})
    async with WireSession(url) as session:
        for _ in range(12):  # makes the scenario hot, and then warm
            await one_episode(session)
        await asyncio.sleep(3)
        for number in range(rounds):
            began = time.perf_counter()
            answer = await session.reset(scenario=SCENARIO, task_idx=0, seed=number)
            ready = time.perf_counter()
            for name, value in answer["observation"].get("metadata", {}).get("segments_ms", {}).items():
                segments.setdefault(name, []).append(value)
            first = await timed(session.call("list_products", {"page": 1, "page_size": 10}))
            taken = {
                "reset": (ready - began) * 1e3,
                "first call": first,
                "reset to first call done": (time.perf_counter() - began) * 1e3,
            }
            for name, call in (("list_products", calls(0)), ("get_product", point), ("write", calls(4))):
                await session.call(*call)
                taken[name] = await timed(session.call(*call))
            taken["code verification"] = await timed(session.call("verify", {"verifier_mode": "code"}))
            taken["done"] = await timed(session.call("done"))
            for name, value in taken.items():
                kinds.setdefault(name, []).append(value)
    figures: Figures = {}
    for name, values in kinds.items():
        figures[f"{name} p50 (ms)"] = percentile(values, 0.5)
        figures[f"{name} p99 (ms)"] = percentile(values, 0.99)
    return figures, {name: percentile(values, 0.5) for name, values in segments.items()}


async def memory(url: str, sessions: int) -> Figures:
    """Private memory of an episode's process after none, 3 and 20 calls."""
    figures: Figures = {}
    async with AsyncExitStack() as stack:
        before = set(episode_processes())
        opened = [await stack.enter_async_context(WireSession(url)) for _ in range(sessions)]
        for session in opened:
            await session.reset(scenario=SCENARIO, task_idx=0)
        done = 0
        for until in (0, 3, 20):
            for session in opened:
                for number in range(done, until):
                    await session.call(*calls(number))
            done = until
            mine = [private_mib(pid) for pid in episode_processes() if pid not in before]
            if mine:
                figures[f"private memory after {until} calls (MiB)"] = percentile(mine, 0.5)
    return figures


async def throughput(target: Served, sessions: int, seconds: float) -> Figures:
    """Calls per second over that many sessions, one in flight each, and the processor time of each party."""
    count = 0
    stop = 0.0

    async def drive(session: WireSession) -> None:
        nonlocal count
        number = 0
        while time.perf_counter() < stop:
            await session.call(*calls(number))
            number += 1
            count += 1

    async with AsyncExitStack() as stack:
        before = set(episode_processes())
        opened = [await stack.enter_async_context(WireSession(target.url)) for _ in range(sessions)]
        for session in opened:
            await session.reset(scenario=SCENARIO, task_idx=0)
        episodes = [pid for pid in episode_processes() if pid not in before]
        used = [cpu_seconds(os.getpid()), target.cpu_seconds(), sum(map(cpu_seconds, episodes))]
        began = time.perf_counter()
        stop = began + seconds
        await asyncio.gather(*map(drive, opened))
        took = time.perf_counter() - began
        used = [
            now - then
            for now, then in zip(
                [cpu_seconds(os.getpid()), target.cpu_seconds(), sum(map(cpu_seconds, episodes))], used, strict=True
            )
        ]
    name = f"{sessions} session{'s' if sessions > 1 else ''}"
    figures = {f"calls/s, {name}": count / took}
    for party, seconds_used in zip(("client", "server", "episodes"), used, strict=True):
        figures[f"CPU per call of the {party}, {name} (ms)"] = seconds_used / count * 1e3
    return figures


async def rate(url: str, clients: int, seconds: float, action: Action) -> float:
    """How often per second an action is done by that many clients at once."""
    count = 0
    stop = time.perf_counter() + seconds

    async def drive() -> None:
        nonlocal count
        async with WireSession(url) as session:
            while time.perf_counter() < stop:
                await action(session)
                count += 1

    began = time.perf_counter()
    await asyncio.gather(*(drive() for _ in range(clients)))
    return count / (time.perf_counter() - began)


async def measure(target: Served, rounds: int, seconds: float) -> tuple[Figures, dict[str, float]]:
    """Everything, in one run."""
    figures: Figures = {"server memory, idle (MiB)": private_mib(target.pid)} if target.pid else {}
    figures |= await first_sight(target.url)
    found, segments = await latencies(target.url, rounds)
    figures |= found
    figures |= await memory(target.url, 8)
    for sessions in (1, 16, 64):
        figures |= await throughput(target, sessions, seconds)
    reset = lambda session: session.reset(scenario=SCENARIO, task_idx=0)  # noqa: E731
    figures["resets/s, 8 clients"] = await rate(target.url, 8, seconds, reset)
    figures["episodes/s, 8 clients"] = await rate(target.url, 8, seconds, one_episode)
    return figures, segments


def main() -> None:
    """Run, print a table, write JSON if asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="write the figures there")
    parser.add_argument("--url", help="measure this server instead of one started here")
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--seconds", type=float, default=5.0, help="length of each throughput measurement")
    options = parser.parse_args()
    described = conditions(scenario=SCENARIO, rounds=options.rounds, seconds=options.seconds, url=options.url or "own")
    with served(options.url) as target:
        figures, segments = uvloop.run(measure(target, options.rounds, options.seconds))
        if target.pid:
            figures["server CPU to be ready (s)"] = target.started_cpu_s
            figures["server start to ready (s)"] = target.started_s
    report(figures, described, BASELINE, options.json, {"a warm reset inside the server, median ms": segments})


if __name__ == "__main__":
    main()
