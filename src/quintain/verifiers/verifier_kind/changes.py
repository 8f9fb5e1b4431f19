"""Which tables differ between the database an episode began with and the one it ended with, and by how many rows.

The second was written by an agent's tools, so it may be anything. What cannot be read in it alone counts as a
difference. What cannot be compared because of the first, or because it is too large, is said to be uncompared and is
never taken for equal. Rows are read from the tables themselves, past every index, view and trigger; 0.0 and -0.0 are
equal.
"""

import filecmp
import hashlib
import os
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import chain, zip_longest
from typing import Any
from urllib.parse import quote

from .digest import encoded, has_rowid, quoted, stored_columns, typed

MAX_TABLES = 300
"""Most tables reported: more than any task may declare, so that a list that was cut names one that is not declared."""
MAX_ROWS = 200_000
"""Most rows that are compared one by one, over all tables of the first database."""
MAX_COUNT = 1_000_000
"""Most rows that are counted of one table; a table with more is said to have so many."""
MAX_STEPS = 200_000_000
"""Most instructions of SQLite's machine for each database; only a damaged file needs so many."""

_STEP = 100_000
_MANY = 1000
_MAX_NAME = 256
_MAX_REASON = 200
_SCHEMA = (
    "SELECT type, name, tbl_name, sql FROM sqlite_schema "
    "WHERE sql IS NOT NULL AND tbl_name NOT LIKE 'sqlite!_stat%' ESCAPE '!'"
)
_SEQUENCE = b"sqlite_sequence"
_ROWID = ("rowid", "oid", "_rowid_")
_LONGEST = 2**27  # bytes of one value: more than a whole database may have
_SIDE_FILES = ("-wal", "-journal")


class Unreadable(Exception):
    """Something of a database cannot be read; `first` says whether it is the one the episode began with."""

    def __init__(self, first: bool, error: Exception) -> None:
        super().__init__(f"{type(error).__name__}: {error}"[:_MAX_REASON])
        self.first = first


def answer(initial: str, final: str) -> dict[str, Any]:
    """`{"status": "ok", "value": ...}` with what `table_changes` returns, or `{"status": "error", "error": ...}`."""
    try:
        return {"status": "ok", "value": table_changes(initial, final), "log": ""}
    except Unreadable as error:
        return {"status": "error", "error": f"the initial database cannot be read: {error}", "log": ""}


def table_changes(initial: str, final: str) -> dict[str, Any]:
    """Compare two databases, by the paths of their files.

    Returns:
        `{"tables": [...], "omitted": count}`: each table that differs or is uncompared, with its name, `kind` (changed,
        added, dropped, unreadable, uncompared), numbers of rows `inserted`, `deleted` and `changed`, whether its schema
        (that of its indexes and triggers too) was `reshaped` and its AUTOINCREMENT `counter` changed, and a `reason`
        or None; and how many more there are.

    Raises:
        Unreadable: the first database cannot be read.
    """
    if _same_bytes(initial, final):
        return {"tables": [], "omitted": 0}
    with closing(Database(initial, first=True)) as before:
        before.open()
        with closing(Database(final, first=False)) as after:
            try:
                after.open()
            except Unreadable as error:
                found = [_entry(name, "unreadable", reason=str(error)) for name in sorted(set(before.names.values()))]
            else:
                found = _compared(before, after)
    return {"tables": found[:MAX_TABLES], "omitted": max(len(found) - MAX_TABLES, 0)}


def _same_bytes(initial: str, final: str) -> bool:
    if any(os.path.lexists(path + suffix) for path in (initial, final) for suffix in _SIDE_FILES):
        return False
    try:
        return filecmp.cmp(initial, final, shallow=False)
    except OSError:
        return False


