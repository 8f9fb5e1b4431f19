"""The database kind: a scenario loaded once, its episodes forked from that, its tools called one at a time."""

import os
import threading
import time
from typing import Any

from inside.capture import Output
from inside.clock import Clock
from inside.seeds import Seeds

from . import app, database, inline, moments, rest, trial, warmup
from .answers import failure
from .dispatch import Dispatcher, Loop, keep_slashes
from .files import StateFiles
from .sqlite import Connections
from .tools import toolset
from .traces import memory

_WARM_SEED = 2**53
"""A seed that no episode can have."""


class Kind:
    """One scenario. The process belongs to it: clock, random sources, SQLite and output are replaced for good."""

    def __init__(self) -> None:
        self._output = Output()
        self._seeds = Seeds()
        self._loop = Loop()
        self._seed = 0

    def load(self, payload: dict[str, Any], root: str) -> dict[str, Any]:
        """Build the database unless it is there, load the code, and describe the tools.

        Args:
            payload: scenario, database, code, schema, sample, epoch.
            root: the state directory; what is left there is the initial state.

        Returns:
            `tools`, `report`, `warm` (False until warmed), `threads` that the code started, `segments` in ms.

        Raises:
            ScenarioError: the code cannot be loaded; the message says why.
        """
        laps = _Laps()
        self._path = path = os.path.join(os.path.abspath(root), payload["database"])
        self._files = StateFiles(root, payload["database"])
        given = self._files.take() if os.path.exists(path) else None
        self._take_over(payload["epoch"], path)
        laps.end("prepare")
        report = database.inspect(path) if given else database.build(path, payload["schema"], payload["sample"])
        laps.end("database")
        threads = _threads()
        self._scenario = app.load(payload["scenario"], payload["code"], root, path)
        laps.end("code")
        self._scenario.start(self._loop.get())
        laps.end("startup")
        tools = toolset(self._scenario.app)
        laps.end("tools")
        self._calls = warmup.calls(tools.operations.values())
        self._dispatcher = Dispatcher(self._scenario, tools.operations, self._loop, self._output)
        self._settle(given)
        self._held = rest.Held.now(self._scenario)
        laps.end("settle")
        return {
            "tools": tools.listed,
            "report": report,
            "warm": False,
            "threads": _threads() - threads,
            "segments": laps.taken,
        }

    def warm(self) -> dict[str, Any]:
        """Exercise the tools so that forked episodes need not do everything for the first time.

        First a child process finds out whether that would show in an episode. If so, nothing is done here.

        Returns:
            `warm`, and `why` not.
        """
        if _threads() > 1:
            return {"warm": False, "why": "the process has threads and cannot be forked safely"}
        initial = self._files.take()
        why = trial.reason(self._traces)
        self._files.restore(initial)  # the child worked on the same files
        if why is not None:
            return {"warm": False, "why": why}
        self._exercise()
        self._settle(initial)
        self._held = rest.Held.now(self._scenario)  # warming may have added what episodes then begin with
        return {"warm": True}

    def begin(self, start: dict[str, Any]) -> None:
        """Start an episode: its clock at the epoch, its random sources at the seed, connections on its own files."""
        self._seed = int(start.get("seed", 0))
        self._given = self._files.others()
        self._connections.resume()
        self._set(0)

    def call(self, request: dict[str, Any]) -> dict[str, Any]:
        """Call one tool: `{"op": "tool", "name", "arguments", "index"}`, index 1 for the episode's first call.

        Or `{"op": "rest"}`: may this process go, because the database is all there is of the episode?
        Or `{"op": "vary", "statements"}`, before any call: SQL that makes a task's initial state of the scenario's.

        Returns:
            status and text or error, http_status, and the log of what was printed if anything was;
            for `rest`: `rest`, and `why` not; for `vary`, see `database.vary`.
        """
        if request.get("op") == "vary":
            return database.vary(self._path, request["statements"])
        if request.get("op") == "rest":
            why = self._reason_to_stay()
            return {"rest": True} if why is None else {"rest": False, "why": why}
        if request.get("op") != "tool":
            return failure("server_error", f"no such operation: {request.get('op')!r}; there are tool, rest and vary")
        self._output.take()
        self._set(int(request["index"]))
        answer = self._dispatcher.call(request["name"], request.get("arguments") or {})
        log = self._output.take()
        return answer | {"log": log} if log else answer

    def _reason_to_stay(self) -> str | None:
        if _threads() > 1:
            return "calls started threads"
        if self._loop.busy():
            return "calls left work running"
        if left := self._files.others() - self._given:
            return f"calls left other files: {', '.join(sorted(left))[:200]}"
        return self._connections.unsaved() or self._held.change(self._scenario)

    def _take_over(self, epoch: str, path: str) -> None:
        self._output.install()
        self._clock = Clock(epoch)
        self._clock.start()
        self._seeds.install()
        self._connections = Connections(path, self._clock, self._seeds)
        self._connections.install()
        keep_slashes()
        inline.install()
        moments.install()
        self._set(0)

    def _set(self, index: int) -> None:
        self._clock.move(index)
        self._seeds.begin(self._seed, index)

    def _settle(self, state: dict[str, bytes] | None) -> None:
        """Hold nothing that must not cross a fork; with `state`, put the state files back to it."""
        self._loop.close()
        self._connections.suspend()
        if state is not None:
            self._files.restore(state)
        self._seed = 0
        self._set(0)
        self._output.take()

    def _exercise(self) -> list[Any]:
        """The answers to the exercise, and the state files it leaves."""
        self.begin({"seed": _WARM_SEED})
        seen: list[Any] = []
        for index, (tool, arguments) in enumerate(self._calls, 1):
            answer = self.call({"op": "tool", "name": tool, "arguments": arguments, "index": index})
            answer.pop("log", None)
            seen.append((tool, answer))
        self._settle(None)
        return [*seen, ("the state", self._files.digests())]

    def _traces(self) -> str | None:
        """Why an episode would notice that the process was exercised before, None if it would not."""
        module, state = self._scenario.module, self._scenario.app.state
        threads, initial, remembered = _threads(), self._files.take(), memory(module, state)
        first = self._exercise()
        if _threads() > threads:
            return "calls start threads"
        if memory(module, state) != remembered:
            return "calls change what the scenario's module holds"
        self._settle(initial)
        for before, after in zip(first, self._exercise(), strict=True):
            if before != after:
                return f"{before[0]} differs after other calls"
        return None


class _Laps:
    """Milliseconds of each part of the load."""

    def __init__(self) -> None:
        self.taken: dict[str, float] = {}
        self._last = time.monotonic()

    def end(self, name: str) -> None:
        now = time.monotonic()
        self.taken[name] = round((now - self._last) * 1e3, 2)
        self._last = now


def _threads() -> int:
    """Threads of this process, those that Python does not know of included where the system tells."""
    try:
        return len(os.listdir("/proc/self/task"))
    except OSError:
        return threading.active_count()
