"""Who is connected: sessions, how many there may be, and the reaper of idle ones."""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any
from uuid import uuid4

from quintain.contracts.terminal import TerminalReason
from quintain.errors import CapacityError, QuintainError
from quintain.server.agent_tokens import AgentDoor, AgentTokens
from quintain.server.awm import AwmSession
from quintain.server.scopes import ANYONE
from quintain.server.settings import Settings
from quintain.tasks.pooled import PoolScope

JsonObject = dict[str, Any]

_LOG = logging.getLogger(__name__)


class SessionError(QuintainError):
    """A session that does not exist or cannot be attached to."""


class Session:
    """One client's session. Work on it within `async with session:`, so that messages are answered one at a time."""

    def __init__(self, awm: AwmSession, now: Callable[[], float], scope: PoolScope = ANYONE) -> None:
        self.id = str(uuid4())
        self.awm = awm
        self.scope = scope
        """What the client that opened it may see; nobody else finds it."""
        self.lock = asyncio.Lock()
        self.waiting = 0
        """How many want to work on it and wait for the lock."""
        self.stayed_s = 0.0
        """How long it had been idle when it last could not hibernate; it is asked again once that has doubled."""
        self.attached = False
        """Whether a WebSocket serves it."""
        self.close_when_detached = False
        self.ended: asyncio.Future[None] | None = None
        """Resolved when its slot is free; None while nobody is about to close it."""
        self._now = now
        self.last_active = now()

    async def __aenter__(self) -> None:
        """Take the lock, to work on it. Whoever only tidies up sees in `waiting` that it is in the way."""
        self.waiting += 1
        try:
            await self.lock.acquire()
        finally:
            self.waiting -= 1

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.lock.release()

    @property
    def closing(self) -> bool:
        """Whether it is about to be closed; from then on nobody works on it or attaches to it."""
        return self.ended is not None

    def touch(self) -> None:
        """Note that the client has asked for something."""
        self.last_active = self._now()
        self.stayed_s = 0.0

    @property
    def idle_s(self) -> float:
        """Seconds since the client last asked for something."""
        return self._now() - self.last_active


