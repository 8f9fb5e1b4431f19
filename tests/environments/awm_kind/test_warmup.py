"""Warming covers the tools, leaves no trace, and is not done where it would show."""

import json
from typing import Any

import pytest

PLAIN = """
from fastapi import FastAPI, HTTPException
from pydantic import BaseModel
from sqlalchemy import Column, Integer, String, create_engine
from sqlalchemy.orm import declarative_base, sessionmaker
engine = create_engine("sqlite:///x.db", connect_args={"check_same_thread": False})
Session = sessionmaker(bind=engine)
Base = declarative_base()
class Note(Base):
    __tablename__ = "notes"
    id = Column(Integer, primary_key=True)
    text = Column(String)
Base.metadata.create_all(engine)
app = FastAPI()
class NoteIn(BaseModel):
    text: str
@app.post("/notes", operation_id="add")
def add(body: NoteIn, pin: int = 0):
    with Session() as session:
        note = Note(text=body.text); session.add(note); session.commit()
        return {"id": note.id, "text": note.text}
@app.get("/notes", operation_id="count")
async def count():
    with Session() as session: return session.query(Note).count()
@app.get("/fail", operation_id="fail")
def fail(): raise HTTPException(404, "never found")
@app.delete("/notes/{note_id}", operation_id="drop")
def drop(note_id: int):
    with Session() as session:
        note = session.get(Note, note_id)
        if note is None: raise HTTPException(404, "no note")
        session.delete(note); session.commit(); return {"dropped": note_id}
"""

STATEFUL = {
    "counter": (
        "seen = 0\n@app.get('/n', operation_id='n')\ndef n():\n    global seen\n    seen += 1\n    return seen\n",
        "module holds",
    ),
    "list": ("log = []\n@app.get('/n', operation_id='n')\ndef n():\n    log.append(1)\n    return 1\n", "module holds"),
    "default": (
        "@app.get('/n', operation_id='n')\ndef n(): return helper()\n"
        "def helper(kept={}):\n    kept['a'] = 1\n    return 1\n",
        "module holds",
    ),
    "cache": (
        "import functools\n@functools.lru_cache\ndef cached(x): return x\n"
        "@app.get('/n', operation_id='n')\ndef n(): return cached(1)\n",
        "module holds",
    ),
    "class": (
        "class Store:\n    items = {}\nclass Shop:\n    def __init__(self): self.sold = 0\nshop = Shop()\n"
        "@app.get('/n', operation_id='n')\ndef n():\n    shop.sold += 1\n    return 1\n",
        "module holds",
    ),
    "closure": (
        "import itertools\ndef make():\n    ids = itertools.count(1)\n    return lambda: next(ids)\nnext_id = make()\n"
        "@app.get('/n', operation_id='n')\ndef n(): return next_id()\n",
        "",
    ),
    "generator": (
        "def numbers():\n    n = 0\n    while True:\n        n += 1\n        yield n\nids = numbers()\n"
        "@app.get('/n', operation_id='n')\ndef n(): return next(ids)\n",
        "n differs",
    ),
    "state": (
        "@app.get('/n', operation_id='n')\ndef n():\n    app.state.n = getattr(app.state, 'n', 0) + 1\n    return 1\n",
        "module holds",
    ),
    "environment": (
        "import os\n@app.get('/n', operation_id='n')\ndef n():\n"
        "    os.environ['N'] = os.environ.get('N', '') + 'x'\n    return os.environ['N']\n",
        "n differs",
    ),
    "thread": (
        "import threading, time\n@app.get('/n', operation_id='n')\ndef n():\n"
        "    threading.Thread(target=time.sleep, args=(30,), daemon=True).start()\n    return 1\n",
        "threads",
    ),
    "exit": ("import os\n@app.get('/n', operation_id='n')\ndef n(): os._exit(3)\n", "without a result"),
}


def test_warming_leaves_no_trace(fresh_driver: Any) -> None:
    calls = [("count", {}), ("add", {"text": "a"}), ("drop", {"note_id": 1}), ("fail", {}), ("count", {})]
    cold = fresh_driver.run(PLAIN, calls, seed=3)
    warm = fresh_driver.run(PLAIN, calls, seed=3, warm=True)
    assert warm["warmed"] == {"warm": True}
    assert warm["after_warming"] == warm["initial"] == cold["initial"]
    assert warm["descriptors"] == []
    assert warm["episodes"][0]["answers"] == cold["episodes"][0]["answers"]
    assert warm["episodes"][0]["final"] == cold["episodes"][0]["final"]
    assert json.loads(warm["episodes"][0]["answers"][1]["text"]) == {"id": 1, "text": "a"}


@pytest.mark.parametrize("kind", STATEFUL)
def test_what_remembers_is_not_warmed(kind: str, driver: Any) -> None:
    code, why = STATEFUL[kind]
    code = "from fastapi import FastAPI\napp = FastAPI()\n" + code
    calls = [] if kind == "exit" else [("n", {}), ("n", {})]
    run = driver.run(code, calls, warm=True)
    assert run["warmed"]["warm"] is False
    assert why in run["warmed"]["why"]
    assert run["after_warming"] == run["initial"]
    if calls:
        assert run["episodes"][0]["answers"][0]["text"] in ("1", '"x"')


def test_threads_of_the_import_are_counted_and_prevent_warming(driver: Any) -> None:
    code = (
        "import threading, time\nfrom fastapi import FastAPI\napp = FastAPI()\n"
        "threading.Thread(target=time.sleep, args=(30,), daemon=True).start()\n"
        "@app.get('/n', operation_id='n')\ndef n(): return 1\n"
    )
    run = driver.run(code, warm=True)
    assert run["description"]["threads"] == 1
    assert run["warmed"]["warm"] is False
    assert "threads" in run["warmed"]["why"]


@pytest.mark.parametrize("scenario", ["parcel_desk_1", "recipe_box_1"])
def test_the_packs_scenarios_are_warmed_and_play_the_same(scenario: str, driver: Any, pack: Any) -> None:
    payload = pack.payload(scenario)
    solution = pack.solution(scenario, 0)
    calls = [(call.name, call.arguments) for call in solution.calls]
    cold, warm = driver.run(payload, calls), driver.run(payload, calls, warm=True)
    assert warm["warmed"] == {"warm": True}
    assert warm["after_warming"] == cold["initial"]
    assert warm["episodes"][0]["answers"] == cold["episodes"][0]["answers"]
    assert {answer["status"] for answer in warm["episodes"][0]["answers"]} == {"ok"}
    assert warm["episodes"][0]["final"] == cold["episodes"][0]["final"]
