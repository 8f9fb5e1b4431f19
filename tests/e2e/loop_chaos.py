"""The whole loop, its processes killed at random and started again until every attempt has its record.

A worker plays a plan into its run directory; an ingest process takes the records from there while it does. Another
worker scores and records episodes of its own into a spool elsewhere, from where they are forwarded to the ingest
process over HTTP. Scores and index lie in one database: the run's SQLite file, whose writers are also killed while they
commit, or a PostgreSQL server, which is killed too.
"""

import json
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from e2e.chaos import killed, mounts, no_orphans
from e2e.loop_audit import Place, audit
from e2e.loop_parts import digest
from e2e.loop_processes import Part, Postgres
from e2e.serving import COMMAND, alive, descendants, environment, wait_until
from quintain.records.checking import mend
from quintain.records.store import Store
from quintain.rollout import RolloutPlan

PARTS = {"worker": 4, "ingest": 3, "worker commit": 2, "ingest commit": 2, "writer": 2, "forwarder": 2}
"""What is struck, and how often. With `commit`, its next life ends while it commits."""

TASKS = ("outdoor_marketplace_1", 0), ("outdoor_marketplace_1", 4), ("vet_clinic_1", 0), ("vet_clinic_1", 7)
AGENTS: tuple[dict[str, Any], ...] = (
    {"kind": "reference"},
    {"kind": "noisy", "rates": dict.fromkeys(("wrong_tool", "wrong_argument", "early_stop", "loop"), 0.1)},
    {"kind": "random"},
)
_PARTS = Path(__file__).with_name("loop_parts.py")
_AT_WORK = {"worker": "finished", "ingest": "ready", "writer": "written", "forwarder": None, "database": None}
_DONE = {"worker": 0, "writer": 0}
_RUSH = 0.15
"""How often a process is struck without waiting until it is at work."""


