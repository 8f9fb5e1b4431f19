"""The same scenario, seed and actions show the same and leave the same, on any server, on any day, in any company."""

import json
import sqlite3
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from e2e import shifted
from e2e.hostile import HOSTILE
from e2e.pack import Scenario, write_pack
from e2e.serving import Server, serving, wait_until
from e2e.wire import Wire
from quintain.tasks import layout, open_pack, shipped
from quintain.verifiers.verifier_kind.digest import logical_digest

pytestmark = pytest.mark.xdist_group("e2e-determinism")

SHIFT_S = 1704110400 - int(time.time())
"""From today to the first of 2024: the episodes' own date lies between the two."""
AT_ONCE = 64
SEED = 7

SOURCES = '''
import ctypes
import os
import random
import secrets
import time
import uuid
from datetime import date, datetime, timezone

from fastapi import FastAPI
from pydantic import BaseModel, FutureDate, FutureDatetime, PastDate, PastDatetime
from sqlalchemy import create_engine, text
from sqlalchemy.orm import sessionmaker

app = FastAPI()
engine = create_engine("sqlite:///sources.db", connect_args={"check_same_thread": False})
Session = sessionmaker(bind=engine)
TABLE = """CREATE TABLE IF NOT EXISTS events (
    id INTEGER PRIMARY KEY AUTOINCREMENT, day TEXT NOT NULL, token TEXT UNIQUE, chance REAL,
    at TEXT DEFAULT CURRENT_TIMESTAMP, made TEXT DEFAULT (datetime('now', '+1 hour')),
    number INTEGER DEFAULT (random()), noise TEXT DEFAULT (hex(randomblob(6))),
    month TEXT AS (strftime('%Y-%m', day)) STORED, weekday TEXT AS (strftime('%w', day)) VIRTUAL,
    CHECK (date(day) IS NOT NULL))"""

with engine.begin() as connection:
    connection.execute(text(TABLE))
    connection.execute(text("CREATE INDEX IF NOT EXISTS by_day ON events(date(day))"))
    connection.execute(text("CREATE INDEX IF NOT EXISTS by_length ON events(length(token), month)"))
    connection.execute(text("CREATE TABLE IF NOT EXISTS changes (what INTEGER, at TEXT, by INTEGER)"))
    connection.execute(text("""CREATE TRIGGER IF NOT EXISTS changed AFTER UPDATE ON events BEGIN
        INSERT INTO changes VALUES (new.id, strftime('%Y-%m-%dT%H:%M:%S', 'now'), random() % 1000); END"""))
    connection.execute(text(
        "CREATE VIEW IF NOT EXISTS recent AS SELECT * FROM events WHERE at > datetime('now', '-1 day')"))
    connection.execute(text("INSERT INTO events (day, token) VALUES (date('now'), hex(randomblob(4)))"))


@app.post("/events", operation_id="add_event")
def add_event(count: int = 2):
    with Session() as session:
        for _ in range(count):
            values = {"day": date.today().isoformat(), "token": str(uuid.uuid4()), "chance": random.random()}
            session.execute(text("INSERT INTO events (day, token, chance) VALUES (:day, :token, :chance)"), values)
        session.execute(text("UPDATE events SET day = strftime('%Y-%m-%d', 'now', '-40 days') WHERE id % 2 = 0"))
        session.commit()
    return list_events()


@app.get("/events", operation_id="list_events")
def list_events():
    with Session() as session:
        rows = session.execute(text("SELECT * FROM events ORDER BY date(day), random()")).all()
        found = session.execute(text("SELECT count(*) FROM events WHERE date(day) = date('now')")).scalar()
        changes = session.execute(text("SELECT * FROM changes")).all()
        recent = session.execute(text("SELECT count(*) FROM recent")).scalar()
        return {"rows": [list(row) for row in rows], "today": found, "recent": recent,
                "changes": [list(row) for row in changes]}


@app.get("/moment", operation_id="moment")
def moment():
    with Session() as session:
        sql = session.execute(text(
            "SELECT datetime('now'), date(), strftime('%s','now'), julianday('now'), unixepoch(), random(), "
            "hex(randomblob(8)), CURRENT_TIMESTAMP, CURRENT_DATE, CURRENT_TIME")).one()
    shuffled = list(range(20)); random.shuffle(shuffled)
    return {
        "now": [datetime.now().isoformat(), datetime.now(timezone.utc).isoformat(), time.time(), time.time_ns(),
                time.strftime("%c"), time.perf_counter()],
        "ids": [str(uuid.uuid1()), str(uuid.uuid4()), secrets.token_hex(8), os.urandom(8).hex()],
        "chance": [random.random(), random.Random().random(), random.SystemRandom().random(), shuffled],
        "sql": list(sql), "set": list({"a", "b", "c", "d", "e"}), "hash": hash("quintain"),
    }


class Plan(BaseModel):
    begins: FutureDatetime
    ends: FutureDate
    asked: PastDate
    heard: PastDatetime


@app.post("/plans", operation_id="plan")
def plan(plan: Plan):
    return plan


class Moment(ctypes.Structure):
    _fields_ = [("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long)]


@app.get("/wall", operation_id="wall")
def wall():
    """What the C library's clock says, past everything that Python has been told."""
    moment = Moment()
    ctypes.CDLL(None).clock_gettime(0, ctypes.byref(moment))
    return moment.seconds
'''


