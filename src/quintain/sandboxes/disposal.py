"""Sandboxes on their way out: ended behind whoever let them go, so that nobody waits for a kernel to clean up."""

import asyncio
import logging

from quintain.errors import SandboxError
from quintain.sandboxes.base import Sandbox

_log = logging.getLogger(__name__)


class Disposal:
    """Destroys sandboxes behind its callers, at most so many at a time; beyond that a caller waits.

    Args:
        at_once: 0 destroys at once, while the caller waits.
    """

    def __init__(self, at_once: int = 0) -> None:
        self._places = asyncio.Semaphore(at_once) if at_once else None
        self._going: set[asyncio.Task[None]] = set()

    async def dispose(self, sandbox: Sandbox) -> None:
        """Let a sandbox go. A failure is logged; the provider keeps and reports what it could not remove."""
        if self._places is None:
            await asyncio.shield(_destroyed(sandbox))
            return
        await self._places.acquire()
        task = asyncio.create_task(_destroyed(sandbox))
        self._going.add(task)
        task.add_done_callback(self._gone)

    async def drain(self) -> None:
        """Wait until every sandbox let go so far has ended."""
        await asyncio.gather(*self._going)

    def _gone(self, task: "asyncio.Task[None]") -> None:
        self._going.discard(task)
        if self._places is not None:
            self._places.release()


async def _destroyed(sandbox: Sandbox) -> None:
    try:
        await sandbox.destroy()
    except SandboxError as error:
        _log.error("a sandbox could not be destroyed: %s", error)
