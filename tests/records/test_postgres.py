"""The ledger on PostgreSQL, where QUINTAIN_TEST_POSTGRES_URL names a server that lets us make databases."""

import os
import uuid
from collections.abc import Iterator
from random import Random
from time import sleep

import pytest
import sqlalchemy as sa

from quintain.errors import LedgerUnavailable, LedgerUnreadable
from quintain.records import Ledger
from records.children import Start
from records.making import certain, digest, key, uncertain

URL = os.environ.get("QUINTAIN_TEST_POSTGRES_URL", "")
pytestmark = pytest.mark.skipif(not URL, reason="QUINTAIN_TEST_POSTGRES_URL names no server")


@pytest.fixture
def server() -> Iterator[sa.Engine]:
    engine = sa.create_engine(URL, isolation_level="AUTOCOMMIT")
    yield engine
    engine.dispose()


@pytest.fixture
def place(server: sa.Engine) -> Iterator[str]:
    """The URL of a new database."""
    name = f"ledger_{uuid.uuid4().hex}"
    with server.connect() as connection:
        connection.exec_driver_sql(f"CREATE DATABASE {name}")
    yield sa.make_url(URL).set(database=name).render_as_string(hide_password=False)
    with server.connect() as connection:
        connection.exec_driver_sql(f"DROP DATABASE {name} WITH (FORCE)")


async def test_first_certain_uncertain_attempts_and_restart(place: str) -> None:
    async with await Ledger.open(place) as ledger:
        assert (await ledger.submit(uncertain(reason="é\u2026"))).entry is None
        assert (await ledger.submit(certain(value={"a": ["\0", 1.5, None]}, reward=1e-300))).first
        assert (await ledger.submit(certain(key(verifier=2), "incomplete"))).episode_score == await ledger.score(key())
        assert [await ledger.next_attempt(digest(1), "model") for _ in range(2)] == [1, 2]
        await ledger.claim_attempt(digest(1), "model", 9)
    async with await Ledger.open(place) as ledger:
        assert await ledger.score(key()) == certain(value={"a": ["\0", 1.5, None]}, reward=1e-300)
        assert await ledger.submissions(key()) == (uncertain(reason="é\u2026"), await ledger.score(key()))
        assert await ledger.next_attempt(digest(1), "model") == 10
        assert [entry.word async for entry in ledger.scores()] == ["complete", "incomplete"]


async def test_duplicates_from_four_processes_are_one_score(start: Start, place: str) -> None:
    children = [start("duplicates", place, run, 250) for run in range(4)]
    for child in children:
        child.goes()
    told = [told for child in children for task in child.hears() for told in task]
    assert [first for first, _ in told].count(True) == 1
    assert len({winner for _, winner in told}) == 1
    async with await Ledger.open(place) as ledger:
        log = await ledger.submissions(key())
        assert len(log) == 1000
        assert [entry async for entry in ledger.scores()] == [log[0]]


def test_no_two_processes_get_the_same_number(start: Start, place: str) -> None:
    children = [start("attempts", place, 100) for _ in range(4)]
    for child in children:
        child.goes()
    assert sorted(number for child in children for number in child.hears()) == list(range(400))


def test_many_open_a_new_ledger_at_once(start: Start, place: str) -> None:
    children = [start("open", place) for _ in range(5)]
    for child in children:
        child.goes()
    assert [child.hears() for child in children] == ["open"] * 5


async def test_killed_at_random_again_and_again(start: Start, place: str) -> None:
    random, acknowledged, sent = Random(7), set[int](), 0
    for _ in range(3):
        children = [start("stream", place, sent), start("stream", place, sent)]  # each is the other's redelivery
        for child in children:
            child.goes()
        told = [child.hears() for child in children]
        sleep(random.uniform(0, 0.3))  # noqa: ASYNC251
        told += [one for child in children for one in child.killed()]
        acknowledged.update(number for number, _ in told)
        sent = max(number for number, _ in told) + 9
    async with await Ledger.open(place) as ledger:
        for number in range(sent):
            told_again = await ledger.submit(certain(key(number)))
            assert not (told_again.first and number in acknowledged), "an acknowledged score was lost"
        assert sorted([entry.key.attempt async for entry in ledger.scores()]) == list(range(sent))


async def test_a_database_that_holds_something_else_is_left_alone(server: sa.Engine, place: str) -> None:
    other = sa.create_engine(place)
    with other.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE customers (name text)")
    with pytest.raises(LedgerUnreadable, match="holds something else"):
        await Ledger.open(place)
    other.dispose()


async def test_a_server_that_drops_its_connections(server: sa.Engine, place: str) -> None:
    async with await Ledger.open(place) as ledger:
        await ledger.submit(certain())
        name = sa.make_url(place).database
        with server.connect() as connection:
            connection.exec_driver_sql(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
            connection.exec_driver_sql(
                f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'"
            )
        with pytest.raises(LedgerUnavailable, match="cannot be used"):
            await ledger.submit(certain(key(1)))
        with server.connect() as connection:
            connection.exec_driver_sql(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")
        assert (await ledger.submit(certain(key(1)))).first
