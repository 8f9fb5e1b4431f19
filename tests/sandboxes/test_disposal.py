"""Sandboxes on their way out: nobody waits for them, but for those over the bound, and a failure stops nobody."""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from quintain.errors import SandboxError
from quintain.sandboxes.base import StateFile
from quintain.sandboxes.disposal import Disposal


class Lingering:
    """A sandbox that ends when it is told to."""

    alive = True
    segments: Mapping[str, float] = {}

    def __init__(self, failure: Exception | None = None) -> None:
        self.may_end = asyncio.Event()
        self.ended = False
        self._failure = failure

    async def call(self, request: dict[str, Any], timeout_s: float) -> dict[str, Any]:
        return {}

    async def snapshot(self, names: Sequence[str], into: Path) -> list[StateFile]:
        return []

    async def destroy(self) -> None:
        if self._failure is not None:
            raise self._failure
        await self.may_end.wait()
        self.ended = True


async def test_nobody_waits_within_the_bound_and_one_more_does() -> None:
    disposal, sandboxes = Disposal(2), [Lingering() for _ in range(3)]
    async with asyncio.timeout(20):
        await disposal.dispose(sandboxes[0])
        await disposal.dispose(sandboxes[1])
    third = asyncio.create_task(disposal.dispose(sandboxes[2]))
    await asyncio.sleep(0.05)
    assert not third.done()
    sandboxes[0].may_end.set()
    async with asyncio.timeout(20):
        await third
    for sandbox in sandboxes:
        sandbox.may_end.set()
    await disposal.drain()
    assert all(sandbox.ended for sandbox in sandboxes)


async def test_without_a_bound_the_caller_waits() -> None:
    disposal, sandbox = Disposal(), Lingering()
    waiting = asyncio.create_task(disposal.dispose(sandbox))
    await asyncio.sleep(0.05)
    assert not waiting.done()
    sandbox.may_end.set()
    await waiting
    assert sandbox.ended


async def test_a_failure_is_logged_and_gives_its_place_back(caplog: pytest.LogCaptureFixture) -> None:
    disposal = Disposal(1)
    for _ in range(3):
        async with asyncio.timeout(20):
            await disposal.dispose(Lingering(SandboxError("it would not go")))
    await disposal.drain()
    assert caplog.text.count("it would not go") == 3
