"""Records of ended episodes on their way to a sink, behind the episodes: nobody waits for a disk.

A record is offered until the sink has it. While one cannot be kept, or too many wait, no episode is to begin; those
that run go on, and their records wait in memory. So what waits is bounded by what may run.
"""

import asyncio
import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, Final

from quintain.contracts.record import EpisodeRecord
from quintain.errors import SpoolUnavailable
from quintain.records import RecordSink

JsonObject = dict[str, Any]
SinkOf = Callable[[Collection[str]], RecordSink]

MAX_WAITING: Final = 2000
"""Records that may wait before no further episode is begun."""

MAX_WAITING_BYTES: Final = 256 * 2**20
"""About how much memory they may take before."""

_AT_ONCE: Final = 16
_AFTER_S: Final = 0.03
"""How long a record stands back, so that the answer that ends its episode goes first."""

_FIRST_WAIT_S: Final = 0.1
_MAX_WAIT_S: Final = 5.0
_SMALL_BYTES: Final = 4096
_TOLD_IN_A_ROW: Final = 10
_LOG = logging.getLogger(__name__)


@dataclass
class _Waiting:
    """A record that the sink does not have yet."""

    record: EpisodeRecord
    weight: int
    settled: bool = False


class RecordKeeper:
    """Brings records to a sink. Use it from one event loop; `drain` it when no episode is left."""

    def __init__(
        self,
        sink_of: SinkOf,
        held_bytes: Callable[[], int] = lambda: 0,
        *,
        max_waiting: int = MAX_WAITING,
        max_waiting_bytes: int = MAX_WAITING_BYTES,
    ) -> None:
        """
        Args:
            sink_of: the sink for a record in which certain credentials, beside the run's own, may stand.
            held_bytes: how much lies in the sink.
            max_waiting: records that may wait before no further episode is begun.
            max_waiting_bytes: about how much memory they may take before.
        """
        self.kept = 0
        """Records that would survive a power cut."""
        self.refused = 0
        """How often the sink would not have one."""
        self.lost = 0
        """Records that were given up. Each was logged."""
        self._sink_of = sink_of
        self._sink = sink_of(())
        self._held_bytes = held_bytes
        self._max_waiting = max_waiting
        self._max_waiting_bytes = max_waiting_bytes
        self._tasks: dict[asyncio.Task[None], _Waiting] = {}
        self._weight = 0
        self._places = asyncio.Semaphore(_AT_ONCE)
        self._hurry = asyncio.Event()
        self._why = ""

    @property
    def waiting(self) -> int:
        """How many records the sink does not have yet."""
        return len(self._tasks)

    @property
    def full(self) -> bool:
        """Whether the sink has no room for the records of new episodes."""
        try:
            return self._sink.full
        except OSError:
            return True

    @property
    def obstacle(self) -> str:
        """Why no episode should be begun now, and what to do; empty where nothing speaks against it."""
        if self._why:
            return f"records of episodes cannot be kept: {self._why}"
        if self.full:
            return "the spool of records is full; see that its records are ingested, or raise QUINTAIN_SPOOL_SIZE"
        if self.waiting >= self._max_waiting or self._weight >= self._max_waiting_bytes:
            return f"{self.waiting} records of episodes wait to be written; try again when the disk has caught up"
        return ""

    def keep(self, record: EpisodeRecord, credentials: Collection[str] = ()) -> None:
        """Have a record kept, behind. `credentials` may stand in it and are taken out."""
        waiting = _Waiting(record, _weight(record))
        self._weight += waiting.weight
        task = asyncio.create_task(self._offer(waiting, credentials), name="keep a record")
        self._tasks[task] = waiting
        task.add_done_callback(self._settled)

    async def drain(self, patience_s: float) -> None:
        """Wait until every record is kept, for so long at most; what cannot be kept by then is logged as lost."""
        self._hurry.set()
        if self._tasks:
            _, late = await asyncio.wait(list(self._tasks), timeout=patience_s)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)

    def figures(self) -> JsonObject:
        """What there is to tell of it."""
        return {
            "kept": self.kept,
            "waiting": self.waiting,
            "refused": self.refused,
            "lost": self.lost,
            "spool_bytes": self._bytes(),
            "full": self.full,
            "obstacle": self.obstacle or None,
        }

    def _bytes(self) -> int | None:
        try:
            return self._held_bytes()
        except OSError:
            return None

    async def _offer(self, waiting: _Waiting, credentials: Collection[str]) -> None:
        sink = self._sink_of(credentials) if credentials else self._sink
        wait_s, tries = _FIRST_WAIT_S, 0
        await self._pause(_AFTER_S)
        async with self._places:
            while True:
                try:
                    await sink.add(waiting.record)
                except SpoolUnavailable as error:
                    tries += 1
                    self._refusal(str(error), tries)
                else:
                    waiting.settled, self.kept = True, self.kept + 1
                    self._relieved()
                    return
                await self._pause(wait_s)
                wait_s = min(wait_s * 2, _MAX_WAIT_S)

    async def _pause(self, seconds: float) -> None:
        """Wait; less long where the end is near."""
        if self._hurry.is_set():
            await asyncio.sleep(min(seconds, _FIRST_WAIT_S))
            return
        try:
            async with asyncio.timeout(seconds):
                await self._hurry.wait()
        except TimeoutError:
            pass

    def _refusal(self, why: str, tries: int) -> None:
        self.refused += 1
        if not self._why or tries % _TOLD_IN_A_ROW == 0:
            _LOG.error("a record cannot be kept and is offered again; no episode is begun meanwhile: %s", why)
        self._why = why

    def _relieved(self) -> None:
        if self._why:
            self._why = ""
            _LOG.warning("records are kept again; %d wait", self.waiting - 1)

    def _settled(self, task: asyncio.Task[None]) -> None:
        waiting = self._tasks.pop(task)
        self._weight -= waiting.weight
        if waiting.settled:
            return
        self.lost += 1
        record = waiting.record
        _LOG.error(
            "the record of attempt %d at episode %s (%s, task %s; ended: %s) is lost: %s",
            record.attempt,
            record.episode_id,
            record.scenario,
            record.task_idx,
            record.terminal_reason,
            self._why or "the time to keep it was over" if task.cancelled() else "it cannot be written",
            exc_info=None if task.cancelled() else task.exception(),
        )


def _weight(record: EpisodeRecord) -> int:
    """About how many bytes a record takes; what is small in it is not looked at."""
    return _SMALL_BYTES + sum(_SMALL_BYTES + len(step.result or "") + len(step.error or "") for step in record.steps)
