"""Opening a ledger, and what is said when its database is damaged, foreign, newer, full, read-only, locked or gone."""

import asyncio
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy.dialects import mysql, postgresql
from sqlalchemy.schema import CreateIndex, CreateTable

from ordinary_user import run_as_user
from quintain.errors import LedgerError, LedgerUnavailable, LedgerUnreadable, Owner, UsageError
from quintain.records import Ledger, schema
from quintain.records.database import Database
from records.making import certain, key
from served import ROOT


async def filled(place: Path, count: int = 200) -> Path:
    async with await Ledger.open(place) as ledger:
        await asyncio.gather(*(ledger.submit(certain(key(number))) for number in range(count)))
    return place


async def refused(place: Path | str, error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match) as caught:
        await Ledger.open(place, lock_timeout_s=0.2)
    assert "\n" not in str(caught.value)
    if isinstance(caught.value, LedgerError):
        assert caught.value.owner is Owner.INFRASTRUCTURE
        assert str(place) in str(caught.value)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if not path.name.endswith("-shm")}


@pytest.mark.parametrize("name", ["ledger.db", "a b?mode=memory#%41;.db", "new/folder/é.db"])
async def test_a_ledger_is_made_where_it_is_asked_for_and_only_its_owner_reads_it(tmp_path: Path, name: str) -> None:
    async with await Ledger.open(tmp_path / name) as ledger:
        await ledger.submit(certain())
        assert (tmp_path / name).stat().st_mode & 0o777 == 0o600
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [tmp_path / name]
    async with await Ledger.open(f"{tmp_path}/{name}") as ledger:
        assert await ledger.score(key()) == certain()


async def test_a_url_names_the_same_file(tmp_path: Path) -> None:
    await filled(tmp_path / "ledger.db", 1)
    async with await Ledger.open(f"sqlite:///{tmp_path}/ledger.db") as ledger:
        assert await ledger.score(key()) == certain()


async def test_a_relative_name_is_where_the_process_was_when_it_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    async with await Ledger.open("ledger.db") as ledger:
        monkeypatch.chdir("elsewhere")
        await asyncio.gather(*(ledger.submit(certain(key(number))) for number in range(3)), ledger.score(key()))
    assert (tmp_path / "ledger.db").is_file()


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///:memory:", "nonsense://x", "://", "postgresql+nodriver://h/d"])
async def test_what_cannot_hold_a_ledger_is_the_users_mistake(url: str) -> None:
    await refused(url, UsageError, "ledger")


async def test_a_password_in_a_url_is_not_told() -> None:
    with pytest.raises(Exception, match="ledger") as caught:
        await Ledger.open("nonsense://me:secret@host/name")
    assert "secret" not in str(caught.value)


async def test_commits_reach_the_disk(tmp_path: Path) -> None:
    database = Database.open(tmp_path / "ledger.db", 1.0)
    for connected in (database.read, database.write):
        with connected() as connection:
            told = [
                connection.exec_driver_sql(f"PRAGMA {name}").scalar()
                for name in ("journal_mode", "synchronous", "foreign_keys")
            ]
        assert told == ["wal", 2, 1]
    database.close()


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "not a database": lambda data: b"To whom it may concern: " + data,
    "text": lambda data: b"hello\n" * 2000,
    "half of it": lambda data: data[: len(data) // 2],
    "torn in a page": lambda data: data[: len(data) - 1000],
    "zeros in the middle": lambda data: data[:8192] + bytes(16384) + data[24576:],
    "a page of something else": lambda data: data[:20480] + b"\xff" * 4096 + data[24576:],
    "a header alone": lambda data: data[:100],
}


@pytest.mark.parametrize("how", DAMAGE)
async def test_a_damaged_file_is_refused_and_left_as_it_is(tmp_path: Path, how: str) -> None:
    place = await filled(tmp_path / "ledger.db")
    place.write_bytes(DAMAGE[how](place.read_bytes()))
    before = place.read_bytes()
    for _ in range(2):
        await refused(place, LedgerUnreadable, "is damaged .* restore it from a backup")
    assert place.read_bytes() == before


async def test_damage_that_comes_later_is_told_too(tmp_path: Path) -> None:
    place = await filled(tmp_path / "ledger.db", 3000)
    async with await Ledger.open(place) as ledger:
        with place.open("r+b") as file:
            file.seek(8192)
            file.write(b"\xff" * (place.stat().st_size - 8192))
        with pytest.raises(LedgerUnreadable, match="is damaged"):
            await ledger.submit(certain(key(5000)))
        with pytest.raises(LedgerUnreadable, match="is damaged"):
            await ledger.submissions(key(10))