class Database:
    """One of the two databases: its schema by folded name, and its rows."""

    def __init__(self, path: str, *, first: bool) -> None:
        self._path = path
        self._first = first
        self._connection: sqlite3.Connection | None = None
        self._left = MAX_STEPS
        self.objects: Counter[tuple[bytes, bytes]] = Counter()
        """Rows of the schema: the folded name of the table each belongs to, and the row encoded."""
        self.names: dict[bytes, bytes] = {}
        """What tables and views are called, by folded name."""
        self.tables: set[bytes] = set()
        """The folded names of tables that hold rows: what a virtual table holds is in its shadow tables."""
        self.counters: dict[bytes, list[bytes]] = {}
        """Rows of `sqlite_sequence` by the folded name of the table they count for."""
        self._selects: dict[bytes, tuple[str, int]] = {}

    def open(self) -> None:
        """Read the schema and the counters.

        Raises:
            Unreadable: they cannot be read.
        """
        try:
            self._connection = sqlite3.connect(f"file:{quote(self._path)}?mode=ro", uri=True)
            self._connection.text_factory = bytes  # text that is no UTF-8 counts too
            self._connection.execute("PRAGMA trusted_schema=OFF")
            self._connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST)
            self._connection.set_progress_handler(self._spend, _STEP)
        except sqlite3.Error as error:
            raise Unreadable(self._first, error) from error
        for kind, name, owner, sql in self.read(lambda connection: connection.execute(_SCHEMA)):
            row = encoded((kind, name, owner, sql))
            if name == _SEQUENCE:
                continue
            owner = owner if isinstance(owner, bytes) else row
            self.objects[owner.lower(), row] += 1
            if kind in (b"table", b"view"):
                self.names[owner.lower()] = owner
            if kind == b"table" and not _is_virtual(sql):
                self.tables.add(owner.lower())
        self._count()

    def _count(self) -> None:
        for number, (name, count) in enumerate(self.read(_counters)):
            if number >= MAX_ROWS:
                raise Unreadable(self._first, ValueError(f"over {MAX_ROWS} counters"))
            owner = name if isinstance(name, bytes) else encoded((name,))
            self.names.setdefault(owner.lower(), owner)
            self.counters.setdefault(owner.lower(), []).append(encoded((count,)))

    def read(self, rows: Callable[[sqlite3.Connection], Iterator[tuple[Any, ...]]]) -> Iterator[tuple[Any, ...]]:
        """What a query gives.

        Raises:
            Unreadable: while it is read, for any reason.
        """
        assert self._connection is not None
        try:
            yield from rows(self._connection)
        except (sqlite3.Error, ValueError, MemoryError) as error:
            raise Unreadable(self._first, error) from error

    def count(self, name: bytes) -> int:
        """How many rows a table has, up to `MAX_COUNT`."""
        # row by row: a plain count(*) of a damaged table may go round in it for ever, and cannot be interrupted
        query = f"SELECT count(*) FROM (SELECT 1 FROM {quoted(self._text(name))} NOT INDEXED LIMIT {MAX_COUNT})"
        ((found,),) = self.read(lambda connection: connection.execute(query))
        return int(found)

    def rows(self, name: bytes, like: "Database | None" = None) -> Iterator[tuple[Any, ...]]:
        """Every row of a table as (type, value) after (type, value), its key first, in the order of the file.

        Args:
            like: a database whose rows are being read, in which the table is declared with the same words.
        """
        return self.read(lambda connection: connection.execute(self._select(connection, name, like)[0]))

    def plain_rows(self, name: bytes, limit: int) -> Iterator[list[tuple[Any, ...]]]:
        """Every row of a table with its rowid, as Python sees it, a thousand at a time; none where it has no rowid."""
        assert self._connection is not None
        self._connection.text_factory = str
        try:
            query = f"SELECT rowid, * FROM {quoted(self._text(name))} NOT INDEXED LIMIT {limit}"
            cursor = self._connection.execute(query)
            names = [column[0].lower() for column in cursor.description]
            if names.count("rowid") > 1:
                return  # a column has taken the name
            while rows := cursor.fetchmany(_MANY):
                yield rows
            yield []
        except (sqlite3.Error, ValueError, MemoryError):
            return  # a closer look will tell
        finally:
            self._connection.text_factory = bytes

    def key_width(self, name: bytes) -> int:
        """How many places at the beginning of a row are its key; 0 where the rows have none of their own."""
        return next(self.read(lambda connection: iter([(self._select(connection, name)[1],)])))[0]

    def _select(self, connection: sqlite3.Connection, name: bytes, like: "Database | None" = None) -> tuple[str, int]:
        if like is not None and name in like._selects:
            self._selects[name] = like._selects[name]
        if name not in self._selects:
            table = self._text(name)
            key = _key(connection, table)
            columns = typed([*key, *stored_columns(connection, table)])
            self._selects[name] = f"SELECT {columns} FROM {quoted(table)} NOT INDEXED", len(key) * 2
        return self._selects[name]

    def _text(self, name: bytes) -> str:
        try:
            return self.names[name].decode()
        except UnicodeDecodeError as error:
            raise Unreadable(self._first, error) from error

    def _spend(self) -> bool:
        self._left -= _STEP
        return self._left < 0

    def close(self) -> None:
        """Close the file."""
        if self._connection is not None:
            self._connection.close()


def _is_virtual(sql: Any) -> bool:
    return isinstance(sql, bytes) and sql[:32].lstrip().upper().startswith(b"CREATE VIRTUAL")


def _counters(connection: sqlite3.Connection) -> Iterator[tuple[Any, ...]]:
    there = connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'sqlite_sequence' AND type = 'table'")
    if there.fetchone() is not None:
        yield from connection.execute("SELECT name, seq FROM sqlite_sequence")


