"""Hibernating after every call shows nowhere: not in an observation, not in the verdict, not in the database."""

import asyncio
import json
import os
import sqlite3
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest

from e2e.pack import Scenario, write_pack
from e2e.serving import CACHE
from quintain.contracts.terminal import TerminalReason
from quintain.episodes import Episode, EpisodeRequest, Rooms
from quintain.episodes.assembly import Assembly, open_rooms
from quintain.errors import Owner
from quintain.sandboxes.base import KeepsStandbys
from quintain.tasks import AwmDataset, open_pack
from quintain.tasks.base import TaskSource

pytestmark = [pytest.mark.xdist_group("e2e-hibernation"), pytest.mark.asyncio]

Calls = Sequence[tuple[str, dict[str, Any]]]

RESIDUE = """
import asyncio
import os
import random
import threading
import time
import uuid
from datetime import datetime

from fastapi import BackgroundTasks, FastAPI
from sqlalchemy import create_engine, text
from sqlalchemy.orm import sessionmaker

app = FastAPI()
engine = create_engine("sqlite:///notes.db", connect_args={"check_same_thread": False})
Session = sessionmaker(bind=engine)
HELD = {}
OPEN = engine.connect()


@app.delete("/moment", operation_id="moment")
def moment():
    with Session() as session:
        row = session.execute(text("SELECT datetime('now'), random(), hex(randomblob(4))")).one()
    return {"now": datetime.now().isoformat(), "ids": [uuid.uuid1().hex, uuid.uuid1().hex, uuid.uuid4().hex],
            "random": random.random(), "bytes": os.urandom(4).hex(), "sql": list(row)}


@app.post("/notes", operation_id="add_note")
def add_note(words: str = "none"):
    with Session() as session:
        session.execute(text("INSERT INTO notes (text, made) VALUES (:words, datetime('now'))"), {"words": words})
        session.commit()
        return session.execute(text("SELECT count(*) FROM notes")).scalar()


@app.post("/later", operation_id="add_later")
def add_later(background: BackgroundTasks):
    background.add_task(add_note, "in the background")
    return "accepted"


@app.post("/leave", operation_id="leave")
async def leave(what: str = "nothing"):
    if what == "memory":
        HELD["left"] = 1
    if what == "file":
        open("report.txt", "w").write("left")
    if what == "folder":
        os.mkdir("reports")
    if what == "variable":
        os.environ["LEFT"] = "1"
    if what == "directory":
        os.chdir("tmp")
    if what == "thread":
        threading.Thread(target=time.sleep, args=(30,), daemon=True).start()
    if what == "task":
        HELD.setdefault("tasks", asyncio.get_running_loop().create_task(asyncio.sleep(30))); HELD.clear()
    if what == "change":
        OPEN.execute(text("INSERT INTO notes (text) VALUES ('not committed')"))
    if what == "table":
        OPEN.execute(text("CREATE TEMP TABLE scratchpad (x)")); OPEN.commit()
    return what


@app.get("/left", operation_id="left")
def left():
    return {"memory": HELD.get("left"), "files": sorted(os.listdir(".")), "variable": os.environ.get("LEFT"),
            "notes": OPEN.execute(text("SELECT text FROM notes ORDER BY id")).scalars().all()}
"""


@asynccontextmanager
async def rooms_of(source: TaskSource, scratch: Path) -> AsyncIterator[Rooms]:
    async with open_rooms(source, Assembly(cache=CACHE, scratch=scratch, warm_after=0)) as rooms:
        yield rooms


async def play(
    rooms: Rooms, scenario: str, task: int, calls: Calls, answer: str | None, folder: Path, *, sleeps: bool
) -> dict[str, Any]:
    """Everything that can be seen of an episode, hibernated after every call or not at all."""
    episode = Episode(rooms, EpisodeRequest(scenario=scenario, task_idx=task, seed=11, model_digest="m"))
    await episode.start()
    seen: list[Any] = []

    async def sleep() -> None:
        if sleeps and not episode.hibernated:  # a call that is refused does not wake it
            outcome = await episode.hibernate()
            assert outcome.done, f"after {len(seen)} calls: {outcome.why}"

    try:
        await sleep()
        for tool, arguments in calls:
            outcome = await episode.call(tool, arguments)
            seen.append(outcome.model_dump(exclude={"duration_ms"}))
            await sleep()
        verdict = None
        if "code" in episode.task.verifiers:
            verdict = (await episode.verify("code", answer)).verdict.model_dump(exclude={"log"})
        assert episode.hibernated is sleeps
    finally:
        folder.mkdir()
        record = await episode.finish(folder)
    reached = [call for call in calls if call[0] != "no_such_tool"]
    assert record.hibernations == (len(reached) + 1 if sleeps else 0)
    return {"seen": seen, "verdict": verdict, "state": logical(folder / f"{episode.task.scenario}.db")}


def logical(path: Path) -> list[str]:
    """What a database says, whatever the pages it lies on."""
    with closing(sqlite3.connect(path)) as database:
        return list(database.iterdump())


def written(rounds: dict[str, Any]) -> str:
    return json.dumps(rounds, default=str)