@pytest.mark.parametrize("tail", [b"\0" * 100, b"\xff" * 5000, None], ids=["zeros", "garbage", "cut"])
async def test_a_torn_tail_of_the_log_loses_nothing_that_was_committed(tmp_path: Path, tail: bytes | None) -> None:
    """The log of a process that was killed, with what was being written to it when the machine went down."""
    place = tmp_path / "ledger.db"
    async with await Ledger.open(place) as ledger:
        for number in range(5):
            await ledger.submit(certain(key(number)))
        log = place.with_name("ledger.db-wal")
        whole = log.stat().st_size
        await ledger.submit(certain(key(5)))  # this one is cut off where the tail is
        copy = tmp_path / "copy"
        copy.mkdir()
        shutil.copy(place, copy / "ledger.db")
        data = log.read_bytes()
    torn = data[: whole + 1000] if tail is None else data[:whole] + tail
    (copy / "ledger.db-wal").write_bytes(torn)
    async with await Ledger.open(copy / "ledger.db") as ledger:
        assert [entry.key.attempt async for entry in ledger.scores()] == [0, 1, 2, 3, 4]
        assert (await ledger.submit(certain(key(5)))).first


async def test_an_empty_file_becomes_a_ledger(tmp_path: Path) -> None:
    """It is what is left of a process that was killed when it had just made it."""
    (tmp_path / "ledger.db").touch()
    await filled(tmp_path / "ledger.db", 1)


async def test_another_programs_database_is_left_alone(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "other.db")) as connection:
        connection.execute("CREATE TABLE customers (name)")
    await refused(tmp_path / "other.db", LedgerUnreadable, r"holds something else \(tables customers\)")
    with closing(sqlite3.connect(tmp_path / "other.db")) as connection:
        assert connection.execute("SELECT name FROM sqlite_master").fetchall() == [("customers",)]


async def test_a_newer_ledger_asks_for_a_newer_version(tmp_path: Path) -> None:
    place = await filled(tmp_path / "ledger.db", 1)
    with closing(sqlite3.connect(place)) as connection, connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    before = contents(tmp_path)
    await refused(place, LedgerUnreadable, "by a newer version of quintain .*9999.* upgrade quintain")
    assert contents(tmp_path) == before


async def test_a_directory_is_no_ledger(tmp_path: Path) -> None:
    await refused(tmp_path, LedgerUnavailable, "cannot be opened")
    (tmp_path / "file").touch()
    await refused(tmp_path / "file" / "ledger.db", LedgerUnavailable, "cannot be used")


OPEN = """
import asyncio, sys
from quintain.errors import LedgerUnavailable
from quintain.records import Ledger
try:
    asyncio.run(Ledger.open(sys.argv[1]))
except LedgerUnavailable as error:
    print(error)
"""


