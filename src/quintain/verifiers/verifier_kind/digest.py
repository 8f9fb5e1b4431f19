"""The logical digest of a database: equal for databases that hold the same, however their files came about.

It covers the schema, every row with its rowid (unless a column has that name), and what SQLite counts for
AUTOINCREMENT; not the order of pages, free pages, indexes, statistics or values that are computed when they are read.
"""

import hashlib
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any

_IS_STORED = (0, 3)  # PRAGMA table_xinfo: ordinary columns and stored generated ones


def logical_digest(path: str) -> str:
    """`sha256:<hex>` of what the database at `path` holds.

    Raises:
        sqlite3.Error: it is no database, or a damaged one.
    """
    digest = hashlib.sha256()
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        connection.text_factory = bytes  # text that is no UTF-8 counts too
        for line in _lines(connection):
            digest.update(len(line).to_bytes(8, "big") + line)
    return f"sha256:{digest.hexdigest()}"


def _lines(connection: sqlite3.Connection) -> Iterator[bytes]:
    schema = connection.execute(
        "SELECT type, name, tbl_name, sql FROM sqlite_schema "
        "WHERE sql IS NOT NULL AND tbl_name NOT LIKE 'sqlite!_stat%' ESCAPE '!'"
    ).fetchall()
    yield from sorted(map(encoded, schema))
    for name in sorted(name.decode() for kind, name, _, _ in schema if kind == b"table"):
        yield encoded((b"table", name.encode()))
        yield from sorted(map(encoded, _rows(connection, name)))


def _rows(connection: sqlite3.Connection, table: str) -> Iterator[tuple[Any, ...]]:
    columns = stored_columns(connection, table)
    if table != "sqlite_sequence" and has_rowid(connection, table):
        columns.insert(0, "rowid")
    yield from connection.execute(f"SELECT {typed(columns)} FROM {quoted(table)}")


def stored_columns(connection: sqlite3.Connection, table: str) -> list[str]:
    """The quoted names of a table's columns whose values are in the file."""
    found = connection.execute(f"PRAGMA table_xinfo({quoted(table)})").fetchall()
    return [quoted(row[1].decode()) for row in found if row[6] in _IS_STORED]


def typed(columns: Sequence[str]) -> str:
    """What to select to get columns with their types: text and blobs both come as bytes."""
    return ", ".join(f"typeof({column}), {column}" for column in columns)


def has_rowid(connection: sqlite3.Connection, table: str, alias: str = "rowid") -> bool:
    """Whether a table has a rowid, or a column of that name."""
    try:
        connection.execute(f"SELECT {alias} FROM {quoted(table)} LIMIT 0")
    except sqlite3.OperationalError:
        return False
    return True


def encoded(row: tuple[Any, ...]) -> bytes:
    """A row as bytes: equal for equal rows, and for no others."""
    return b"".join(_cell(value) for value in row)


def _cell(value: Any) -> bytes:
    if value is None:
        return b"n"
    if isinstance(value, int):
        return b"i%d;" % value
    if isinstance(value, float):
        return b"f" + value.hex().encode() + b";"
    content: bytes = value
    return b"b%d:" % len(content) + content


def quoted(name: str) -> str:
    """A name as SQL writes it."""
    return '"' + name.replace('"', '""') + '"'