@dataclass(frozen=True)
class Play:
    """One episode to be played."""

    scenario: str
    task_idx: int
    calls: Sequence[tuple[str, dict[str, Any]]]
    final_answer: str | None


PLAN = {
    "begins": "2026-02-10T09:00:00",
    "ends": "2026-02-11",
    "asked": "2026-02-09",
    "heard": "2026-02-09T23:00:00+00:00",
}
"""Sound on the day of the episode, and on no other."""

SOURCES_PLAY = Play(
    "sources_1",
    0,
    [
        ("plan", PLAN),
        ("plan", {**PLAN, "ends": "2026-02-09", "begins": "2026-02-10T00:00:01Z"}),
        ("plan", {**PLAN, "asked": "2026-02-10", "heard": "2026-02-10T00:00:03"}),
        ("moment", {}),
        ("add_event", {}),
        ("list_events", {}),
        ("nonsense", {}),
        ("add_event", {"count": 5}),
        ("add_event", {"count": "many"}),
        ("moment", {}),
        ("list_events", {}),
    ],
    "Done.",
)
MOMENT = 6
"""Where its first moment is in its track."""


def all_plays() -> list[Play]:
    """The reference solution of every shipped task, and a scenario that asks every source there is."""
    plays = [SOURCES_PLAY]
    with open_pack() as pack:
        for scenario in pack.scenarios():
            for index in range(len(scenario.tasks)):
                solution = pack.solution(scenario.name, index)
                assert solution is not None
                calls = [(call.name, call.arguments) for call in solution.calls]
                plays.append(Play(scenario.name, index, calls, solution.final_answer))
    return plays


def pack_with_sources(folder: Path) -> Path:
    """The shipped dataset and one scenario more."""
    write_pack(folder, [Scenario("Sources 1", SOURCES)])
    for file in shipped.PACK.iterdir():
        mine = folder / file.name
        if file.name == layout.SOLUTIONS:
            mine.write_text(json.dumps({**json.loads(file.read_text()), **json.loads(mine.read_text())}))
        elif file.suffix == ".jsonl":
            mine.write_text(file.read_text() + (mine.read_text() if mine.exists() else ""))
    return folder


def track(session: Wire, play: Play, seed: int = SEED, pause: Callable[[], None] = lambda: None) -> list[Any]:
    """Everything an agent sees of an episode, and the logical digest of the database it leaves."""
    observation = session.reset(play.scenario, play.task_idx, seed=seed)
    metadata = observation.pop("metadata")
    seen: list[Any] = [metadata["episode_id"], observation, session.tools()]
    for tool, arguments in play.calls:
        pause()
        seen.append(session.call(tool, **arguments))
    pause()
    seen.append(session.call("verify", final_answer=play.final_answer))
    pause()
    folder = Path(session.call("done", keep_session=True)["observation"]["session_dir"])
    database = folder / f"{play.scenario}.db"
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("PRAGMA journal_mode=DELETE")  # what lies in a write-ahead log belongs to it
    return [*seen, logical_digest(str(database))]


def differences(first: Sequence[Any], second: Sequence[Any]) -> list[str]:
    """Where two tracks part."""
    pairs = zip([json.dumps(one) for one in first], [json.dumps(one) for one in second], strict=True)
    return [f"{number}: {one[:1500]}\n{other[:1500]}" for number, (one, other) in enumerate(pairs) if one != other]