def plan(episodes: int, concurrency: int = 6) -> RolloutPlan:
    """At least so many attempts."""
    groups = len(TASKS) * len(AGENTS)
    document = {
        "tasks": [{"scenario": name, "task_idx": index} for name, index in TASKS],
        "agents": list(AGENTS),
        "attempts": -(-episodes // groups),
        "limits": {"max_steps": 12},
        "concurrency": concurrency,
    }
    return RolloutPlan.checked(document, "the chaos's plan")


class Loop:
    """The loop's processes, and the hand that kills them. What must not be is in `failures`."""

    def __init__(
        self, folder: Path, seed: int, episodes: int, others: int, *, longest_s: float, postgres: Postgres | None = None
    ) -> None:
        """
        Args:
            episodes: at least so many are played by the plan.
            others: so many records come from elsewhere.
            longest_s: how long a process may work before it is struck.
        """
        self.folder = folder
        self.run_dir, self.store, self.away = folder / "run", folder / "store", folder / "away"
        self.failures: list[str] = []
        self.tally: Counter[str] = Counter()
        self.plan = plan(episodes)
        self._others = range(others)
        self._dice = random.Random(seed)
        self._longest_s = longest_s
        self._postgres = postgres
        self.ledger = postgres.url if postgres else str(self.run_dir / "ledger.db")
        (folder / "plan.json").write_text(json.dumps(self.plan.model_dump(mode="json")))
        path = os.pathsep.join([str(_PARTS.parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])])
        variables = environment(folder, {"PYTHONPATH": path})
        names = ["worker", "ingest", "writer", "forwarder"]
        self.parts = {name: Part(name, folder, variables) for name in names}
        if postgres:
            self.parts["database"] = Part("database", folder, dict(os.environ))
        self._dying: dict[str, int] = {}
        """Which part dies in which commit of its next life."""
        self._struck: set[int] = set()
        self._finished, self._read = 0, 0

    def play(self, kinds: Sequence[str], limit_s: float) -> None:
        """Strike so often, evenly over what is to be done, and go on until all is done."""
        deadline, left = time.monotonic() + limit_s, list(kinds)
        armed: tuple[str, float] | None = None
        rushed = False
        self._begin()
        while not self._tended() or self._progress() < 1:
            if time.monotonic() > deadline:
                self.failures.append(f"not done after {limit_s} s: {self._progress():.3f}; {self._complaints()}")
                return
            if left and armed is None and self._progress() >= (len(kinds) - len(left)) / len(kinds):
                rushed = rushed or self._dice.random() < _RUSH
                target = left[0].partition(" ")[0]
                if rushed or self._at_work(target):
                    armed = target, time.monotonic() + self._dice.uniform(0, self._longest_s)
            if armed and time.monotonic() > armed[1]:
                self._strike(left.pop(0), armed[0])
                armed, rushed = None, False
            time.sleep(0.01)
        for kind in left:
            self.tally[f"{kind} spared: all was done"] += 1

    def _begin(self) -> None:
        if self._postgres:
            self._start("database")
            assert wait_until(self._postgres.ready, 60), self.parts["database"].complaint
        for name in ("worker", "ingest", "writer"):
            self._start(name)

    def _progress(self) -> float:
        """Share of the plan whose record is durable, as its events tell."""
        with suppress(FileNotFoundError), (self.run_dir / "events.jsonl").open("rb") as file:
            file.seek(self._read)
            data = file.read()
            whole = data[: data.rfind(b"\n") + 1]
            self._read += len(whole)
            self._finished += whole.count(b'{"event": "finished"')
        return self._finished / self.plan.size

    def _tended(self) -> bool:
        """Start again what has ended; whether everything that has an end has come to it."""
        ended = True
        for name, part in self.parts.items():
            status = None if part.process is None else part.status()
            if name == "forwarder":
                self._forward(part, status)
            elif status is not None and status == _DONE.get(name):
                continue
            elif status is not None:
                self._note_end(name, part, status)
                self._start(name)
            ended = ended and name not in _DONE
        return ended

    def _note_end(self, name: str, part: Part, status: int) -> None:
        assert part.process is not None
        if part.process.pid in self._struck:
            return
        if status == -9:
            self.tally[f"{name} killed in a commit"] += 1
        else:
            self.tally[f"{name} ended with {status}"] += 1
            if name == "worker" or "Traceback" in part.complaint:
                self.failures.append(f"{name} ended with {status}: {part.complaint}")

    def _forward(self, part: Part, status: int | None) -> None:
        """Forward again and again, wherever the ingest process listens by now."""
        if part.process is not None and status is None:
            return
        if status not in (None, 0):
            self._note_end("forwarder", part, status or 0)
        ready = [one for one in self.parts["ingest"].said() if one.get("event") == "ready"]
        if ready:
            part.start([*COMMAND, "store", "forward", ready[-1]["url"], "--spool", str(self.away), "--json"])

    def _start(self, name: str) -> None:
        match name:
            case "worker":
                command = ["run", str(self.folder / "plan.json"), "--run-dir", str(self.run_dir), "--json"]
            case "ingest":
                command = [
                    "store", "ingest", "--store", str(self.store), "--ledger", self.ledger,
                    "--spool", str(self.run_dir / "spool"), "--port", "0", "--json",
                ]  # fmt: skip
            case "writer":
                self.parts[name].start(self._writing())
                return
            case _:
                assert self._postgres
                self.parts[name].start(self._postgres.command)
                return
        commit = self._dying.pop(name, None)
        program = COMMAND if commit is None else (sys.executable, _PARTS, "dying", str(commit))
        self.parts[name].start([*program, *command])

    def _writing(self) -> list[str | Path]:
        acknowledged = {one["number"] for one in self.parts["writer"].all_said() if one["event"] == "written"}
        left = [str(number) for number in self._others if number not in acknowledged]
        return [sys.executable, _PARTS, "write", self.away, self.ledger, "0.05", *left]

    def _at_work(self, name: str) -> bool:
        part, event = self.parts[name], _AT_WORK[name]
        if part.process is None or (name in _DONE and part.status() == 0):
            return part.process is not None
        return event is None or any(one.get("event") == event for one in part.said())

    def _strike(self, kind: str, name: str) -> None:
        part = self.parts[name]
        if part.process is None or part.status() is not None:
            self.tally[f"{kind} spared: it had ended"] += 1
            return
        if kind != name:
            self._dying[name] = self._dice.randint(1, 25)
        below = list(descendants(part.process.pid))
        self._struck.add(part.process.pid)
        if killed(part.process.pid):
            self.tally[f"{name} killed"] += 1
        part.process.wait()
        if not wait_until(lambda: not [pid for pid in below if alive(pid)], 15):
            self.failures.append(f"processes outlived {name}: {[pid for pid in below if alive(pid)]}")

    def _complaints(self) -> str:
        return "; ".join(f"{name}: {part.complaint}" for name, part in self.parts.items())

    def finish(self, seconds: float = 60.0) -> None:
        """Have everything taken in, and end what has no end of its own."""
        spools = (self.run_dir / "spool", self.away)

        def taken() -> bool:
            self._tended()
            return not any(path for root in spools for path in root.glob("*/*.seg"))

        if not wait_until(taken, seconds):
            self.failures.append(f"spools are not taken in: {self._complaints()}")
        forwarder, ingest = self.parts["forwarder"].process, self.parts["ingest"].process
        assert forwarder is not None
        assert ingest is not None
        forwarder.wait(60)
        ingest.terminate()
        if ingest.wait(60):
            self.failures.append(f"the ingest process did not end cleanly: {self.parts['ingest'].complaint}")

    @property
    def place(self) -> Place:
        """Where to look for what is wrong."""
        return Place(
            self.folder, self.store, self.ledger, self.run_dir, (self.run_dir / "spool", self.away),
            frozenset(map(digest, self._others)), tuple(self.parts["worker"].pids),
        )  # fmt: skip

    def close(self) -> None:
        """End what runs still."""
        for part in self.parts.values():
            if part.process is not None and part.status() is None:
                part.process.kill()
                part.process.wait()

    @property
    def summary(self) -> str:
        """What was done and what came of it, each kind of failure once."""
        kinds = {failure[:40]: failure for failure in reversed(self.failures)}
        lives = {f"lives of {name}": part.lives for name, part in self.parts.items()}
        counted = [f"{number:6} {what}" for what, number in sorted((self.tally | Counter(lives)).items())]
        return "\n".join([f"{len(self.failures)} failures", *kinds.values(), *counted])


