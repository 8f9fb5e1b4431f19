"""Pressure stops the admission of attempts, and nothing that runs: a small spool, short memory, a gated verifier."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gated import GatedProvider
from quintain.episodes.admission import Admission
from quintain.records.recorder import MemoryRecorder, Recorder
from quintain.records.redaction import Redactor
from quintain.records.spool import Spool
from quintain.records.spool_reader import SpoolReader
from quintain.rollout import RunEvent
from rollout.cast import BUY, Cast, Played, Script, plan, until
from toy import ToyWorld

pytestmark = pytest.mark.asyncio


async def test_a_full_spool_stops_admission_and_ingest_opens_it_again(
    open_world: Callable[..., Any], tmp_path: Path
) -> None:
    async with open_world() as world:
        spool = Spool.open(tmp_path / "spool", max_bytes=30_000, segment_bytes=1)  # a few records
        played = Played(world, plan(attempts=30, concurrency=2), sink=Recorder(spool, Redactor(), "test"))
        running = asyncio.create_task(played.rollout.run())
        await until(lambda: played.told(RunEvent.PRESSURE))
        await until(lambda: len(played.told(RunEvent.STARTED)) == len(played.told(RunEvent.FINISHED)))
        stalled = len(played.told(RunEvent.STARTED))
        await asyncio.sleep(0.3)
        assert len(played.told(RunEvent.STARTED)) == stalled < 30
        assert played.told(RunEvent.PRESSURE)[-1] == {"pressure": "spool_full"}
        reader, taken = SpoolReader.open(tmp_path / "spool"), 0
        while not running.done():
            deliveries = reader.read()
            taken += len(deliveries)
            reader.acknowledge(one.position for one in deliveries)
            await asyncio.sleep(0.01)
        assert len(await running) == 30
        assert played.told(RunEvent.PRESSURE)[-1] == {"pressure": None}
        spool.close()
        assert taken + len(reader.read()) == 30
        reader.close()


async def test_short_memory_stops_admission_and_running_attempts_go_on(open_world: Callable[..., Any]) -> None:
    left = [2**30]
    admission = Admission(4, available=lambda: left[0], floor_bytes=2**20)
    async with open_world(admission=admission) as world:
        go = asyncio.Event()

        async def wait() -> Any:
            left[0] = 0
            await go.wait()
            return BUY

        played = Played(world, plan(attempts=5, concurrency=4), Cast(lambda item: Script((wait,) * (item.attempt < 1))))
        running = asyncio.create_task(played.rollout.run())
        await until(lambda: played.told(RunEvent.PRESSURE))
        before = len(played.told(RunEvent.STARTED))
        assert before < 5
        go.set()
        await until(lambda: any(one["outcome"]["attempt"] == 0 for one in played.told(RunEvent.FINISHED)))
        assert len(played.told(RunEvent.STARTED)) == before
        assert played.told(RunEvent.PRESSURE)[-1] == {"pressure": "memory_short"}
        left[0] = 2**30
        assert len(await running) == 5


async def test_verdicts_that_lag_behind_stop_admission_and_running_attempts_go_on(tmp_path: Path) -> None:
    provider = GatedProvider(tmp_path / "instances")
    world = ToyWorld(tmp_path, provider)
    provider.gate.clear()  # no verification gets its snapshot
    calls = 0

    async def slowly() -> Any:
        nonlocal calls
        await asyncio.sleep(0.05)
        calls += 1
        return BUY

    async def fail() -> Any:  # an attempt that needs no verdict, and gives its place back
        await until(lambda: provider.at_once == 2)
        raise RuntimeError("a bug")

    # the first two wait for their verdicts, the third is long, and the fourth makes room for one more
    agents = [Script(), Script(), Script([slowly] * 20), Script([fail])]
    made = plan(attempts=10, concurrency=4, max_unverified=2)
    played = Played(world, made, Cast(lambda item: agents[item.attempt] if item.attempt < 4 else Script()))
    running = asyncio.create_task(played.rollout.run())
    await until(lambda: played.told(RunEvent.PRESSURE))
    started, called = len(played.told(RunEvent.STARTED)), calls
    await until(lambda: calls > called + 3)  # the long one goes on
    assert len(played.told(RunEvent.STARTED)) == started <= 4
    assert played.told(RunEvent.PRESSURE)[-1] == {"pressure": "verifier_backlog"}
    provider.gate.set()
    assert len(await running) == 10
    await provider.close()


async def test_nothing_is_told_where_there_is_no_pressure(open_world: Callable[..., Any]) -> None:
    async with open_world() as world:
        played = Played(world, plan(attempts=3), sink=MemoryRecorder())
        await played.rollout.run()
        assert played.told(RunEvent.PRESSURE) == []
