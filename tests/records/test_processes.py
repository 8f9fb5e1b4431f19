"""Several processes on one ledger, some killed at a boundary: one row, and none that was told of is lost."""

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest

from quintain.records import Ledger, ScoreKey
from records.children import Start
from records.making import certain, key


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "ledger.db"


def rows(place: Path, query: str) -> list[Any]:
    with closing(sqlite3.connect(place, timeout=30)) as connection:
        return connection.execute(query).fetchall()


@contextmanager
def locked(place: Path) -> Iterator[None]:
    """Nobody else can write."""
    with closing(sqlite3.connect(place, isolation_level=None, timeout=30)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        yield
        connection.execute("ROLLBACK")


async def redelivered(place: Path, of: ScoreKey | None = None) -> bool:
    """Submit again what may have been lost; whether it was first. Afterwards there is exactly one score."""
    of = of or key()
    async with await Ledger.open(place) as ledger:
        first = (await ledger.submit(certain(of, run="again"))).first
        assert not (await ledger.submit(certain(of, run="once more"))).first
        held = await ledger.score(of)
        assert held is not None
        assert held.run == ("again" if first else held.run)
    assert rows(place, "SELECT count(*), count(DISTINCT submission_id) FROM score") == [(1, 1)]
    assert rows(place, "SELECT count(*) FROM episode_score") == [(1,)]
    assert rows(place, "PRAGMA integrity_check") == [("ok",)]
    return first


def test_duplicates_from_four_processes_are_one_score(start: Start, place: Path) -> None:
    children = [start("duplicates", place, run, 250) for run in range(4)]
    for child in children:
        child.goes()
    told = [told for child in children for task in child.hears() for told in task]
    assert len(told) == 1000
    assert [first for first, _ in told].count(True) == 1
    assert len({winner for _, winner in told}) == 1
    assert rows(place, "SELECT count(*) FROM submission") == [(1000,)]
    winner = rows(place, "SELECT run, submission.id FROM score JOIN submission ON submission.id = submission_id")
    assert winner == [(told[0][1], 1)]


def test_no_two_processes_get_the_same_number(start: Start, place: Path) -> None:
    for round_ in range(2):  # the second round is after a restart of them all
        children = [start("attempts", place, 100) for _ in range(3)]
        for child in children:
            child.goes()
        numbers = [number for child in children for number in child.hears()]
        assert sorted(numbers) == list(range(300 * round_, 300 * (round_ + 1)))
        assert [child.ended(0) for child in children] == [[], [], []]


def test_many_open_a_new_ledger_at_once(start: Start, place: Path) -> None:
    children = [start("open", place) for _ in range(5)]
    for child in children:
        child.goes()
    assert [child.hears() for child in children] == ["open"] * 5
    assert [child.ended(0) for child in children] == [[]] * 5
    assert len(rows(place, "SELECT version_num FROM alembic_version")) == 1


async def test_killed_before_the_verdict_is_submitted(start: Start, place: Path) -> None:
    child = start("verified", place)
    child.killed()
    assert await redelivered(place)


async def test_killed_while_the_verdict_waits_to_be_written(start: Start, place: Path) -> None:
    child = start("submitted", place)
    with locked(place):
        child.goes()
        assert child.hears() == "submitted"
        child.killed()
    assert rows(place, "SELECT * FROM submission") == []
    assert await redelivered(place)


async def test_killed_when_all_is_written_but_not_committed(start: Start, place: Path) -> None:
    child = start("crash", place)
    child.goes()
    assert child.ended(-9) == [], "it was told of what was not committed"
    assert rows(place, "SELECT * FROM submission") == []
    assert await redelivered(place)


async def test_killed_after_the_commit_and_before_the_reply(start: Start, place: Path) -> None:
    child = start("submitted", place)
    child.goes()
    assert child.hears() == "submitted"
    deadline = time.monotonic() + 60
    while not rows(place, "SELECT * FROM score"):
        assert time.monotonic() < deadline
        time.sleep(0.01)  # noqa: ASYNC251
    child.killed()
    assert not await redelivered(place)
    assert rows(place, "SELECT run FROM submission ORDER BY id") == [("killed",), ("again",), ("once more",)]


async def test_killed_at_any_statement_of_a_migration(start: Start, tmp_path: Path) -> None:
    survived, died = False, 0
    while not survived:
        died += 1
        place = tmp_path / f"{died}.db"
        child = start("die_migrating", place, died)
        child.goes()
        survived = child.process.wait() == 0
        assert await redelivered(place)
    assert died > 8, "each of the tables is made by a statement of its own"


async def test_killed_at_random_again_and_again(start: Start, place: Path) -> None:
    random, acknowledged, sent = Random(7), set[int](), 0
    for _ in range(6):
        child = start("stream", place, sent)
        child.goes()
        told = [child.hears()]
        time.sleep(random.uniform(0, 0.3))  # noqa: ASYNC251
        told += child.killed()
        assert all(first for _, first in told)
        acknowledged.update(number for number, _ in told)
        sent = max(number for number, _ in told) + 9  # eight more may have been on their way
    async with await Ledger.open(place) as ledger:
        for number in range(sent):
            told_again = await ledger.submit(certain(key(number)))
            assert not (told_again.first and number in acknowledged), "an acknowledged score was lost"
        assert {entry.key.attempt async for entry in ledger.scores()} == set(range(sent))
    assert rows(place, "SELECT count(*), count(DISTINCT attempt) FROM score") == [(sent, sent)]
    assert rows(place, "PRAGMA integrity_check") == [("ok",)]
