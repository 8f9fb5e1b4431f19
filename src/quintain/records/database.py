"""The ledger's database: opened, migrated, and what it says when it cannot go on.

SQLite runs with a write-ahead log and synchronous=FULL: a commit has reached the disk when it returns.
"""

import errno
import os
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final, Self
from urllib.parse import quote

import sqlalchemy as sa
from sqlalchemy import event, exc
from sqlalchemy.pool import QueuePool

from quintain.errors import LedgerError, LedgerUnavailable, LedgerUnreadable, UsageError
from quintain.records import schema

_VERSION_TABLE: Final = "alembic_version"
_ADVISORY_LOCK: Final = 0x7175696E
_REASONS: Final = {
    sqlite3.SQLITE_FULL: "its disk is full; make room and submit again",
    sqlite3.SQLITE_READONLY: "it is read-only; make the file and its directory writable",
    sqlite3.SQLITE_PERM: "it may not be accessed; make the file and its directory readable and writable",
    sqlite3.SQLITE_BUSY: "another process holds its lock for too long; end that process or allow more time",
    sqlite3.SQLITE_LOCKED: "it is locked for too long; end what holds it or allow more time",
    sqlite3.SQLITE_PROTOCOL: "its lock cannot be had; see that no more processes use it than need be",
    sqlite3.SQLITE_NOMEM: "there is no memory for it; make room and submit again",
    sqlite3.SQLITE_IOERR: "its disk cannot be read or written; look at the system's log",
    sqlite3.SQLITE_CANTOPEN: "it cannot be opened; see that it is a file in a directory that can be written",
}
_ALEMBIC: Final = threading.Lock()
"""Alembic's context is one for the whole process."""

_DAMAGED: Final = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT})


class Database:
    """An open ledger database. Safe to share between threads; close it when done."""

    def __init__(self, engine: sa.Engine, where: str, file: Path | None) -> None:
        """Use `open`; `file` is where a SQLite database lies, `where` names the ledger in messages."""
        self.where = where
        self._engine = engine
        self._writes = engine.execution_options(begin="BEGIN IMMEDIATE")
        self._file = file
        self._inode = _inode(file) if file else None
        self._closed = False

    @classmethod
    def open(cls, location: str | Path, lock_timeout_s: float) -> Self:
        """Open a ledger, made first where there is none, and bring it to the newest revision.

        Args:
            location: a SQLite file, or any SQLAlchemy URL.
            lock_timeout_s: how long to wait for another process's lock.

        Raises:
            LedgerUnreadable: it is damaged, not a ledger, or of a newer version.
            LedgerUnavailable: it cannot be read or written now.
            UsageError: the location is no file and no usable URL.
        """
        url = _url(location)
        if url.get_backend_name() != "sqlite":
            return cls._of_url(url)
        if url.database in (None, "", ":memory:"):
            raise UsageError(f"a ledger must outlive its process, so {location} cannot hold one; name a file")
        file = Path(str(url.database)).expanduser().resolve()
        where = f"the ledger {file}"
        with unavailable_when_refused(where):
            _make(file)
            _check(file, where, lock_timeout_s)
        return cls(_sqlite_engine(file, lock_timeout_s), where, file)._made_ready()

    @classmethod
    def _of_url(cls, url: sa.URL) -> Self:
        where = f"the ledger {url.render_as_string(hide_password=True)}"
        try:
            engine = sa.create_engine(url, pool_pre_ping=True)
        except (exc.ArgumentError, ImportError) as error:
            raise UsageError(f"{where} cannot be opened: {error}; check the URL and install its driver") from error
        return cls(engine, where, None)._made_ready()

    def _made_ready(self) -> Self:
        try:
            with unavailable_when_refused(self.where), self.write() as connection:
                self._migrate(connection)
        except BaseException:
            self.close()
            raise
        return self

    @contextmanager
    def write(self) -> Iterator[sa.Connection]:
        """A connection in a transaction that is committed at the end, unless an exception leaves the block.

        Raises:
            LedgerUnavailable: it was committed, but to a file that is no longer where the ledger is.
        """
        with self._writes.begin() as connection:
            yield connection
        if self._file is not None and _inode(self._file) != self._inode:
            raise LedgerUnavailable(f"{self.where} was moved, removed or replaced; put it back, or start anew with it")

    @contextmanager
    def read(self) -> Iterator[sa.Connection]:
        """A connection in a transaction that sees one state of the ledger.

        Raises:
            LedgerError: it cannot be read, or was closed.
        """
        if self._closed:
            raise LedgerError(f"{self.where} was closed; open it again")
        with unavailable_when_refused(self.where), self._engine.connect() as connection:
            yield connection

    def close(self) -> None:
        """Close every connection. Idempotent."""
        self._closed = True
        self._engine.dispose()

    def _migrate(self, connection: sa.Connection) -> None:
        """Bring the tables to the newest revision; the lock is held, so nobody else is at it."""
        if connection.dialect.name == "postgresql":
            connection.execute(sa.text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _ADVISORY_LOCK})
        tables = sa.inspect(connection).get_table_names()
        if _VERSION_TABLE not in tables:
            if tables:
                named = ", ".join(sorted(tables)[:3])
                raise LedgerUnreadable(f"{self.where} holds something else (tables {named}); name another database")
            revision = None
        else:
            revision = connection.execute(sa.text(f"SELECT version_num FROM {_VERSION_TABLE}")).scalar()
        if revision != schema.REVISION:
            self._upgrade(connection, revision)

    def _upgrade(self, connection: sa.Connection, revision: str | None) -> None:
        from alembic import command
        from alembic.config import Config
        from alembic.script import ScriptDirectory

        config = Config()
        config.set_main_option("script_location", str(Path(__file__).parent / "migrations").replace("%", "%%"))
        known = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
        if revision is not None and revision not in known:
            raise LedgerUnreadable(
                f"{self.where} was written by a newer version of quintain (revision {revision}, newest known here "
                f"{schema.REVISION}); upgrade quintain"
            )
        config.attributes["connection"] = connection
        with _ALEMBIC:
            command.upgrade(config, "head")