@contextmanager
def _database(wanted: bool) -> Iterator[Postgres | None]:
    server = Postgres() if wanted else None
    try:
        yield server
    finally:
        if server is not None:
            server.remove()


def survive(
    folder: Path, seed: int, episodes: int, others: int, strikes: int, *,
    longest_s: float, limit_s: float, postgres: bool = False,
) -> Loop:  # fmt: skip
    """Play it all with so many strikes; the loop, over, with its failures."""
    mounted = mounts()
    weights = PARTS | ({"database": 3} if postgres else {})
    kinds = random.Random(f"kinds {seed}").choices(list(weights), list(weights.values()), k=strikes)
    with ExitStack() as stack:
        server = stack.enter_context(_database(postgres))
        stack.enter_context(no_orphans())
        loop = Loop(folder, seed, episodes, others, longest_s=longest_s, postgres=server)
        stack.callback(loop.close)
        loop.play(kinds, limit_s)
        if loop.failures:  # while it has not come to rest, an audit would only tell so again
            return loop
        loop.finish()
        store = Store.open(loop.store, loop.ledger)
        try:
            mended = mend(store, 1e9)
        finally:
            store.close()
        loop.tally["files that repair swept"] = mended.swept
        if mended.appended or mended.quarantined or mended.restored or mended.forgotten or mended.lost:
            loop.failures.append(f"there was something to repair: {mended}")
        loop.failures += audit(loop.place)
    if mounts() != mounted:
        loop.failures.append("mounts were left")
    return loop
