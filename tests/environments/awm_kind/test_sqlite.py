"""Whatever file the code names, it works on the episode's own database; in-memory databases are left alone."""

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

TABLE = {"name": "notes", "ddl": "CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT UNIQUE)", "indexes": []}
SEEDED = ["INSERT INTO notes (text) VALUES ('seeded')"]

ENDPOINTS = """
from fastapi import FastAPI
app = FastAPI()

@app.get("/texts", operation_id="texts")
def texts(): return [row[0] for row in run("SELECT text FROM notes ORDER BY id")]

@app.post("/add", operation_id="add")
def add(body: dict): run("INSERT INTO notes (text) VALUES ('" + str(body["text"]) + "')"); return texts()
"""

ENGINE = (
    """
import os
from sqlalchemy import create_engine, text, event
from sqlalchemy.pool import NullPool, StaticPool, QueuePool
{engine}
def run(sql):
    with engine.begin() as connection:
        result = connection.execute(text(sql))
        return result.fetchall() if result.returns_rows else None
"""
    + ENDPOINTS
)

RAW = (
    """
import os, sqlite3, pathlib
from contextlib import closing
{connect}
def run(sql):
    with closing(connect()) as db, db:
        return db.execute(sql).fetchall()
"""
    + ENDPOINTS
)

HELD = (
    """
import sqlite3
held = sqlite3.connect("held.db", check_same_thread=False)
held.row_factory = sqlite3.Row
held.execute("PRAGMA foreign_keys=ON")
held.execute("INSERT INTO notes (text) VALUES ('at import, not committed')")
cursor = held.cursor()
memory = sqlite3.connect(":memory:", check_same_thread=False)
memory.execute("CREATE TABLE kept (value)")
memory.execute("INSERT INTO kept VALUES ('in memory')")
def run(sql):
    rows = cursor.execute(sql).fetchall(); held.commit()
    return [tuple(row) for row in rows]
"""
    + ENDPOINTS
    + """
@app.get("/about", operation_id="about")
def about():
    row = held.execute("SELECT text FROM notes").fetchone()
    kept = memory.execute("SELECT * FROM kept").fetchone()
    return [held.execute("PRAGMA foreign_keys").fetchone()[0], type(row).__name__, kept]
"""
)

SESSION = (
    """
from sqlalchemy import create_engine, event, text
from sqlalchemy.orm import sessionmaker
engine = create_engine("sqlite:///app.db", connect_args={"check_same_thread": False})
@event.listens_for(engine, "connect")
def on_connect(connection, record):
    connection.execute("PRAGMA foreign_keys=ON")
    connection.execute("PRAGMA journal_mode=WAL")
session = sessionmaker(bind=engine)()
first = session.execute(text("SELECT count(*) FROM notes")).scalar()
def run(sql):
    result = session.execute(text(sql)); rows = result.fetchall() if result.returns_rows else None
    session.commit(); return rows
"""
    + ENDPOINTS
)