def explained(error: BaseException, where: str) -> LedgerError | None:
    """What a database's error means for the whole ledger; None if it concerns only what was asked of it."""
    cause = error.orig if isinstance(error, exc.DBAPIError) else error
    said = " ".join(str(cause).split())  # drivers write several lines
    code = getattr(cause, "sqlite_errorcode", None)
    if isinstance(code, int):
        if code & 0xFF in _DAMAGED:
            return LedgerUnreadable(f"{where} is damaged ({said}); restore it from a backup")
        if (reason := _REASONS.get(code & 0xFF)) is not None:
            return LedgerUnavailable(f"{where} cannot be used: {reason} ({said})")
        return None
    if isinstance(error, OSError) and error.errno == errno.EROFS:
        return LedgerUnavailable(f"{where} cannot be used: {_REASONS[sqlite3.SQLITE_READONLY]} ({said})")
    if isinstance(error, exc.TimeoutError | OSError):
        return LedgerUnavailable(f"{where} cannot be used: {said}; submit again when it can")
    if isinstance(error, exc.OperationalError | exc.InterfaceError) or getattr(error, "connection_invalidated", False):
        return LedgerUnavailable(f"{where} cannot be used: {said}; submit again when it can")
    return None


@contextmanager
def unavailable_when_refused(where: str) -> Iterator[None]:
    """Turn what the database or the file system refuses into an error of the ledger.

    Raises:
        LedgerError: for every error of the database or the file system in the block.
    """
    try:
        yield
    except (exc.SQLAlchemyError, sqlite3.Error, OSError) as error:
        raise explained(error, where) or LedgerUnavailable(f"{where} cannot be used: {error}") from error


def _url(location: str | Path) -> sa.URL:
    if isinstance(location, Path) or "://" not in location:
        return sa.URL.create("sqlite", database=str(location))
    try:
        return sa.make_url(location)
    except exc.ArgumentError as error:
        raise UsageError("the ledger's URL cannot be read; write it as dialect://user:password@host/name") from error


def _make(file: Path) -> None:
    """An empty file that only its owner reads, if there is none; SQLite makes a database of it."""
    file.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.close(os.open(file, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError:
        return  # and not opened: closing it would drop the locks that this process holds on it
    directory = os.open(file.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def _inode(file: Path) -> tuple[int, int] | None:
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _connect(file: Path, lock_timeout_s: float) -> sqlite3.Connection:
    # mode=rw: a file that has gone is an error, never a new and empty ledger
    uri = f"file:{quote(os.fsencode(file))}?mode=rw"
    connection = sqlite3.connect(uri, uri=True, timeout=lock_timeout_s, isolation_level=None, check_same_thread=False)
    try:
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA synchronous = FULL")
    except BaseException:
        connection.close()
        raise
    return connection


def _sqlite_engine(file: Path, lock_timeout_s: float) -> sa.Engine:
    engine = sa.create_engine("sqlite://", creator=lambda: _connect(file, lock_timeout_s), poolclass=QueuePool)

    @event.listens_for(engine, "begin")
    def begin(connection: sa.Connection) -> None:
        # the driver would begin only at the first change, and then find that another process was faster
        connection.exec_driver_sql(connection.get_execution_options().get("begin", "BEGIN"))

    return engine


def _check(file: Path, where: str, lock_timeout_s: float) -> None:
    """See that every page of the file can be read, and have a write-ahead log."""
    deadline = time.monotonic() + lock_timeout_s
    with closing(_connect(file, lock_timeout_s)) as connection:
        found = str(connection.execute("PRAGMA quick_check(1)").fetchone()[0])
        if found != "ok":
            raise LedgerUnreadable(f"{where} is damaged ({found.splitlines()[-1]}); restore it from a backup")
        while (mode := _switch_to_wal(connection, deadline)) is None:
            time.sleep(0.01)
    if mode != "wal":
        raise LedgerUnavailable(f"{where} lies where no write-ahead log can be; put it on a local disk")


def _switch_to_wal(connection: sqlite3.Connection, deadline: float) -> str | None:
    """The journal mode after asking for a write-ahead log; None if another process is at it, to be asked again."""
    try:
        return str(connection.execute("PRAGMA journal_mode = WAL").fetchone()[0])
    except sqlite3.OperationalError as error:
        # this one lock is not waited for by SQLite itself
        if error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY and time.monotonic() < deadline:
            return None
        raise
