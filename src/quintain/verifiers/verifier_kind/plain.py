"""Databases made plain: one file that opens read-only, whatever journal its last writer used."""

import contextlib
import os
import sqlite3
from urllib.parse import quote

_SIDE_FILES = ("-wal", "-shm", "-journal")
_ROLLBACK = b"\x01\x01"  # the file format's write and read versions: a rollback journal, no write-ahead log
_NAMES_ANOTHER_FILE = bytes.fromhex("d9d505f920a163d7")  # the end of a journal that names a super-journal


def make_plain(path: str) -> str | None:
    """Fold a database's journal into it and remove the side files; returns what is wrong with it, None if nothing.

    The file was written by an agent's tools, so it may be no database at all. That is for the verifier to judge.
    """
    if not os.path.isfile(path):
        return f"{os.path.basename(path)} does not exist"
    _drop_misleading_journal(path)
    if _is_plain(path):
        return None
    try:
        with contextlib.closing(sqlite3.connect(f"file:{quote(path)}?mode=rw", uri=True, timeout=5)) as connection:
            connection.execute("PRAGMA trusted_schema=OFF")
            connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()  # rolls back what was not committed
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            mode = connection.execute("PRAGMA journal_mode=DELETE").fetchone()[0]
    except sqlite3.Error as error:
        return f"{os.path.basename(path)} cannot be read: {error}"
    if mode != "delete":
        return f"{os.path.basename(path)} keeps its journal mode {mode}"
    for suffix in _SIDE_FILES:
        with contextlib.suppress(FileNotFoundError):
            os.remove(path + suffix)
    return None


def _drop_misleading_journal(path: str) -> None:
    """Remove a journal that names another file, a super-journal: SQLite would read that file, whichever, and delete it.

    No super-journal is part of a state, and where it is missing SQLite itself takes the transaction for committed and
    the journal for stale. Source: SQLite's atomic commit, section 5.
    """
    with contextlib.suppress(FileNotFoundError), open(path + "-journal", "rb") as journal:
        size = journal.seek(0, os.SEEK_END)
        journal.seek(max(size - len(_NAMES_ANOTHER_FILE), 0))
        if journal.read() == _NAMES_ANOTHER_FILE:
            os.remove(path + "-journal")


def _is_plain(path: str) -> bool:
    """Whether a database says that it is written without a write-ahead log, and has no side files."""
    if any(os.path.lexists(path + suffix) for suffix in _SIDE_FILES):
        return False
    with open(path, "rb") as file:
        header = file.read(20)
    return header[:16] == b"SQLite format 3\0" and header[18:] == _ROLLBACK
