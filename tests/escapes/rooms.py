"""The scenarios in which the attempts are made, and the secrets that are planted around them."""

import json
from pathlib import Path
from typing import Any

from e2e.pack import HAS_DONE, HEAD, NOTE_TOOLS, Scenario, write_pack
from escapes.base import Escape, Level, token
from escapes.corpus import CORPUS
from escapes.inside import HELPERS
from quintain.tasks import layout

SOURCE = Path(__file__).resolve().parents[2] / "src/quintain"
ROOM, COURT, GATE, NEIGHBOUR = "Escape Room 1", "Escape Court 1", "Escape Gate 1", "Neighbour Notes 1"

_TOOLS = """
import json

TOLD = {told!r}
DESTRUCTIVE = {destructive!r}
ATTEMPTS = {attempts!r}


def made(name, told, loading=False):
    told = {{**TOLD, **told}}
    missing = limits_that_do_not_hold(told["level"] == "full", loading)
    if missing:
        return [f"NOT HELD: {{missing}}"]
    return run_attempt(ATTEMPTS[name], told)


@app.post("/attempt", operation_id="attempt")
def attempt(name: str = "", told: str = "{{}}"):
    return made(name, json.loads(told)) if name in ATTEMPTS else []
"""
_AT_LOAD = """
OUTCOMES = {}
for name in ATTEMPTS:
    try:
        OUTCOMES[name] = made(name, {}, loading=True)
    except BaseException as error:
        OUTCOMES[name] = [f"raised {type(error).__name__}: {error}"]


@app.get("/outcomes", operation_id="outcomes")
def outcomes():
    return OUTCOMES
"""
_JUDGE = """
# {token}

CODE = {code!r}
OWN = {token!r}


def verify_escape(initial_db_path, final_db_path, final_answer=None):
    import json

    told = {{**json.loads(final_answer), "own_token": OWN, "databases": [initial_db_path, final_db_path]}}
    missing = limits_that_do_not_hold(told["level"] == "full")
    words = [f"NOT HELD: {{missing}}"] if missing else run_attempt(CODE, told)
    return {{"result": "others", "words": words}}
"""


def judges() -> list[Escape]:
    """The attempts that verifiers make; their place is the number of the court's task."""
    return [one for one in CORPUS if "verifier" in one.roles]


def told(folder: Path, level: Level) -> dict[str, Any]:
    """What an attacker would have to find out: where things are on this host."""
    data = folder / "data"
    return {
        "level": level,
        "pids": [2, 3],
        "port": 8899,
        "seconds": 60,
        "folder": str(folder),
        "secret_file": str(folder / "secret.txt"),
        "hidden_files": [str(data / name) for name in ("gen_verifier.pure_code.jsonl", layout.SOLUTIONS, layout.ENVS)],
        "platform_files": [
            str(SOURCE / name) for name in ("server/app.py", "verifiers/code.py", "sandboxes/fork/zygote.py")
        ],
        "database": "escape_room_1.db",
    }


def secret_labels() -> list[str]:
    """Everything that is planted, by name."""
    return ["environment", "secret file", "hidden verifier", "neighbour", "solution", "bystander", "final answer"]


def write_rooms(folder: Path, level: Level) -> Path:
    """Write the dataset and the secrets around it; returns the dataset's folder."""
    places = told(folder, level)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "secret.txt").write_text(token("secret file"))
    (folder / "secret.txt").chmod(0o644)
    hidden = f"# {token('hidden verifier')}\n{HAS_DONE}"
    task = ("Write a note that says: done", hidden)
    solutions: dict[int, Any] = {0: [("add_note", {"words": token("solution")})]}
    court = [(f"Judge: {one.name}", HELPERS + _JUDGE.format(code=one.code, token=token(one.name))) for one in judges()]
    return write_pack(
        folder / "data",
        [
            Scenario(ROOM, _room("tool", ROOM, places, level), [task], solutions),
            Scenario(GATE, _room("load", GATE, places, level) + _AT_LOAD, [task]),
            Scenario(COURT, HEAD + NOTE_TOOLS, court),
            Scenario(NEIGHBOUR, f"{HEAD}{NOTE_TOOLS}\n# {token('neighbour')}\n", [task], solutions),
        ],
    )


def _room(role: str, title: str, places: dict[str, Any], level: Level) -> str:
    chosen = [one for one in CORPUS if role in one.roles and level in one.levels]
    tools = _TOOLS.format(
        told={**places, "own_token": token(title)},
        destructive=[one.name for one in chosen if one.destructive],
        attempts={one.name: one.code for one in chosen},
    )
    return f"{HEAD}\n{HELPERS}\n# {token(title)}\n{tools}\n{NOTE_TOOLS}"


def as_text(places: dict[str, Any]) -> str:
    """What is told, as an argument or a final answer."""
    return json.dumps(places)
