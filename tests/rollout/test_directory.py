"""A run's directory: one process at a time, one plan, and what was done is known from what is on disk."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from quintain.errors import UsageError
from quintain.records.recorder import Recorder
from quintain.records.redaction import Redactor
from quintain.records.spool import Spool
from quintain.records.spool_reader import SpoolReader
from quintain.rollout import EventLog, Outcome, RolloutPlan, RunDirectory, RunEvent
from quintain.rollout.events import read_events
from rollout.cast import Played, plan


async def played(world: Any, directory: RunDirectory, made: RolloutPlan) -> list[Outcome]:
    """Play a plan into a directory, and say so in its events."""
    spool = Spool.open(directory.spool, retained=True)
    try:
        with EventLog(directory.events) as log:
            one = Played(world, made, sink=Recorder(spool, Redactor(), "test"))
            object.__setattr__(one.rollout, "tell", log.tell)
            return await one.rollout.run()
    finally:
        spool.close()


@pytest.mark.asyncio
async def test_what_was_done_is_known_from_records_from_events_or_from_both(
    open_world: Callable[..., Any], tmp_path: Path
) -> None:
    async with open_world() as world:
        made = plan(attempts=4)
        with RunDirectory.open(tmp_path / "run", made) as directory:
            outcomes = {one.item: one for one in await played(world, directory, made)}
            assert directory.found().outcomes == outcomes
            assert directory.found().unlogged == []
            lines = directory.events.read_bytes().splitlines(keepends=True)

            directory.events.write_bytes(b"")  # killed before any event was written
            found = directory.found()
            assert found.outcomes == outcomes
            assert sorted(one.item for one in found.unlogged) == sorted(outcomes)

            directory.events.write_bytes(b"".join(lines))  # and with the records taken away by ingest
            directory.settle()
            reader = SpoolReader.open(directory.spool)
            reader.acknowledge(one.position for one in reader.read())
            reader.tidy()
            reader.close()
            assert list(directory.spool.glob("*/*.seg")) == []
            assert directory.found().outcomes == outcomes


@pytest.mark.asyncio
async def test_a_torn_tail_is_mended_and_its_attempt_is_open(open_world: Callable[..., Any], tmp_path: Path) -> None:
    async with open_world() as world:
        made = plan(attempts=3, concurrency=1)
        with RunDirectory.open(tmp_path / "run", made) as directory:
            await played(world, directory, made)
            directory.events.unlink()
            (segment,) = directory.spool.glob("*/*.seg")
            segment.write_bytes(segment.read_bytes()[:-7])
            found = directory.found()
            assert sorted(found.outcomes) == [item.name for item in made.items()][:2]
            assert "not wholly written" in found.repaired[0]
            assert directory.found().repaired == []


def test_records_of_another_plan_do_not_count(tmp_path: Path) -> None:
    with RunDirectory.open(tmp_path / "run", plan()) as directory:
        spool = Spool.open(directory.spool)
        spool.append(b"no record").result(10)
        spool.close()
        assert directory.found().outcomes == {}
        assert "passed over" in directory.found().repaired[0]


def test_one_process_and_one_plan(tmp_path: Path) -> None:
    root = tmp_path / "run"
    with pytest.raises(UsageError, match="no run at"), RunDirectory.open(root):
        pass
    another = pytest.raises(UsageError, match="another process")
    with RunDirectory.open(root, plan()), another, RunDirectory.open(root, plan()):
        pass
    with pytest.raises(UsageError, match="another plan"), RunDirectory.open(root, plan(attempts=9)):
        pass
    with RunDirectory.open(root) as directory:
        assert directory.plan == plan()
    with RunDirectory.open(root, plan(concurrency=3)) as directory:
        assert directory.plan.concurrency == 3


def test_the_last_line_of_events_may_be_torn(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    with EventLog(path, now=lambda: 1.0) as log:
        log.tell(RunEvent.STARTED, item="a")
        log.tell(RunEvent.STARTED, item="b")
    whole = path.read_bytes()
    for cut in range(len(whole) // 2 + 1, len(whole) + 1):
        path.write_bytes(whole[:cut])
        with EventLog(path, now=lambda: 1.0) as log:
            assert (log.repaired == []) == (cut == len(whole))
            log.tell(RunEvent.STARTED, item="c")
        assert [one["item"] for one in read_events(path)] == ["a", *(["b"] if cut == len(whole) else []), "c"]
    path.write_bytes(b"x" * 200_000)
    with EventLog(path) as log:
        assert "200000 bytes" in log.repaired[0]
    assert path.read_bytes() == b""


@pytest.mark.asyncio
async def test_what_was_ingested_before_it_was_noted_is_known_while_the_ingest_process_lives(
    open_world: Callable[..., Any], tmp_path: Path
) -> None:
    async with open_world() as world:
        made = plan(attempts=3)
        with RunDirectory.open(tmp_path / "run", made) as directory:
            reader = SpoolReader.open(directory.spool)
            outcomes = {one.item: one for one in await played(world, directory, made)}
            directory.events.unlink()  # as if the worker had been killed before it could write any
            reader.acknowledge(one.position for one in reader.read())
            reader.tidy()
            assert directory.found().outcomes == outcomes
            directory.settle()
            reader.tidy()
            reader.close()
            assert list(directory.spool.glob("*/*.seg")) == []


def test_an_ingest_process_may_have_begun_before_the_run(tmp_path: Path) -> None:
    (tmp_path / "spool").mkdir()
    for name in ("ledger.db", "ledger.db-wal", "ledger.db-shm"):
        (tmp_path / name).touch()
    with RunDirectory.open(tmp_path, plan()) as directory:
        assert directory.plan == plan()


def test_a_folder_with_something_else_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").touch()
    with pytest.raises(UsageError, match="and no run"), RunDirectory.open(tmp_path, plan()):
        pass
    assert [one.name for one in tmp_path.iterdir()] == ["notes.txt"]
    (tmp_path / "empty").mkdir()
    with RunDirectory.open(tmp_path / "empty", plan()):
        pass
    (tmp_path / "empty" / "notes.txt").touch()  # beside a run it may be
    with RunDirectory.open(tmp_path / "empty") as again:
        assert again.plan == plan()
