"""Who may start an episode, and when: a few at a time, and none while memory is short. The others queue, within bounds.

Steps of running episodes never pass here.
"""

import asyncio
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Final

from quintain.errors import CapacityError

MAX_QUEUED: Final = 10_000
QUEUE_TIMEOUT_S: Final = 120.0

_LOOK_AGAIN_S: Final = 0.2


async def _no_relief() -> None:
    """There is nothing that could be given back."""


class Admission:
    """Use as `async with admission:` around the start of an episode. First come, first served."""

    def __init__(
        self,
        max_starting: int = 16,
        *,
        available: Callable[[], int] = lambda: 0,
        floor_bytes: int = 0,
        max_queued: int = MAX_QUEUED,
        timeout_s: float = QUEUE_TIMEOUT_S,
    ) -> None:
        """
        Args:
            max_starting: episodes that start at a time.
            available: bytes of memory that are left.
            floor_bytes: while less than this is left, none starts; 0 never looks.
            max_queued: how many may wait; one more is refused.
            timeout_s: how long one may wait.
        """
        self.max_queued = max_queued
        self.floor_bytes = floor_bytes
        self.queued = 0
        self.relieve: Callable[[], Awaitable[object]] = _no_relief
        """Called while memory is short, before anyone is refused; whoever owns idle sessions gives some back."""
        self._turns = asyncio.Semaphore(max_starting)
        self._first = asyncio.Lock()
        self._available = available
        self._timeout_s = timeout_s

    @property
    def available_bytes(self) -> int:
        """Memory that is left."""
        return self._available()

    async def __aenter__(self) -> None:
        """Wait for a turn and for memory.

        Raises:
            CapacityError: too many wait already, or it took too long.
        """
        if self.queued >= self.max_queued:
            raise CapacityError(
                f"{self.queued} resets wait already, the most that may; {self._why()}try again later, "
                "or raise QUINTAIN_MAX_QUEUED on the server",
                **self._counts(),
            )
        self.queued += 1
        try:
            async with asyncio.timeout(self._timeout_s):
                await self._turn()
        except TimeoutError:
            raise CapacityError(
                f"the reset waited {self._timeout_s:g} s behind others without its turn; {self._why()}try again "
                "later, or raise QUINTAIN_QUEUE_TIMEOUT on the server",
                **self._counts(),
            ) from None
        finally:
            self.queued -= 1

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._turns.release()

    async def _turn(self) -> None:
        await self._turns.acquire()
        try:
            if self._short:
                async with self._first:  # the first in line looks for memory, the others wait behind it
                    while self._short:
                        await self.relieve()
                        await asyncio.sleep(_LOOK_AGAIN_S)
        except BaseException:
            self._turns.release()
            raise

    @property
    def _short(self) -> bool:
        return self.floor_bytes > 0 and self._available() < self.floor_bytes

    def _counts(self) -> dict[str, int]:
        return {"queued_resets": self.queued, "max_queued_resets": self.max_queued}

    def _why(self) -> str:
        if not self._short:
            return ""
        return (
            f"{self._available() // 2**20} MiB of memory are left, and QUINTAIN_MIN_FREE_MEMORY keeps "
            f"{self.floor_bytes // 2**20} MiB free; "
        )