@pytest.mark.parametrize("most", [2, pytest.param(100, marks=pytest.mark.soak)], ids=["some", "all"])
async def test_the_solutions_of_the_pack_play_the_same(tmp_path: Path, most: int) -> None:
    """Those of two tasks of each scenario; all others hibernate in `test_determinism`."""
    with open_pack() as source:
        async with rooms_of(source, tmp_path / "scratch") as rooms:
            played = 0
            for scenario in source.scenarios():
                for index in range(min(len(scenario.tasks), most)):
                    solution = source.solution(scenario.name, index)
                    assert solution is not None
                    calls = [(call.name, call.arguments) for call in solution.calls]
                    calls += [("no_such_tool", {}), (calls[0][0], {"nonsense": [1]})]
                    rounds = [
                        await play(
                            rooms, scenario.name, index, calls, solution.final_answer,
                            tmp_path / f"{scenario.name}-{index}-{sleeps}", sleeps=sleeps,
                        )
                        for sleeps in (False, True)
                    ]  # fmt: skip
                    assert written(rounds[0]) == written(rounds[1]), f"{scenario.name} {index}"
                    if rounds[0]["verdict"] is not None:
                        assert rounds[0]["verdict"]["reward_type"] == "complete"
                    played += 1
            assert played >= min(25, 5 * most)
            assert os.listdir(rooms.scratch) == ["lock"]


async def test_clock_chance_and_background_work_go_on_as_they_would(tmp_path: Path) -> None:
    calls: list[tuple[str, dict[str, Any]]] = [
        *[("moment", {}), ("add_note", {"words": "a"}), ("add_later", {})],
        *[("moment", {}), ("add_note", {}), ("left", {})],
    ]
    data = write_pack(tmp_path / "data", [Scenario("Residue 1", RESIDUE)])
    with AwmDataset.open(data, tmp_path / "indexes") as source:
        async with rooms_of(source, tmp_path / "scratch") as rooms:
            rounds = [
                await play(rooms, "residue_1", 0, calls, None, tmp_path / str(sleeps), sleeps=sleeps)
                for sleeps in (False, True)
            ]
    assert written(rounds[0]) == written(rounds[1])
    assert "in the background" in rounds[0]["seen"][-1]["text"]


async def test_what_a_process_holds_beside_its_database_keeps_it(tmp_path: Path) -> None:
    kinds = {
        "nothing": None, "memory": "module holds", "file": "other files: report.txt", "folder": "other files: reports",
        "variable": "environment", "directory": "directory", "thread": "threads", "task": "work running",
        "change": "not committed", "table": "temporary tables",
    }  # fmt: skip
    data = write_pack(tmp_path / "data", [Scenario("Residue 1", RESIDUE)])
    with AwmDataset.open(data, tmp_path / "indexes") as source:
        async with rooms_of(source, tmp_path / "scratch") as rooms:
            for what, why in kinds.items():
                seen = []
                for sleeps in (False, True):
                    episode = Episode(rooms, EpisodeRequest(scenario="residue_1", seed=3, model_digest="m"))
                    await episode.start()
                    assert (await episode.call("leave", {"what": what})).text == json.dumps(what)
                    if sleeps:
                        outcome = await episode.hibernate()
                        assert outcome.done is (why is None), (what, outcome.why)
                        assert (why or "") in outcome.why
                    left = await episode.call("left", {})
                    seen.append((left.status, left.text, left.error, left.warning))
                    await episode.finish()
                assert seen[0] == seen[1], what


def descriptors() -> int:
    """How many this process holds."""
    return len(os.listdir("/proc/self/fd"))


async def settled() -> int:
    """How many descriptors this process holds once what ends behind has ended."""
    steady, last = 0, -1
    while steady < 10:
        await asyncio.sleep(0.05)
        steady, last = (steady + 1 if descriptors() == last else 0), descriptors()
    return last


async def test_nothing_of_a_hibernated_episode_is_left_in_the_platform(tmp_path: Path) -> None:
    """Not a process, not a descriptor; and the files go with the episode, however it ends."""
    with open_pack() as source:
        async with rooms_of(source, tmp_path / "scratch") as rooms:
            episodes = [
                Episode(rooms, EpisodeRequest(scenario="vet_clinic_1", seed=seed, model_digest="m"))
                for seed in range(8)
            ]
            await episodes[0].start()
            assert isinstance(rooms.provider, KeepsStandbys)
            await rooms.provider.stand_down()  # what waits for claims to come holds descriptors of its own
            await episodes[0].hibernate()
            one = await settled()
            for episode in episodes[1:]:
                await episode.start()
                await episode.hibernate()
            assert await settled() == one
            for episode in episodes:
                assert (await episode.call("no_such_tool", {})).owner is Owner.AGENT
            assert descriptors() == one
            tool = episodes[0].tools[0].name
            await asyncio.gather(*(episode.call(tool, {}) for episode in episodes))
            assert descriptors() >= one + len(episodes)
            for episode in episodes:
                await episode.hibernate()
            assert await settled() == one
            assert len(list(rooms.scratch.iterdir())) == 1 + len(episodes)
            for episode in episodes:
                await episode.abort(TerminalReason.CONNECTION_LOST)
            assert [path.name for path in rooms.scratch.iterdir()] == ["lock"]
