"""Scenario code is loaded as it is on disk; what cannot be loaded says why."""

import json
from typing import Any

import pytest

LOADED = '''
"""A module docstring."""
from __future__ import annotations
import asyncio, inspect, logging, os, sys
from contextlib import asynccontextmanager
from dataclasses import dataclass
import uvicorn
from fastapi import FastAPI, Request

logging.basicConfig(level=logging.INFO)
started = []

@dataclass
class Point:
    x: int

@asynccontextmanager
async def lifespan(app):
    started.append("up"); app.state.ready = True
    yield {"shared": "from start-up"}
    started.append("down")

service = FastAPI(lifespan=lifespan)

@service.get("/about", operation_id="about")
async def about(request: Request):
    logging.info("asked about")
    return {
        "name": __name__, "file": os.path.basename(__file__), "argv": sys.argv, "started": started,
        "cwd": os.listdir("."), "ready": request.app.state.ready, "shared": request.state.shared,
        "source": inspect.getsource(Point), "x": Point(3).x,
    }

async def main():
    await uvicorn.Server(uvicorn.Config(service)).serve()

asyncio.run(main())
uvicorn.run(service, port=8000)
if __name__ == "__main__":
    raise SystemExit("started as a program")
'''

EVENTS = """
from fastapi import FastAPI
app = FastAPI()
other = FastAPI()
seen = []
@app.on_event("startup")
def one(): seen.append(1)
@app.on_event("startup")
async def two(): seen.append(2)
@app.on_event("shutdown")
async def three(): seen.append(3)
@app.get("/seen", operation_id="seen")
def get_seen(): return seen
"""


def test_code_runs_unmodified_and_starts_once(driver: Any) -> None:
    run = driver.run(LOADED, [("about", {}), ("about", {})])
    assert "error" not in run, run["error"]
    first, second = run["episodes"][0]["answers"]
    about = json.loads(first["text"])
    assert first["text"] == second["text"]
    assert about["name"] == "scenario_small_1"
    assert about["file"] == "small_1.py"
    assert about["argv"] == ["small_1.py"]
    assert about["started"] == ["up"]
    assert about["ready"] is True
    assert about["shared"] == "from start-up"
    assert about["source"].startswith("@dataclass\nclass Point")
    assert about["x"] == 3
    assert about["cwd"] == ["small_1.db"]
    assert "asked about" in first["log"]
    assert run["description"]["threads"] == 0


def test_event_handlers_run_once(driver: Any) -> None:
    (answer,) = driver.answers(EVENTS, ("seen", {}))
    assert json.loads(answer["text"]) == [1, 2]


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("import no_such_module\n", ["does not load", "ModuleNotFoundError", "small_1.py", "line 1"]),
        ("def broken(:\n", ["does not load", "SyntaxError"]),
        ("raise SystemExit(1)\n", ["does not load", "SystemExit"]),
        ("x = 1\n", ["makes no FastAPI application"]),
        ("from fastapi import FastAPI\na, b = FastAPI(), FastAPI()\n", ["several", "a, b"]),
        (
            "from fastapi import FastAPI\napp = FastAPI()\n@app.on_event('startup')\ndef f(): raise OSError('port')\n",
            ["does not start", "OSError: port"],
        ),
    ],
    ids=["import", "syntax", "exit", "none", "several", "startup"],
)
def test_what_cannot_be_loaded_says_why(code: str, words: list[str], driver: Any) -> None:
    run = driver.run(code)
    assert "ScenarioError" in run["error"]
    for word in ["small_1", *words]:
        assert word in run["error"]
