"""The logical digest sees everything a database holds, and nothing of how its file came about."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from quintain.verifiers.verifier_kind.digest import logical_digest

SCHEMA = """
CREATE TABLE things (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT, size, made TEXT AS (substr(name, 1, 1)) STORED,
    upper TEXT AS (upper(name)) VIRTUAL);
CREATE TABLE [odd "name"] (a, b, PRIMARY KEY (a)) WITHOUT ROWID;
CREATE TABLE loose (value);
CREATE INDEX by_name ON things(lower(name));
CREATE VIEW small AS SELECT * FROM things WHERE size < 2;
"""
ROWS = (
    "INSERT INTO things (name, size) VALUES ('lance', 1), ('shield', 2.5), ('horse', NULL), ('x', x'78'), ('y', 'x')",
    "INSERT INTO [odd \"name\"] VALUES (1, 'one'), (2, 'two')",
    "INSERT INTO loose VALUES (1), (1), ('zwölf')",
)


def digest(path: Path, *statements: str) -> str:
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(SCHEMA)
        for statement in (*ROWS, *statements):
            connection.execute(statement)
        connection.commit()
    return logical_digest(str(path))


def test_how_the_file_came_about_does_not_show(tmp_path: Path) -> None:
    plain = digest(tmp_path / "a.db")
    detour = digest(
        tmp_path / "b.db",
        'DELETE FROM [odd "name"]',
        "INSERT INTO [odd \"name\"] VALUES (2, 'two')",
        "INSERT INTO [odd \"name\"] VALUES (1, 'one')",
        "CREATE TABLE gone AS SELECT randomblob(90000)",
        "DROP TABLE gone",
        "ANALYZE",
    )
    assert plain == detour
    with closing(sqlite3.connect(tmp_path / "a.db")) as connection:
        connection.execute("PRAGMA page_size=1024")
        connection.execute("VACUUM")
        connection.execute("PRAGMA journal_mode=WAL")
    assert logical_digest(str(tmp_path / "a.db")) == plain


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE things SET size = 1.0 WHERE id = 1",
        "UPDATE things SET size = '1' WHERE id = 1",
        "UPDATE things SET size = x'79' WHERE id = 4",
        "UPDATE things SET size = 'x' WHERE id = 4",
        "UPDATE things SET size = '' WHERE id = 3",
        "DELETE FROM loose WHERE rowid = 2",
        "UPDATE loose SET rowid = 9 WHERE rowid = 3",
        "UPDATE sqlite_sequence SET seq = 99",
        "DROP VIEW small",
        "DROP INDEX by_name",
        "ALTER TABLE loose ADD COLUMN more",
    ],
)
def test_every_difference_shows(tmp_path: Path, statement: str) -> None:
    assert digest(tmp_path / "a.db") != digest(tmp_path / "b.db", statement)


def test_what_is_no_database_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a.db").write_bytes(b"this is no database " * 400)
    with pytest.raises(sqlite3.DatabaseError):
        logical_digest(str(tmp_path / "a.db"))
