"""Idle sessions give their processes back: one loop looks after all of them."""

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Final

from quintain.errors import QuintainError
from quintain.server.sessions import Session

AT_ONCE: Final = 4
"""Sessions that hibernate at a time; more would take the processors from those at work."""

EARLY_S: Final = 1.0
"""How long a session must be idle to hibernate while memory is short."""

_LOG = logging.getLogger(__name__)


class Hibernator:
    """Hibernates sessions that are idle for longer than `after_s` seconds; 0 turns it off.

    A session hibernates under its lock and only between calls; who comes meanwhile waits until it either has, or has
    noticed that it is in the way and let everything be. One that could not is asked again when it has been idle for
    twice as long: a full disk, or work that a call left running, may have passed.
    """

    def __init__(self, sessions: Iterable[Session], after_s: float) -> None:
        self.done = 0
        self.failed = 0
        self._sessions = sessions
        self._after_s = after_s
        self._turns = asyncio.Semaphore(AT_ONCE)

    async def keep_hibernating(self) -> None:
        """Look for idle sessions again and again, until cancelled. Returns at once where it is turned off."""
        while self._after_s > 0:
            await asyncio.sleep(min(self._after_s / 4, 2.5))
            await self.hibernate(self._after_s)

    async def relieve(self) -> int:
        """Memory is short: hibernate what is idle, early; how many that were."""
        return await self.hibernate(min(EARLY_S, self._after_s)) if self._after_s > 0 else 0

    async def hibernate(self, idle_s: float) -> int:
        """Hibernate the sessions that are idle for so long, the longest first; how many could."""
        idle = sorted(
            (session for session in self._sessions if _may(session, idle_s)), key=lambda session: session.last_active
        )
        count = 0
        for first in range(0, len(idle), AT_ONCE):
            batch = idle[first : first + AT_ONCE]
            count += sum(await asyncio.gather(*(self._hibernate(session, idle_s) for session in batch)))
        return count

    async def _hibernate(self, session: Session, idle_s: float) -> bool:
        async with self._turns:
            if not _may(session, idle_s):
                return False
            async with session.lock:  # free, so this does not wait; and it is not counted as waiting
                return await self._hibernate_locked(session)

    async def _hibernate_locked(self, session: Session) -> bool:
        try:
            outcome = await session.awm.hibernate(_wanted(session))
        except Exception as error:  # whatever it is, the loop goes on
            self.failed += 1
            session.stayed_s = session.idle_s
            trace = not isinstance(error, QuintainError | OSError)
            _LOG.error("session %s could not hibernate and keeps its process: %s", session.id, error, exc_info=trace)
            return False
        self.done += outcome.done
        if not outcome.done and session.waiting == 0:
            session.stayed_s = session.idle_s
        return outcome.done


def _may(session: Session, idle_s: float) -> bool:
    return session.awm.live and not session.lock.locked() and session.idle_s >= max(idle_s, 2 * session.stayed_s)


def _wanted(session: Session) -> Callable[[], bool]:
    return lambda: session.waiting > 0
