"""Fixtures shared by all tests: the runtimes' cache, and the toy world."""

import os
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import hypothesis
import pytest

import live as live_server
from e2e.preloaded import Preloaded, shared
from quintain.sandboxes.inprocess import InProcessProvider
from toy import ToyWorld

# Hundreds of short processes are started; where an image forbids bytecode, each would compile all of the source again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

hypothesis.settings.register_profile("quintain", deadline=None)  # how long an example takes is the machine's business
hypothesis.settings.load_profile("quintain")


@pytest.fixture(scope="session")
def runtime_cache() -> Path:
    """Where class runtimes are built; kept between runs, since building one takes seconds."""
    return Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "quintain-tests" / "runtimes"


@pytest.fixture(scope="session")
def preloaded() -> Preloaded:
    """What the commands of this worker are forked from."""
    return shared()


@pytest.fixture
def make_world(tmp_path: Path) -> Callable[..., ToyWorld]:
    """A toy world over a provider that the caller closes."""
    return lambda **options: ToyWorld(tmp_path, InProcessProvider(tmp_path / "instances"), **options)


@pytest.fixture
def open_world(make_world: Callable[..., ToyWorld]) -> Callable[..., Any]:
    """`async with open_world() as world`: a toy world that is closed again and must have left nothing."""

    @asynccontextmanager
    async def opened(**options: Any) -> AsyncIterator[ToyWorld]:
        world = make_world(**options)
        try:
            yield world
        finally:
            await world.provider.close()
        assert world.leftovers == []

    return opened


@pytest.fixture
def serving(
    make_world: Callable[..., ToyWorld], tmp_path: Path
) -> Callable[..., AbstractContextManager[live_server.Live]]:
    """`with serving(max_concurrent_envs=1) as live`: a server on loopback; its settings as keywords."""
    return lambda **options: live_server.serving(make_world(), tmp_path / "kept", **options)


@pytest.fixture
def live(serving: Callable[..., AbstractContextManager[live_server.Live]]) -> Iterator[live_server.Live]:
    """A server with default settings."""
    with serving() as running:
        yield running
