"""Idle episodes and detached sessions."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from quintain.contracts.terminal import TerminalReason
from quintain.errors import CapacityError
from quintain.server.awm import AwmSession
from quintain.server.sessions import SessionError, SessionRegistry
from quintain.server.settings import Settings

pytestmark = pytest.mark.asyncio


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def registry(world: Any, tmp_path: Path, clock: Clock, **options: Any) -> SessionRegistry:
    settings = Settings(**options)
    return SessionRegistry(
        lambda _scope: AwmSession(world.rooms, call_timeout_s=5.0, keep_dir=tmp_path), settings, clock
    )


async def test_idle_episodes_end_only_while_there_are_more_than_allowed(
    open_world: Callable[..., Any], tmp_path: Path
) -> None:
    async with open_world() as world:
        clock = Clock()
        sessions = registry(world, tmp_path, clock, max_idle_time_s=10.0, allowed_idle_sessions=1)
        idle, busy = sessions.open(), sessions.open()
        idle.attached = busy.attached = True
        await idle.awm.reset({"scenario": "toy_notes_1"})
        clock.now = 11.0
        assert await sessions.reap() == 0
        await busy.awm.reset({"scenario": "toy_notes_1"})
        busy.touch()
        assert await sessions.reap() == 1
        assert (idle.awm.scenario, busy.awm.scenario) == (None, "toy_notes_1")
        assert len(sessions) == 2
        assert world.provider.live == 1
        told = (await idle.awm.reset({})).envelope()["observation"]
        assert told["reward_type"] == "reset_error"
        await sessions.close_all(TerminalReason.SERVER_SHUTDOWN)
        assert (len(sessions), world.provider.live) == (0, 0)


async def test_a_client_whose_idle_episode_was_ended_is_told_so(open_world: Callable[..., Any], tmp_path: Path) -> None:
    from quintain.contracts.tools import CallToolAction

    async with open_world() as world:
        clock = Clock()
        sessions = registry(world, tmp_path, clock, max_idle_time_s=10.0, allowed_idle_sessions=0)
        session = sessions.open()
        session.attached = True
        await session.awm.reset({"scenario": "toy_notes_1"})
        clock.now = 10.0
        assert await sessions.reap() == 0
        clock.now = 10.1
        assert await sessions.reap() == 1
        answer = (await session.awm.step(CallToolAction(tool_name="list_notes"))).envelope()
        assert answer["observation"]["reward_type"] == "server_error"
        assert "idle for more than 10 s" in answer["observation"]["error"]


async def test_a_session_at_work_is_not_idle(open_world: Callable[..., Any], tmp_path: Path) -> None:
    async with open_world() as world:
        clock = Clock()
        sessions = registry(world, tmp_path, clock, max_idle_time_s=1.0, allowed_idle_sessions=0)
        session = sessions.open()
        await session.awm.reset({"scenario": "toy_notes_1"})
        clock.now = 10_000.0
        async with session.lock:
            assert await sessions.reap() == 0
        assert session.awm.scenario is not None
        await sessions.close_all(TerminalReason.SERVER_SHUTDOWN)


async def test_sessions_nobody_is_attached_to_are_closed(open_world: Callable[..., Any], tmp_path: Path) -> None:
    async with open_world() as world:
        clock = Clock()
        sessions = registry(world, tmp_path, clock, detached_timeout_s=30.0)
        detached, attached = sessions.open(), sessions.open()
        sessions.attach(attached.id)
        clock.now = 31.0
        assert await sessions.reap() == 1
        with pytest.raises(SessionError):
            sessions.get(detached.id)
        assert sessions.get(attached.id) is attached


async def test_capacity(open_world: Callable[..., Any], tmp_path: Path) -> None:
    async with open_world() as world:
        sessions = registry(world, tmp_path, Clock(), max_concurrent_envs=1)
        session = sessions.open()
        with pytest.raises(CapacityError, match="MAX_CONCURRENT_ENVS"):
            sessions.open()
        await asyncio.gather(sessions.close(session, TerminalReason.CLOSED), sessions.close(session, "end"))
        sessions.open()


async def test_one_session_that_cannot_end_keeps_no_other_from_ending(
    open_world: Callable[..., Any], tmp_path: Path
) -> None:
    class Stuck(AwmSession):
        async def end(self, reason: str) -> None:
            raise RuntimeError(f"cannot end: {reason}")

    async with open_world() as world:
        sessions = registry(world, tmp_path, Clock())
        stuck = sessions.open()
        stuck.awm = Stuck(world.rooms, call_timeout_s=5.0, keep_dir=tmp_path)
        other = sessions.open()
        await other.awm.reset({"scenario": "toy_notes_1"})
        await sessions.close_all(TerminalReason.SERVER_SHUTDOWN)
        assert (len(sessions), world.provider.live) == (0, 0)