class SessionRegistry:
    """All sessions. A session holds its slot from `open` to `close`."""

    def __init__(
        self, make: Callable[[PoolScope], AwmSession], settings: Settings, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._make = make
        self._settings = settings
        self._now = now
        self.agents: AgentTokens[Session] = AgentTokens()
        """Tokens of the running episodes' agents."""
        self._sessions: dict[str, Session] = {}
        self._ending: set[asyncio.Future[None]] = set()

    def __len__(self) -> int:
        return len(self._sessions)

    def __iter__(self) -> Iterator[Session]:
        return iter(list(self._sessions.values()))

    @property
    def capacity(self) -> int:
        """The most sessions at a time."""
        return self._settings.max_concurrent_envs

    def counts(self) -> dict[str, int]:
        """How full it is, as errors of capacity tell."""
        return {"active_sessions": len(self), "max_sessions": self.capacity}

    def open(self, scope: PoolScope = ANYONE) -> Session:
        """A new session of a client with this scope.

        Raises:
            CapacityError: every slot is taken.
        """
        if len(self._sessions) >= self.capacity:
            raise CapacityError(
                f"all {self.capacity} sessions are taken; close one, or raise MAX_CONCURRENT_ENVS on the server"
            )
        session = Session(self._make(scope), self._now, scope)
        session.awm.door = AgentDoor(self.agents, session)
        self._sessions[session.id] = session
        return session

    async def admit(self, scope: PoolScope = ANYONE) -> Session:
        """A new session; where every slot is taken but some are about to be free, after waiting for those.

        A client's closing handshake is over before its sandbox is gone. It may connect again at once.

        Raises:
            CapacityError: every slot is taken.
        """
        while len(self._sessions) >= self.capacity and self._ending:
            await asyncio.wait(self._ending, return_when=asyncio.FIRST_COMPLETED)
        return self.open(scope)

    def get(self, session_id: str, scope: PoolScope = ANYONE) -> Session:
        """The session of that id, which a client with this scope opened.

        Raises:
            SessionError: there is none, or it is being closed.
        """
        session = self._sessions.get(session_id)
        if session is None or session.scope != scope:
            raise SessionError(f"no session {session_id[:80]!r}; create one with openenv/session/create")
        refuse_closing(session)
        return session

    def attach(self, session_id: str, scope: PoolScope = ANYONE) -> Session:
        """The session of that id, for a WebSocket of the same holder to serve.

        Raises:
            SessionError: there is none, it is being closed, or another WebSocket serves it.
        """
        session = self.get(session_id, scope)
        if session.attached:
            raise SessionError(f"session {session_id[:80]!r} has a WebSocket already; close that one first")
        session.attached = True
        session.touch()
        return session

    async def detach(self, session: Session) -> None:
        """The WebSocket has gone; the session stays unless its closing was asked for."""
        session.attached = False
        session.touch()
        if session.close_when_detached:
            await self.close(session, TerminalReason.CLOSED)

    def leaving(self, session: Session) -> "asyncio.Future[None]":
        """Note that a session is about to be closed, so that its slot is worth waiting for; its agent is shut out."""
        if session.ended is None:
            if session.awm.door is not None:
                session.awm.door.shut()
            session.ended = asyncio.get_running_loop().create_future()
            self._ending.add(session.ended)
        return session.ended

    async def close(self, session: Session, reason: TerminalReason, detail: str = "") -> None:
        """End a session and give its slot back. Idempotent. `detail` is why, in words."""
        ended = self.leaving(session)
        try:
            async with session:
                try:
                    await session.awm.end(reason, detail)
                finally:
                    # the slot is given back last, so that capacity counts what still uses memory
                    self._sessions.pop(session.id, None)
        finally:
            self._ending.discard(ended)
            if not ended.done():
                ended.set_result(None)

    async def close_all(self, reason: TerminalReason) -> None:
        """End every session; what one of them raises is logged and keeps no other from ending."""
        sessions = list(self._sessions.values())
        ends = await asyncio.gather(*(self.close(session, reason) for session in sessions), return_exceptions=True)
        for session, end in zip(sessions, ends, strict=True):
            if isinstance(end, BaseException):
                _LOG.error("session %s did not end as it should", session.id, exc_info=end)

    def stats(self, scope: PoolScope = ANYONE) -> JsonObject:
        """What `/stats` shows: the sessions with a running episode; by scenario only those that `scope` may see."""
        running = [session for session in self._sessions.values() if session.awm.scenario is not None]
        return {
            "total_sessions": len(running),
            "max_idle_time_config": self._settings.max_idle_time_s,
            "cleanup_interval_config": self._settings.cleanup_interval_s,
            "allowed_idle_sessions_config": self._settings.allowed_idle_sessions,
            "max_idle_s": round(max((session.idle_s for session in running), default=0), 1),
            "scenarios": dict(Counter(one.awm.scenario for one in running if one.scope.pools <= scope.pools)),
        }

    async def reap(self) -> int:
        """End idle episodes when there are more than allowed, and close detached sessions; how many that were."""
        settings = self._settings
        sessions = [session for session in self._sessions.values() if not session.lock.locked()]
        running = [session for session in self._sessions.values() if session.awm.scenario is not None]
        reaped = 0
        for session in sessions:
            if not session.attached and session.idle_s > settings.detached_timeout_s:
                await self.close(session, TerminalReason.IDLE, "idle and without a WebSocket")
                reaped += 1
            elif (
                len(running) > settings.allowed_idle_sessions
                and session.awm.scenario is not None
                and session.idle_s > settings.max_idle_time_s
            ):
                async with session:
                    if session.idle_s <= settings.max_idle_time_s:
                        continue  # it was at work while others were ended
                    why = f"idle for more than {settings.max_idle_time_s:g} s"
                    await session.awm.end(TerminalReason.IDLE, why)
                reaped += 1
        return reaped

    async def keep_reaping(self) -> None:
        """Reap at every cleanup interval, until cancelled."""
        while True:
            await asyncio.sleep(self._settings.cleanup_interval_s)
            try:
                if reaped := await self.reap():
                    _LOG.info("%d idle sessions were ended", reaped)
            except QuintainError as error:
                _LOG.error("an idle session could not be ended: %s", error)


def refuse_closing(session: Session) -> None:
    """Refuse to work on a session that is about to be closed.

    Raises:
        SessionError: it is.
    """
    if session.closing:
        raise SessionError(f"session {session.id!r} is being closed; create another with openenv/session/create")
