"""Scenarios and verifiers each of which is unsound in one way, with the reason that validation must give."""

from collections.abc import Sequence
from typing import Any

from e2e.pack import HAS_DONE, HEAD, NOTE_TOOLS, NOTES, Scenario

_VERIFY = "def verify_task_completion(initial_db_path, final_db_path, final_answer=None):\n"

ALWAYS_COMPLETE = _VERIFY + "    return {'result': 'complete'}\n"
CRASHES = _VERIFY + "    raise ValueError('oh')\n"
NO_VERDICT = _VERIFY + "    return 'complete'\n"
DRAWS_LOTS = "import os\n\n" + _VERIFY + "    return {'result': 'others', 'lot': os.urandom(8).hex()}\n"
DISLIKES_WORK = HAS_DONE.replace('"complete" if count(final', '"complete" if 1 / (1 - count(final').replace(
    "> count(initial_db_path)", ") and count(initial_db_path)"
)
"""Certain of nothing done, and crashes on the solution."""

DONE: Sequence[tuple[str, dict[str, Any]]] = (("add_note", {"words": "done"}),)
FAILS = (("add_note", {"words": "dune"}), ("no_such_tool", {}))

TELLS_THE_TIME = (
    NOTES
    + """

import time


@app.get("/uptime", operation_id="uptime")
def uptime():
    return time.monotonic_ns()
"""
)
"""A tool that needs no argument answers otherwise at each start."""

SIGNED_BY_THE_CLOCK = NOTES.replace(
    'operation_id="list_notes"', 'operation_id="list_notes", summary=f"Loaded at {__import__(\'time\').monotonic_ns()}"'
)
"""Its tool list differs from one load to the next."""

SEEDED_BY_THE_CLOCK = (
    NOTES
    + """

import time

with Session() as session:
    session.execute(text("INSERT INTO notes (text) VALUES (:words)"), {"words": str(time.monotonic_ns())})
    session.commit()
"""
)
"""Its initial database differs from one load to the next."""

REMEMBERS_BEING_WARMED = (
    NOTES
    + """

import random
import sys


@app.get("/strangers", operation_id="strangers")
def strangers():
    drawn = sys.__dict__.setdefault("_drawn", set())
    drawn.add(random.random())
    return len(drawn)
"""
)
"""Twice the same exercise shows nothing of it, an episode with another seed does."""

REPLAYS_OTHERWISE = HEAD + NOTE_TOOLS.replace(
    'return {"added": words}', 'return {"added": words, "at": __import__("time").monotonic_ns()}'
)
"""Its first read is the same each time, what the solution calls is not."""

KEEPS_THE_TIME = HEAD + NOTE_TOOLS.replace(
    'session.commit()\n    return {"added"',
    'session.execute(text("INSERT INTO notes (text) VALUES (:at)"), {"at": str(__import__("time").monotonic_ns())})\n'
    '        session.commit()\n    return {"added"',
)
"""It answers the same each time, and writes something else."""

LITTERS = (
    NOTES
    + """

import ctypes
import subprocess
import tempfile
import threading
import time


@app.post("/litter", operation_id="litter")
def litter(words: str):
    \"\"\"Try to leave a process, a thread, open files, files here and elsewhere, a socket and shared memory.\"\"\"
    left = []

    def attempt(what, how):
        try:
            how()
            left.append(what)
        except BaseException:
            pass

    attempt("child", lambda: subprocess.Popen(["sleep", "60"], start_new_session=True))
    attempt("fork", lambda: os.fork() or time.sleep(60))
    attempt("raw fork", lambda: ctypes.CDLL(None).fork() == 0 and time.sleep(60))
    attempt("thread", lambda: threading.Thread(target=time.sleep, args=(60,)).start())
    attempt("here", lambda: open("litter", "w").write(words))
    attempt("descriptors", lambda: app.__dict__.setdefault("held", []).extend(open("litter") for _ in range(50)))
    for place in ("/tmp", "/var/tmp", "/dev/shm", "/"):
        attempt(place, lambda: tempfile.mkdtemp(dir=place))
    return add_note(words) | {"left": left}
"""
)
"""It leaves whatever its sandbox lets it leave; once that is destroyed, nothing of it is there."""

DOES_NOT_LOAD = "raise RuntimeError('does not work')"

UNSOUND: tuple[tuple[Scenario, dict[int | None, set[str]]], ...] = (
    (Scenario("Sound Notes 1", NOTES, solutions={0: DONE}), {}),
    (
        Scenario(
            "Judged Notes 1",
            NOTES,
            (
                ("Sound", HAS_DONE),
                ("Complete already", ALWAYS_COMPLETE),
                ("The solution fails", HAS_DONE),
                ("Without a verifier", ""),
                ("The verifier crashes", CRASHES),
                ("The verifier gives no verdict", NO_VERDICT),
                ("The verifier draws lots", DRAWS_LOTS),
                ("The verifier crashes on the solution", DISLIKES_WORK),
                ("Without a solution", HAS_DONE),
            ),
            {0: DONE, 1: DONE, 2: FAILS, 3: DONE, 4: DONE, 5: DONE, 6: (), 7: DONE},
        ),
        {
            1: {"noop_complete"},
            2: {"solution_not_complete"},
            4: {"verifier_uncertain"},
            5: {"verifier_uncertain"},
            6: {"verifier_not_deterministic", "solution_not_complete"},
            7: {"verifier_uncertain"},
        },
    ),
    (Scenario("Broken Notes 1", DOES_NOT_LOAD), {None: {"does_not_boot"}}),
    (Scenario("Clock Notes 1", TELLS_THE_TIME, solutions={0: DONE}), {None: {"first_observation_differs"}}),
    (Scenario("Signed Notes 1", SIGNED_BY_THE_CLOCK, solutions={0: DONE}), {None: {"first_observation_differs"}}),
    (Scenario("Seeded Notes 1", SEEDED_BY_THE_CLOCK, solutions={0: DONE}), {None: {"first_observation_differs"}}),
    (Scenario("Warmed Notes 1", REMEMBERS_BEING_WARMED, solutions={0: DONE}), {None: {"warm_differs"}}),
    (Scenario("Unsteady Notes 1", REPLAYS_OTHERWISE, solutions={0: DONE}), {0: {"replay_differs"}}),
    (Scenario("Dated Notes 1", KEEPS_THE_TIME, solutions={0: DONE}), {0: {"replay_differs"}}),
    (Scenario("Littered Notes 1", LITTERS, solutions={0: (("litter", {"words": "done"}),)}), {}),
)
"""Each with what must be found: reasons by task, None for the scenario as a whole."""