def opened_by_a_user(place: Path, home: Path) -> str:
    """What an ordinary user hears who opens it."""
    command, environment = [sys.executable, "-c", OPEN, str(place)], {"PYTHONPATH": str(ROOT / "src")}
    if os.geteuid() == 0:  # root may write everywhere
        pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
        needed = [Path(sys.base_prefix), Path(sys.prefix), ROOT, place.parent, *([pyenv] if pyenv.is_dir() else [])]
        return run_as_user(command, needed, home, environment, 60).stdout
    return subprocess.run(command, env=os.environ | environment, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("there", [False, True], ids=["new", "existing"])
async def test_a_directory_that_cannot_be_written(tmp_path: Path, there: bool) -> None:
    place = tmp_path / "folder" / "ledger.db"
    place.parent.mkdir()
    if there:
        await filled(place, 1)
        place.chmod(0o444)
    place.parent.chmod(0o555)
    told = opened_by_a_user(place, tmp_path / "home")
    assert told.startswith(f"the ledger {place} cannot be used: ")
    assert ("it is read-only; make the file and its directory writable" if there else "Permission denied") in told


@contextmanager
def on_every_connection(do: Callable[[Any], None]) -> Iterator[list[Any]]:
    """Have something done to each connection that is made; they are in the list."""
    made: list[Any] = []

    def connected(connection: Any, _: Any) -> None:
        made.append(connection)
        do(connection)

    sa.event.listen(sa.Engine, "connect", connected)
    try:
        yield made
    finally:
        sa.event.remove(sa.Engine, "connect", connected)


async def test_a_full_disk_loses_and_doubles_nothing(tmp_path: Path) -> None:
    place = await filled(tmp_path / "ledger.db", 5)

    def full(connection: Any) -> None:
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count = {pages + 2}")

    with on_every_connection(full) as connections:
        async with await Ledger.open(place) as ledger:
            waiting = (ledger.submit(certain(key(number))) for number in range(300))
            told = await asyncio.gather(*waiting, return_exceptions=True)
            failed = [number for number, one in enumerate(told) if isinstance(one, BaseException)]
            assert failed
            assert all("its disk is full; make room" in str(told[number]) for number in failed)
            assert all(type(told[number]) is LedgerUnavailable for number in failed)
            kept = [entry.key.attempt async for entry in ledger.scores()]
            assert set(kept) == set(range(300)) - set(failed) | set(range(5))
            connections[0].execute("PRAGMA max_page_count = 1000000")  # there is room again
            again = await asyncio.gather(*(ledger.submit(certain(key(number))) for number in range(300)))
            assert [number for number, one in enumerate(again) if one.first] == sorted(set(range(300)) - set(kept))
            assert len([1 async for _ in ledger.scores()]) == 300


async def test_a_lock_held_for_too_long_is_told_and_waited_for_no_longer(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    place = await filled(tmp_path / "ledger.db", 1)
    async with await Ledger.open(place, lock_timeout_s=0.2) as ledger:
        with closing(sqlite3.connect(place, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            waiting = [ledger.submit(certain(key(number))) for number in range(1, 40)]
            told = await asyncio.gather(*waiting, return_exceptions=True)
            assert {type(one) for one in told} == {LedgerUnavailable}
            assert "another process holds its lock" in str(told[0])
            assert [record.message for record in caplog.records] == [f"not committed: {told[0]}"]
            assert await ledger.score(key()) == certain(), "reading needs no lock"
            await refused(place, LedgerUnavailable, "another process holds its lock")
            other.execute("ROLLBACK")
        assert (await ledger.submit(certain(key(1)))).first


@pytest.mark.parametrize("fate", ["removed", "moved", "replaced", "its folder removed"])
async def test_a_ledger_that_has_gone_acknowledges_nothing(tmp_path: Path, fate: str) -> None:
    other = await filled(tmp_path / "other.db", 1)
    place = tmp_path / "folder" / "ledger.db"
    async with await Ledger.open(place) as ledger:
        await ledger.submit(certain(key(0)))
        match fate:
            case "removed":
                place.unlink()
            case "moved":
                place.rename(tmp_path / "moved.db")
            case "replaced":
                other.rename(place)
            case _:
                shutil.rmtree(place.parent)
        for _ in range(2):
            with pytest.raises(LedgerUnavailable, match="moved, removed or replaced"):
                await ledger.submit(certain(key(1)))
            with pytest.raises(LedgerUnavailable, match="moved, removed or replaced"):
                await ledger.next_attempt(key().episode_id, "model")
        await asyncio.gather(*(ledger.score(key()) for _ in range(5)), return_exceptions=True)
        assert place.exists() is (fate == "replaced"), "a new and empty ledger took its place"
        if fate == "moved":
            (tmp_path / "moved.db").rename(place)
            assert (await ledger.submit(certain(key(2)))).first
    if fate != "moved":
        assert place.exists() is (fate == "replaced")


async def test_the_migrations_make_the_schema(tmp_path: Path) -> None:
    place = await filled(tmp_path / "ledger.db", 1)
    engine = sa.create_engine(f"sqlite:///{place}")
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, schema.metadata) == []
        assert context.get_current_revision() == schema.REVISION
        tables = sa.inspect(connection)
        keys = {name: tables.get_pk_constraint(name)["constrained_columns"] for name in schema.metadata.tables}
    engine.dispose()
    tried = ["episode_id", "model_digest", "attempt"]
    assert keys == {
        "attempt": tried, "submission": ["id"], "score": [*tried, "verifier_digest"], "episode_score": tried,
        "record": ["digest"], "attempt_record": tried, "outbox": ["digest"],
    }  # fmt: skip


async def test_a_ledger_of_the_first_revision_keeps_its_scores(tmp_path: Path) -> None:
    place = tmp_path / "ledger.db"
    with closing(sqlite3.connect(place)) as connection:
        connection.executescript(Path(__file__).with_name("golden").joinpath("ledger-0001.sql").read_text())
    async with await Ledger.open(place) as ledger:
        assert [entry.run async for entry in ledger.scores()] == ["test", "other"]
        assert await ledger.score(key(3)) == certain(key(3))
        assert not (await ledger.submit(certain(key(3), run="again"))).first
        assert await ledger.next_attempt(key().episode_id, "model") == 9
    with closing(sqlite3.connect(place)) as connection:
        assert connection.execute("SELECT version_num FROM alembic_version").fetchall() == [(schema.REVISION,)]
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []


@pytest.mark.parametrize("dialect", [postgresql.dialect(), mysql.dialect()], ids=["postgresql", "mysql"])
def test_the_schema_is_no_one_databases_own(dialect: sa.Dialect) -> None:
    made = [str(CreateTable(table).compile(dialect=dialect)) for table in schema.metadata.sorted_tables]
    made += [
        str(CreateIndex(index).compile(dialect=dialect))
        for table in schema.metadata.sorted_tables
        for index in table.indexes
    ]
    assert len(made) == 9
    if dialect.name == "postgresql":
        assert "id BIGSERIAL NOT NULL" in "".join(made)
        assert "submission_id BIGINT NOT NULL" in "".join(made)
