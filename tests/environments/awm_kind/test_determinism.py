"""The same seed and the same calls give the same answers, in any process and on any day."""

import json
import re
from typing import Any

import pytest

SOURCES = '''
import os, random, secrets, sqlite3, string, tempfile, time, uuid
from random import Random, randint, shuffle
from datetime import date, datetime, timedelta, timezone
from fastapi import FastAPI
from sqlalchemy import Column, DateTime, Integer, String, create_engine, func, select, text
from sqlalchemy.orm import declarative_base, sessionmaker

engine = create_engine("sqlite:///whatever.db")
Session = sessionmaker(bind=engine)
Base = declarative_base()
AT_IMPORT = Random()
BORN = (datetime.now().isoformat(), uuid.uuid4().hex, random.random())

class Note(Base):
    __tablename__ = "notes"
    id = Column(Integer, primary_key=True)
    made = Column(DateTime, default=datetime.now)
    stamped = Column(DateTime, server_default=func.now())
    token = Column(String, default=lambda: str(uuid.uuid4()))

Base.metadata.create_all(engine)
app = FastAPI()

@app.get("/python", operation_id="python")
def python():
    fresh, dice = Random(), random.SystemRandom()
    letters = list(string.ascii_letters); shuffle(letters)
    random.seed(); reseeded = random.random()
    return {
        "clock": [time.time(), time.time_ns(), datetime.now().isoformat(), datetime.utcnow().isoformat(),
                  datetime.now(timezone.utc).isoformat(), datetime.today().isoformat(), date.today().isoformat(),
                  time.strftime("%Y-%m-%d %H:%M:%S"), list(time.localtime()), time.clock_gettime(time.CLOCK_REALTIME)],
        "elapsed": [time.perf_counter() - time.perf_counter(), time.perf_counter_ns()],
        "random": [random.random(), randint(1, 10**9), random.choice(string.ascii_letters),
                   random.gauss(0, 1), reseeded],
        "instances": [AT_IMPORT.random(), fresh.random(), Random(5).random(), dice.random(), letters],
        "bytes": [os.urandom(8).hex(), secrets.token_hex(8), secrets.token_urlsafe(6), secrets.randbelow(10**9),
                  random.randbytes(4).hex()],
        "uuid": [str(uuid.uuid4()), str(uuid.uuid1()), uuid.getnode()],
        "born": BORN,
    }

SQL = """datetime('now') | date() | time('now') | julianday('now') | unixepoch() | unixepoch('now')
 | strftime('%Y-%m-%d') | strftime('%s','now') | datetime('NOW','-7 days','start of month')
 | date('2024-01-31','+1 month') | datetime(0,'unixepoch') | date('rubbish') | date(NULL)
 | datetime('now','localtime') | CURRENT_TIMESTAMP | CURRENT_DATE | CURRENT_TIME
 | random() | hex(randomblob(8)) | strftime('%f','now')"""

@app.get("/sql", operation_id="sql")
def sql():
    rows = []
    raw = sqlite3.connect("other.db")
    for connection in (raw, engine.raw_connection()):
        rows.append([connection.cursor().execute("SELECT " + part).fetchone()[0] for part in SQL.split("|")])
    with Session() as session:
        note = Note(); session.add(note); session.commit(); session.refresh(note)
        rows.append([note.made.isoformat(), note.stamped.isoformat(), note.token,
                     session.scalar(select(func.random())), str(session.scalar(select(func.now())))])
        session.execute(text("INSERT INTO notes (made) VALUES (datetime('now', '+1 day'))")); session.commit()
        rows.append([str(v) for v in session.execute(text("SELECT made, stamped FROM notes ORDER BY id DESC")).first()])
    raw.close()
    return rows
'''

CALLS = [("python", {}), ("sql", {}), ("python", {}), ("sql", {})]


def test_every_source_repeats_and_moves_with_the_call(fresh_driver: Any) -> None:
    first = fresh_driver.run(SOURCES, CALLS, CALLS[2:], seed=11)
    again = fresh_driver.run(SOURCES, CALLS, seed=11)
    assert "error" not in first, first["error"]
    assert first["episodes"][0]["answers"] == again["episodes"][0]["answers"]
    assert first["episodes"][0]["final"] == again["episodes"][0]["final"]
    assert first["initial"] == again["initial"]
    other = fresh_driver.run(SOURCES, CALLS, seed=12)
    one, two = (json.loads(run["episodes"][0]["answers"][0]["text"]) for run in (first, other))
    for name in ("random", "bytes", "uuid"):
        assert all(mine != theirs for mine, theirs in zip(one[name][:2], two[name][:2], strict=True)), name
    assert one["clock"] == two["clock"]
    assert one["born"] == two["born"]
    third = json.loads(first["episodes"][0]["answers"][2]["text"])
    assert one["random"] != third["random"]
    assert one["instances"][0] != third["instances"][0]
    assert one["instances"][2] == third["instances"][2]  # seeded by the code itself
    alone = json.loads(first["episodes"][1]["answers"][0]["text"])
    assert alone == one  # the first call of another episode with this seed


