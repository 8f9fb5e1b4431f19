"""A pack with a database environment whose tasks vary the initial state, played in sandboxes."""

import asyncio
import os
from pathlib import Path

import pytest

from e2e.serving import CACHE
from quintain.contracts.record import EpisodeRecord
from quintain.episodes import Episode, EpisodeRequest, Rooms
from quintain.episodes.assembly import Assembly, open_rooms
from quintain.tasks import PackSource

pytestmark = [pytest.mark.asyncio, pytest.mark.xdist_group("database-pack")]

FILES = {
    "pack.yaml": "apiVersion: quintain.dev/v1alpha1\nkind: Pack\nname: till\ntitle: A till\n",
    "till/environment.yaml": "kind: database\ntitle: Till\ndescription: Items and their stock.\n",
    "till/app.py": """
from fastapi import FastAPI, HTTPException
from sqlalchemy import create_engine, text

engine = create_engine("sqlite:///till.db")
app = FastAPI()


@app.post("/items/{item_id}/sell", operation_id="sell")
def sell(item_id: int):
    with engine.begin() as db:
        sold = db.execute(text("UPDATE items SET stock = stock - 1 WHERE id = :id AND stock > 0"), {"id": item_id})
        if sold.rowcount == 0:
            raise HTTPException(404, "no such item in stock")
        return {"sold": item_id}


@app.get("/items", operation_id="stock")
def stock():
    with engine.begin() as db:
        return [list(row) for row in db.execute(text("SELECT id, stock, since FROM items ORDER BY id"))]
""",
    "till/schema.sql": "CREATE TABLE items (id INTEGER PRIMARY KEY, stock INTEGER, since TEXT);\n",
    "till/data.sql": "INSERT INTO items VALUES (1, 0, NULL), (2, 0, NULL), (3, 0, NULL);\n",
    "till/tasks.yaml": """
- name: sell_all
  difficulty: 2
  variables:
    item: {integer: [1, 3]}
    n: {integer: [2, 4]}
  text: Sell all ${n} pieces of item ${item}.
  start:
    sql:
      - UPDATE items SET stock = ${n}, since = datetime('now') WHERE id = ${item}
      - INSERT INTO items VALUES (4, 7, hex(randomblob(4)))
  solution:
    - {tool: stock}
    - {tool: sell, arguments: {item_id: "${item}"}}
    - {tool: sell, arguments: {item_id: "${item}"}}
  answer: Sold.
  verify: verify_sold
""",
    "till/verifier.py": """
import sqlite3


def verify_sold(initial_db_path, final_db_path, variables):
    def stock(path):
        return dict(sqlite3.connect(f"file:{path}?mode=ro", uri=True).execute("SELECT id, stock FROM items"))
    before, after = stock(initial_db_path), stock(final_db_path)
    item, n = variables["item"], variables["n"]
    right = before[item] == n and after == {**before, item: n - 2}
    return {"result": "complete" if right else "others"}
""",
}
SEEDS = range(6)


@pytest.fixture
def pack(tmp_path: Path) -> PackSource:
    for name, text in FILES.items():
        path = tmp_path / "pack" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return PackSource.open(tmp_path / "pack")


async def play(
    rooms: Rooms, seed: int, *, attempt: int, sleeps: bool = False
) -> tuple[list[str | None], EpisodeRecord]:
    """What the solution's calls gave, and the record."""
    solution = rooms.source.solution("till", 0, seed)
    assert solution is not None
    episode = Episode(rooms, EpisodeRequest(scenario="till", task_idx=0, seed=seed, model_digest="m", attempt=attempt))
    await episode.start()
    try:
        seen = []
        for call in solution.calls:
            seen.append((await episode.call(call.name, call.arguments)).text)
            if sleeps:
                assert (await episode.hibernate()).done
        await episode.verify("code", solution.final_answer)
    finally:
        record = await episode.finish()
    return seen, record


async def test_each_seed_begins_on_its_own_database_and_is_solved(pack: PackSource, tmp_path: Path) -> None:
    assembly = Assembly(cache=CACHE, scratch=tmp_path / "scratch", warm_after=0)
    async with open_rooms(pack, assembly) as rooms:
        first = await asyncio.gather(*(play(rooms, seed, attempt=0) for seed in SEEDS))
        again = [await play(rooms, seed, attempt=1, sleeps=True) for seed in SEEDS]
        for seed, (seen, record), (seen_again, record_again) in zip(SEEDS, first, again, strict=True):
            drawn = pack.task("till", 0, seed).variables
            assert drawn is not None
            assert f'{drawn["item"]},\n    {drawn["n"]},\n    "2026-02-10 00:00:00"' in (seen[0] or "")
            assert (record.reward_type, record_again.reward_type) == ("complete", "complete")
            assert seen == seen_again
            assert record.episode_id == record_again.episode_id
        starts = [tuple(sorted((pack.task("till", 0, seed).variables or {}).items())) for seed in SEEDS]
        assert len({record.episode_id for _, record in first}) == len(SEEDS)
        assert len({seen[0] for seen, _ in first}) == len(set(starts))
        assert os.listdir(rooms.scratch) == ["lock"]