@pytest.fixture(scope="module")
def plays() -> list[Play]:
    return all_plays()


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return pack_with_sources(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def home(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server whose sessions neither warm nor hibernate."""
    off = {"QUINTAIN_HIBERNATE_AFTER": "0", "QUINTAIN_WARM_AFTER": "1000"}
    with serving(tmp_path_factory.mktemp("home"), ["--awm-data", str(data)], **off) as running:
        yield running
        assert running.complaints == []


@pytest.fixture(scope="module")
def alone(home: Server, plays: list[Play]) -> list[list[Any]]:
    """The tracks of all plays, each played with nobody else there."""
    tracks = []
    for play in plays:
        with Wire(home.url) as session:
            tracks.append(track(session, play))
    return tracks


def test_every_reference_solution_is_complete_and_ends_elsewhere(alone: list[list[Any]], plays: list[Play]) -> None:
    for seen, play in zip(alone, plays, strict=True):
        assert seen[-2]["observation"]["reward_type"] == ("complete" if play.scenario != "sources_1" else "incomplete")
    plans = [answer["observation"]["reward_type"] for answer in alone[0][3:6]]
    assert plans == ["tool_call_ok", "invalid_args", "invalid_args"]
    assert len({seen[-1] for seen in alone}) > len(plays) / 2  # tasks of reading alone leave what they found


def test_beside_sixty_three_others(home: Server, alone: list[list[Any]], plays: list[Play]) -> None:
    """All plays at once, each twice or so, most with seeds of their own: those with the same seed are the same."""
    together = threading.Barrier(AT_ONCE, timeout=100)

    def play(number: int) -> list[Any]:
        with Wire(home.url) as session:
            together.wait()
            return track(session, plays[number % len(plays)], SEED if number < len(plays) else number)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        tracks = list(pool.map(play, range(AT_ONCE)))
    for number, seen in enumerate(tracks[: len(plays)]):
        assert differences(alone[number], seen) == [], plays[number]
    other_seed, same_seed = tracks[len(plays)], alone[0]
    assert other_seed[0] != same_seed[0]
    assert other_seed[MOMENT] != same_seed[MOMENT]


def test_in_another_process_on_another_day_warmed_and_hibernated(
    data: Path, alone: list[list[Any]], plays: list[Play], tmp_path: Path
) -> None:
    library = shifted.shifting_library(tmp_path, SHIFT_S)
    command = [sys.executable, Path(shifted.__file__), library]
    settings = {"QUINTAIN_HIBERNATE_AFTER": "0.05", "QUINTAIN_WARM_AFTER": "0"}
    with serving(tmp_path, ["--awm-data", str(data)], command=command, **settings) as server:
        with Wire(server.url) as session:
            session.reset("sources_1")
            assert abs(session.value("wall") - time.time() - SHIFT_S) < 60, "the sandbox's clock is not shifted"

            def pause() -> None:
                assert wait_until(lambda: figures(server)["hibernated"] == 1, 10), figures(server)

            assert differences(alone[0], track(session, SOURCES_PLAY, pause=pause)) == []

        def play(number: int) -> list[str]:
            with Wire(server.url) as session:
                return differences(alone[number], track(session, plays[number], pause=lambda: time.sleep(0.25)))

        with ThreadPoolExecutor(8) as pool:
            parted = list(pool.map(play, range(len(plays))))
        assert [(play, found) for play, found in zip(plays, parted, strict=True) if found] == []
        assert figures(server)["hibernations"] > len(plays)
        assert server.complaints == []


def figures(server: Server) -> dict[str, int]:
    """What Quintain adds to `/stats`."""
    with urllib.request.urlopen(server.url + "/stats", timeout=10) as answer:
        found: dict[str, int] = json.load(answer)["quintain"]
    return found


def test_what_came_before_does_not_show(tmp_path: Path) -> None:
    data = write_pack(tmp_path / "data", [Scenario("Hostile House 1", HOSTILE)])
    moments = [("moment", {}), ("add_note", {"words": "one"}), ("moment", {}), ("list_notes", {}), ("moment", {})]
    play = Play("hostile_house_1", 0, moments, None)
    with serving(tmp_path, ["--awm-data", str(data)]) as server:
        with Wire(server.url) as session:
            first = track(session, play)
        with Wire(server.url) as session:
            other = track(session, play, seed=SEED + 1)
            again = track(session, play)
    assert differences(first, again) == []
    texts = [json.loads(first[number]["observation"]["tool_result"]) for number in (3, 5, 7)]
    assert [text["now"] for text in texts] == [f"2026-02-10T00:00:0{second}" for second in (1, 3, 5)]
    assert [text["sql"][0] for text in texts] == [f"2026-02-10 00:00:0{second}" for second in (1, 3, 5)]
    for name in ("uuid4", "uuid1", "random", "own", "token", "urandom"):
        assert len({str(text[name]) for text in texts}) == 3, f"{name} repeats itself"
        other_seed = json.loads(other[3]["observation"]["tool_result"])
        if name != "uuid1":
            assert other_seed[name] != texts[0][name], f"{name} does not depend on the seed"
    assert first[0] != other[0]  # the seed is part of the episode's identity


@pytest.mark.xdist_group("e2e-hostile")
def test_a_restarted_process_goes_on_where_the_clock_stood(house: Wire) -> None:
    house.seen("leave", really=True)  # the second call, after the fixture's probe
    assert house.value("moment")["now"] == "2026-02-10T00:00:03"