def test_the_call_index_decides_and_not_the_number_of_calls(fresh_driver: Any) -> None:
    straight = fresh_driver.answers(SOURCES, ("python", {}, 1), ("python", {}, 2), ("python", {}, 5))
    jumped = fresh_driver.answers(SOURCES, ("python", {}, 5))
    assert straight[2]["text"] == jumped[0]["text"]


def test_the_clock_is_the_episodes(fresh_driver: Any) -> None:
    python, sql = (json.loads(answer["text"]) for answer in fresh_driver.answers(SOURCES, *CALLS[:2]))
    assert python["clock"][0] == 1770681601.0
    assert python["clock"][2:8] == [
        "2026-02-10T00:00:01",
        "2026-02-10T00:00:01",
        "2026-02-10T00:00:01+00:00",
        "2026-02-10T00:00:01",
        "2026-02-10",
        "2026-02-10 00:00:01",
    ]
    assert python["born"][0] == "2026-02-10T00:00:00"
    assert re.fullmatch(r"[0-9a-f]{8}-[0-9a-f]{4}-1[0-9a-f]{3}-[0-9a-f-]{17}", python["uuid"][1])
    raw, pooled, notes, last = sql
    assert raw[:17] == [
        "2026-02-10 00:00:02",
        "2026-02-10",
        "00:00:02",
        pytest.approx(2461081.5 + 2 / 86400),
        1770681602,
        1770681602,
        "2026-02-10",
        "1770681602",
        "2026-02-01 00:00:00",
        "2024-03-02",
        "1970-01-01 00:00:00",
        None,
        None,
        "2026-02-10 00:00:02",
        "2026-02-10 00:00:02",
        "2026-02-10",
        "00:00:02",
    ]
    assert pooled[:17] == raw[:17]
    assert raw[17] != pooled[17]
    assert len(raw[18]) == 16
    assert notes[:2] == ["2026-02-10T00:00:02"] * 2
    assert notes[4] == "2026-02-10 00:00:02"
    assert last == ["2026-02-11 00:00:02", "2026-02-10 00:00:02"]


def test_seed_rows_have_the_epoch_and_date_functions_work_in_schemas(fresh_driver: Any) -> None:
    table = {
        "name": "events",
        "ddl": "CREATE TABLE events (id INTEGER PRIMARY KEY, day TEXT, at TEXT DEFAULT CURRENT_TIMESTAMP, "
        "made TEXT DEFAULT (datetime('now')), month TEXT AS (strftime('%Y-%m', day)) STORED, "
        "CHECK (date(day) IS NOT NULL))",
        "indexes": ["CREATE INDEX by_day ON events(date(day))"],
    }
    code = (
        "from fastapi import FastAPI\nimport sqlite3\napp = FastAPI()\n"
        "@app.get('/rows', operation_id='rows')\ndef rows():\n"
        "    db = sqlite3.connect('x.db')\n"
        "    db.execute(\"INSERT INTO events (day) VALUES (date('now'))\")\n"
        "    db.commit()\n"
        "    sought = \"SELECT * FROM events WHERE date(day) = '2026-02-10'\"\n"
        "    plan = str(db.execute('EXPLAIN QUERY PLAN ' + sought).fetchall())\n"
        "    return [db.execute('SELECT * FROM events ORDER BY id').fetchall(), plan]\n"
    )
    inserts = [
        "INSERT INTO events (day, at) VALUES ('2026-01-31', datetime('now', '-7 days'));",
        "INSERT INTO events (day) VALUES ('no day')",
    ]
    run = fresh_driver.run(code, [("rows", {})], schema=[table], inserts=inserts)
    report = run["description"]["report"]
    assert report["statements"] == 4
    assert len(report["failed"]) == 1
    assert report["failed"][0]["statement"] == inserts[1]
    rows, plan = json.loads(run["episodes"][0]["answers"][0]["text"])
    assert rows == [
        [1, "2026-01-31", "2026-02-03 00:00:00", "2026-02-10 00:00:00", "2026-01"],
        [2, "2026-02-10", "2026-02-10 00:00:01", "2026-02-10 00:00:01", "2026-02"],
    ]
    assert "by_day" in plan
