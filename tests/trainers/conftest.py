"""The toy world as a trainer has it: on a server, and in the trainer's own process."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest

import live as live_server
from quintain.trainers.base import OpenPlatform, Platform
from quintain.trainers.local import playing_in
from quintain.trainers.remote import ServerPlatform
from toy import ToyWorld


@dataclass(frozen=True)
class Here:
    """A toy world's rooms, which its test closes."""

    world: ToyWorld

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[OpenPlatform]:
        try:
            async with playing_in(self.world.rooms) as local:
                yield local
        finally:
            await self.world.provider.close()


@dataclass(frozen=True)
class Arena:
    """Where a test plays, and the world behind it."""

    platform: Platform
    world: Any
    remote: bool


@pytest.fixture(params=["server", "local"])
def arena(
    request: pytest.FixtureRequest,
    make_world: Callable[..., ToyWorld],
    serving: Callable[..., AbstractContextManager[live_server.Live]],
) -> Iterator[Arena]:
    """Both platforms over the same world; neither may leave an instance or a file."""
    if request.param == "server":
        with serving() as live:
            yield Arena(ServerPlatform(live.url), live.world, True)
        return
    world = make_world()
    yield Arena(Here(world), world, False)
    assert world.provider.live == 0
    assert world.leftovers == []
