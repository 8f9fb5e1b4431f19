"""Datasets in the published layout, made from small scenarios written here."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from quintain.tasks import layout

TABLE = "CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT NOT NULL, made TEXT);"
HAS_DONE = """
import sqlite3

def verify_task_completion(initial_db_path, final_db_path, final_answer=None):
    def count(path):
        return sqlite3.connect(path).execute("SELECT count(*) FROM notes WHERE text = 'done'").fetchone()[0]

    return {"result": "complete" if count(final_db_path) > count(initial_db_path) else "others"}
"""
"""Complete when a note that says `done` was added."""


@dataclass(frozen=True)
class Scenario:
    """One scenario: code, tasks with the code of their verifiers, and reference solutions by task."""

    title: str
    code: str
    tasks: Sequence[tuple[str, str]] = (("Write a note that says: done", HAS_DONE),)
    solutions: dict[int, Sequence[tuple[str, dict[str, Any]]]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The normalised name."""
        return self.title.lower().replace(" ", "_")


def write_pack(folder: Path, scenarios: Sequence[Scenario]) -> Path:
    """Write a dataset and return its folder."""
    folder.mkdir(parents=True, exist_ok=True)
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in layout.FILES}
    for one in scenarios:
        key = {"scenario": one.title}
        inserts = {"table_name": "notes", "insert_statements": ["INSERT INTO notes VALUES (1, 'first', NULL);"]}
        rows[layout.SCENARIO].append({"name": one.title, "description": f"{one.title}, for tests."})
        rows[layout.TASKS].append({**key, "tasks": [text for text, _ in one.tasks]})
        rows[layout.DB].append({**key, "db_schema": {"tables": [{"name": "notes", "ddl": TABLE, "indexes": []}]}})
        rows[layout.SAMPLE].append({**key, "sample_data": {"tables": [inserts]}})
        rows[layout.SPEC].append({**key, "api_spec": {}})
        rows[layout.ENVS].append({**key, "db_path": "notes.db", "full_code": one.code})
        rows["gen_verifier.pure_code.jsonl"] += [
            {**key, "task_idx": index, "task": text, "verification": {"code": code, "raw_response": "{}"}}
            for index, (text, code) in enumerate(one.tasks)
            if code
        ]
    for name, lines in rows.items():
        (folder / name).write_text("".join(json.dumps(line) + "\n" for line in lines))
    solutions = {
        one.name: {str(index): {"calls": calls, "final_answer": "Done."} for index, calls in one.solutions.items()}
        for one in scenarios
        if one.solutions
    }
    (folder / layout.SOLUTIONS).write_text(json.dumps(solutions))
    return folder


HEAD = """
import os
from datetime import datetime

from fastapi import FastAPI, HTTPException, Response
from sqlalchemy import create_engine, event, text
from sqlalchemy.orm import sessionmaker

app = FastAPI(title="Notes")
engine = create_engine(
    "sqlite:////srv/elsewhere/notes.db",
    connect_args={"check_same_thread": False},
)
Session = sessionmaker(bind=engine)
"""

NOTE_TOOLS = """
@app.post("/notes", operation_id="add_note")
def add_note(words: str):
    with Session() as session:
        session.execute(text("INSERT INTO notes (text, made) VALUES (:words, datetime('now'))"), {"words": words})
        session.commit()
    return {"added": words}


@app.get("/notes", operation_id="list_notes")
def list_notes():
    with Session() as session:
        return [row[0] for row in session.execute(text("SELECT text FROM notes ORDER BY id"))]
"""

NOTES = HEAD + NOTE_TOOLS
"""A notebook with nothing wrong with it."""

_LEDGER = """
import threading

HELD = []


@app.post("/hold", operation_id="hold_a_connection")
def hold_a_connection():
    HELD.append(engine.connect())
    return HELD[-1].execute(text("PRAGMA journal_mode")).scalar()


@app.post("/hold_a_transaction", operation_id="hold_a_transaction")
def hold_a_transaction(words: str = ""):
    \"\"\"Write much and commit nothing: what does not fit into memory is in the files already.\"\"\"
    HELD.append(engine.connect())
    HELD[-1].execute(text("PRAGMA cache_size=1"))
    for one in [words] if words else []:
        HELD[-1].execute(text("INSERT INTO notes (text, made) SELECT :words, hex(zeroblob(2000)) FROM "
                              "(SELECT 1 FROM sqlite_schema, (VALUES (1), (2), (3), (4), (5), (6)))"), {"words": one})
    return list_files()


@app.post("/keep_writing", operation_id="keep_writing")
def keep_writing(really: bool = False):
    \"\"\"Two notes at a time, for ever, in a thread: every state that was ever committed has both or neither.\"\"\"
    def write():
        number = 0
        while True:
            number += 1
            with Session() as session:
                for side in "ab":
                    session.execute(text("INSERT INTO notes (text, made) VALUES (:words, hex(zeroblob(900)))"),
                                    {"words": f"{side} {number}"})
                if number % 50 == 0:
                    session.execute(text("DELETE FROM notes WHERE text LIKE 'a %' OR text LIKE 'b %'"))
                session.commit()

    if really:
        threading.Thread(target=write, daemon=True).start()
    return "writing"


@app.post("/leave_file", operation_id="leave_file")
def leave_file(name: str = "", content: str = ""):
    if name:
        with open(name, "wb") as file:
            file.write(bytes.fromhex(content))
    return list_files()


@app.get("/files", operation_id="list_files")
def list_files():
    return sorted(name for name in os.listdir(".") if os.path.isfile(name))
"""

WAL = (
    HEAD
    + """
@event.listens_for(engine, "connect")
def use_write_ahead_log(connection, record):
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA wal_autocheckpoint=0")


"""
    + _LEDGER
    + NOTE_TOOLS
)
"""A notebook whose database keeps a write-ahead log that is never folded in."""

JOURNAL = HEAD + _LEDGER + NOTE_TOOLS
"""The same with a rollback journal."""
