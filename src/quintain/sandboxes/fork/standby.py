"""Processes forked from a template ahead of their claims, so that a claim finds one isolated and waiting."""

import asyncio
import logging
import shutil
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from quintain.errors import SandboxError
from quintain.sandboxes.cgroups import ControlGroup
from quintain.sandboxes.fork.idleness import idle_time
from quintain.sandboxes.fork.process import SandboxedProcess

_TRIES = 3
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Started:
    """An isolated process that waits for a claim; `folder` is its state directory where that is on the host."""

    process: SandboxedProcess
    folder: Path | None
    group: ControlGroup | None = None
    """Its own control group, where it may start processes and the host offers groups."""

    async def end(self) -> None:
        """End it, unclaimed, and remove what it had. Idempotent."""
        await self.process.end()
        if self.folder is not None:
            await asyncio.to_thread(shutil.rmtree, self.folder, ignore_errors=True)
        if self.group is not None:
            await asyncio.to_thread(self.group.remove)


class Standbys:
    """So many processes that wait, and are replaced behind whoever takes one. No episode has touched them.

    They are started while processors are idle: what stands by makes a claim shorter, and the work a little more. Where
    there is no idle time, each claim has a process of its own forked.

    Args:
        start: forks one.
        keep: how many wait.
        lull: returns when one may be started.
    """

    def __init__(
        self, start: Callable[[], Awaitable[Started]], keep: int, lull: Callable[[], Awaitable[None]] = idle_time
    ) -> None:
        self._start = start
        self._keep = keep
        self._lull = lull
        self._waiting: deque[Started] = deque()
        self._filling: asyncio.Task[None] | None = None
        self._going: set[asyncio.Task[None]] = set()
        self._closed = False

    def take(self) -> Started | None:
        """One that waits, or None; those that have died meanwhile are let go."""
        while self._waiting:
            started = self._waiting.popleft()
            if started.process.alive:
                return started
            self._let_go(started)
        return None

    def refill(self) -> None:
        """Have as many as are missing started, behind the caller; those that have died are missing."""
        for dead in [one for one in self._waiting if not one.process.alive]:
            self._waiting.remove(dead)
            self._let_go(dead)
        if not self._closed and self._filling is None and len(self._waiting) < self._keep:
            self._filling = asyncio.create_task(self._fill())
            self._filling.add_done_callback(self._filled)

    def dismiss(self) -> None:
        """End all that wait, behind the caller, and start no more. Idempotent."""
        self._closed = True
        if self._filling is not None:
            self._filling.cancel()
        while self._waiting:
            self._let_go(self._waiting.popleft())

    async def close(self) -> None:
        """Dismiss them and wait until they have gone. Idempotent."""
        self.dismiss()
        if self._filling is not None:
            await asyncio.wait([self._filling])
        await asyncio.gather(*self._going)

    async def _fill(self) -> None:
        failures = 0
        while len(self._waiting) < self._keep and failures < _TRIES:
            await self._lull()
            try:
                started = await self._start()
            except SandboxError as error:
                _log.debug("no process could be started ahead: %s", error)  # the next claim starts one, and says why
                failures += 1
                continue
            if self._closed:
                self._let_go(started)
                return
            self._waiting.append(started)

    def _filled(self, _task: "asyncio.Task[None]") -> None:
        self._filling = None

    def _let_go(self, started: Started) -> None:
        task = asyncio.create_task(started.end())
        self._going.add(task)
        task.add_done_callback(self._going.discard)