FORMS = {
    "environment": ENGINE.format(engine='engine = create_engine(os.environ["DATABASE_PATH"])'),
    "over several lines": ENGINE.format(
        engine='engine = create_engine(\n    url="sqlite:///relative.db",\n    connect_args={\n        "timeout": 5,\n'
        '        "check_same_thread": False,\n    },\n    pool_pre_ping=True,\n)'
    ),
    "absolute": ENGINE.format(engine='engine = create_engine("sqlite:////nowhere/at/all.db", poolclass=NullPool)'),
    "static pool": ENGINE.format(
        engine='arguments = {"check_same_thread": False}\n'
        'engine = create_engine("sqlite:///./a.db", poolclass=StaticPool, connect_args=arguments)'
    ),
    "uri": ENGINE.format(engine='engine = create_engine("sqlite:///file:x.db?mode=rwc&uri=true", poolclass=QueuePool)'),
    "creator": ENGINE.format(
        engine='import sqlite3\nengine = create_engine("sqlite://", creator=lambda: sqlite3.connect("c.db"))'
    ),
    "raw": RAW.format(connect='connect = lambda: sqlite3.connect("relative.db")'),
    "raw path": RAW.format(connect='connect = lambda: sqlite3.connect(database=pathlib.Path("/tmp/x.db"), timeout=3)'),
    "raw uri": RAW.format(connect='connect = lambda: sqlite3.connect("file:other.db?mode=rwc", uri=True)'),
    "raw url": RAW.format(connect='connect = lambda: sqlite3.connect(os.getenv("DATABASE_PATH"))'),
    "class": RAW.format(
        connect="class Mine(sqlite3.Connection): pass\nconnect = lambda: sqlite3.connect('m.db', factory=Mine)"
    ),
    "connection": RAW.format(connect="connect = lambda: sqlite3.Connection('n.db')"),
    "dbapi2": RAW.format(connect="from sqlite3 import dbapi2\nconnect = lambda: dbapi2.connect(b'o.db')"),
    "held session": SESSION,
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_reaches_the_episodes_database(form: str, driver: Any) -> None:
    run = driver.run(
        FORMS[form],
        [("texts", {}), ("add", {"text": "one"}), ("texts", {})],
        [("texts", {}), ("add", {"text": "two"})],
        schema=[TABLE],
        inserts=SEEDED,
        warm=form == "held session",
    )
    assert "error" not in run, run["error"]
    first, second = (
        [json.loads(answer.get("text", "null")) for answer in episode["answers"]] for episode in run["episodes"]
    )
    assert first == [["seeded"], ["seeded", "one"], ["seeded", "one"]], run["episodes"]
    assert second == [["seeded"], ["seeded", "two"]]
    assert run["descriptors"] == []  # nothing of the state is open when an episode is forked
    assert set(run["initial"]) == {"small_1.db"}
    with sqlite3.connect(run["root"] / "small_1.db") as database:
        assert database.execute("SELECT text FROM notes ORDER BY id").fetchall() == [("seeded",), ("two",)]


def test_connections_held_since_the_import_come_back_in_each_episode(driver: Any) -> None:
    calls = [("texts", {}), ("add", {"text": "more"}), ("about", {})]
    run = driver.run(HELD, calls, calls, schema=[TABLE], inserts=SEEDED)
    assert "error" not in run, run["error"]
    assert run["descriptors"] == []
    for episode in run["episodes"]:
        texts, added, about = (json.loads(answer["text"]) for answer in episode["answers"])
        assert texts == ["seeded", "at import, not committed"]
        assert added[-1] == "more"
        assert about == [1, "Row", ["in memory"]]


def test_an_initial_state_built_earlier_is_taken_as_it_is(driver: Any, tmp_path: Path) -> None:
    code = FORMS["environment"] + "\nrun('INSERT INTO notes (text) VALUES (hex(randomblob(4)))')\n"
    built = driver.run(code, [("texts", {})], schema=[TABLE], inserts=SEEDED)
    root = tmp_path / "later"
    root.mkdir()
    with sqlite3.connect(root / "small_1.db") as database:
        database.execute(TABLE["ddl"])
        database.execute("INSERT INTO notes (text) VALUES ('kept')")
    before = (root / "small_1.db").read_bytes()
    later = driver.run(code, [("texts", {})], schema=[TABLE], inserts=SEEDED, root=root)
    assert len(json.loads(built["episodes"][0]["answers"][0]["text"])) == 2
    assert later["description"]["report"] == {"statements": 0, "failed": [], "foreign_key_violations": 0}
    assert json.loads(later["episodes"][0]["answers"][0]["text"]) == ["kept"]
    assert (root / "small_1.db").read_bytes() == before


def test_failing_statements_are_reported(driver: Any) -> None:
    tables = [
        TABLE,
        {"name": "bad", "ddl": "CREATE TABLE bad (id INTEGER,, x)", "indexes": ["CREATE INDEX i ON bad(x)"]},
        {"name": "child", "ddl": "CREATE TABLE child (id INTEGER, note_id INTEGER REFERENCES notes(id))"},
        {"name": "odd", "ddl": "CREATE TABLE odd (t TEXT REFERENCES child(id))", "indexes": None},
    ]
    inserts = [
        "INSERT INTO child VALUES (1, 1), (2, 99)",
        "INSERT INTO notes (text) VALUES ('a'); INSERT INTO notes (text) VALUES ('b;c'); -- done",
        "INSERT INTO notes (text) VALUES ('d'); INSERT INTO nowhere VALUES (1); INSERT INTO notes (text) VALUES ('e')",
        "INSERT INTO notes (text) VALUES ('a')",
        "INSERT INTO notes (text) VALUES (?)",
        "INSERT INTO odd VALUES ('x')",
        "INSERT INTO notes (text) VALUES ('unended",
    ]
    run = driver.run(FORMS["environment"], [("texts", {})], schema=tables, inserts=inserts)
    report = run["description"]["report"]
    heads = [failure["statement"] for failure in report["failed"]]
    assert report["statements"] == 12
    assert heads == [
        tables[1]["ddl"],
        "CREATE INDEX i ON bad(x)",
        inserts[2],
        inserts[3],
        inserts[4],
        inserts[6],
        'PRAGMA foreign_key_check("odd")',
    ]
    assert "UNIQUE" in report["failed"][3]["error"]
    assert "no such table: nowhere" in report["failed"][2]["error"]
    assert report["foreign_key_violations"] == 1
    assert json.loads(run["episodes"][0]["answers"][0]["text"]) == ["a", "b;c", "d"]
