"""What stops the admission of attempts: a full spool, short memory, verdicts that lag behind. Running ones go on."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import Final

from quintain.episodes.admission import Admission
from quintain.records.recorder import RecordSink

_LOOK_AGAIN_S: Final = 0.1


class Pressure(StrEnum):
    """Why no attempt is begun at the moment."""

    SPOOL_FULL = "spool_full"
    MEMORY_SHORT = "memory_short"
    VERIFIER_BACKLOG = "verifier_backlog"


class Gate:
    """Lets attempts in: at most so many at a time, and none while there is pressure."""

    def __init__(
        self,
        concurrency: int,
        max_unverified: int,
        sink: RecordSink,
        admission: Admission,
        told: Callable[[Pressure | None], object] = lambda _: None,
    ) -> None:
        """
        Args:
            concurrency: attempts at a time.
            max_unverified: attempts waiting for a verdict from which on none is let in.
            admission: knows how much memory is to stay free.
            told: called when pressure begins, with why, and with None when it is over.
        """
        self.unverified = 0
        self.running = 0
        self._concurrency = concurrency
        self._max_unverified = max_unverified
        self._sink = sink
        self._admission = admission
        self._told = told
        self._pressure: Pressure | None = None
        self._places = asyncio.Semaphore(concurrency)

    async def enter(self) -> None:
        """Wait until an attempt may begin."""
        await self._places.acquire()
        try:
            while (pressure := self.pressure()) is not None:
                self._tell(pressure)
                await asyncio.sleep(_LOOK_AGAIN_S)
        except BaseException:
            self._places.release()
            raise
        self._tell(None)
        self.running += 1

    def leave(self) -> None:
        """An attempt has ended, and its record is kept."""
        self.running -= 1
        self._places.release()

    @contextmanager
    def verifying(self) -> Iterator[None]:
        """An attempt waits for its verdict."""
        self.unverified += 1
        try:
            yield
        finally:
            self.unverified -= 1

    def pressure(self) -> Pressure | None:
        """What speaks against beginning another attempt now."""
        if self._sink.full:
            return Pressure.SPOOL_FULL
        if self.unverified >= self._max_unverified:
            return Pressure.VERIFIER_BACKLOG
        admission = self._admission
        if admission.floor_bytes > 0 and admission.available_bytes < admission.floor_bytes:
            return Pressure.MEMORY_SHORT
        return None

    def _tell(self, pressure: Pressure | None) -> None:
        if pressure is not self._pressure:
            self._pressure = pressure
            self._told(pressure)