def _key(connection: sqlite3.Connection, table: str) -> list[str]:
    """What tells a table's rows apart: the rowid by a name that no column has taken, or the primary key."""
    columns = connection.execute(f"PRAGMA table_xinfo({quoted(table)})").fetchall()
    taken = {row[1].lower() for row in columns}
    if alias := next((alias for alias in _ROWID if alias.encode() not in taken), None):
        if has_rowid(connection, table, alias):
            return [alias]
        ordered = sorted((row[5], row[1].decode()) for row in columns if row[5])
        return [quoted(name) for _, name in ordered]
    return []


def _compared(before: Database, after: Database) -> list[dict[str, Any]]:
    reshaped = {owner for owner, _ in (before.objects - after.objects) + (after.objects - before.objects)}
    found, room = [], MAX_ROWS
    for name in sorted(before.names.keys() | after.names.keys() | reshaped):
        there, still = name in before.names, name in after.names
        entry = _entry(
            (after if still else before).names.get(name, name),
            "changed" if there is still else "added" if still else "dropped",
            reshaped=name in reshaped,
            counter=before.counters.get(name) != after.counters.get(name),
        )
        try:
            if name in before.tables and name in after.tables:
                numbers, read = _differences(name, before, after, room, alike=name not in reshaped)
                entry |= numbers
                room -= read
            elif name in before.tables:
                entry["deleted"] = before.count(name)
            elif name in after.tables:
                entry["inserted"] = after.count(name)
        except Unreadable as error:
            entry |= {"kind": "uncompared" if error.first else "unreadable", "reason": str(error)}
        if any(entry[key] for key in ("inserted", "deleted", "changed", "reshaped", "counter", "reason")):
            found.append(entry)
    return found


def _differences(
    name: bytes, before: Database, after: Database, room: int, *, alike: bool
) -> tuple[dict[str, Any], int]:
    """What differs in a table's rows, and how many of them were read, of the `room` there is."""
    if alike and (number := _same(name, before, after, room)) is not None:
        return {}, number
    read = 0
    pairs = zip_longest(before.rows(name), after.rows(name, before if alike else None))
    for read, (one, other) in enumerate(pairs, start=1):
        if one != other or read > room:
            break
    else:
        return {}, read
    had, has = before.count(name), after.count(name)
    if had + max(has - had, 0) <= room:
        return _by_key(name, before, after), had
    if had == has:
        raise Unreadable(True, ValueError(f"{had} rows; rows are compared up to {MAX_ROWS} in all"))
    reason = "too many rows to compare one by one: the numbers are their difference"
    return {"inserted": max(has - had, 0), "deleted": max(had - has, 0), "reason": reason}, 0


def _same(name: bytes, before: Database, after: Database, room: int) -> int | None:
    """How many rows a table has that holds the same in both; None where that takes a closer look."""
    number = 0
    ended = False
    for rows, others in zip_longest(before.plain_rows(name, room + 1), after.plain_rows(name, room + 1)):
        if rows is None or rows != others or _types(rows) != _types(others):  # 1 equals 1.0
            return None
        number += len(rows)
        ended = not rows
    return number if ended and number <= room else None


def _types(rows: list[tuple[Any, ...]]) -> list[type]:
    return list(map(type, chain.from_iterable(rows)))


def _by_key(name: bytes, before: Database, after: Database) -> dict[str, int]:
    kept = dict(_keyed(before, name))
    inserted = changed = 0
    for key, row in _keyed(after, name):
        former = kept.pop(key, None)
        inserted += former is None
        changed += former is not None and former != row
    return {"inserted": inserted, "deleted": len(kept), "changed": changed}


def _keyed(database: Database, name: bytes) -> Iterator[tuple[bytes, bytes]]:
    """The digests of each row's key and of the whole row; rows without a key are told apart by what they hold."""
    width, seen = database.key_width(name), Counter[bytes]()
    for row in database.rows(name):
        whole = _digest(encoded(row))
        if width:
            yield _digest(encoded(row[:width])), whole
        else:
            seen[whole] += 1
            yield whole + b"%d" % seen[whole], whole


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()


def _entry(
    name: bytes, kind: str, *, reshaped: bool = False, counter: bool = False, reason: str | None = None
) -> dict[str, Any]:
    shown = name.decode("utf-8", "backslashreplace")
    shown = shown if len(shown) <= _MAX_NAME else shown[:_MAX_NAME] + "..."
    numbers = {"inserted": 0, "deleted": 0, "changed": 0}
    return {"table": shown, "kind": kind, **numbers, "reshaped": reshaped, "counter": counter, "reason": reason}
