"""A provider over the in-process one whose snapshots can be held up or made to fail, and whose claims be refused."""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from quintain.errors import SandboxError
from quintain.sandboxes.base import StateFile
from quintain.sandboxes.inprocess import InProcessProvider, InProcessSandbox


class GatedProvider(InProcessProvider):
    """Every snapshot passes `gate`; `copying` is set once one has come to it."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.gate = asyncio.Event()
        self.gate.set()
        self.copying = asyncio.Event()
        self.at_once = self.most_at_once = 0
        self.full_disk = False
        self.no_room = False

    async def claim(self, *args: Any, **kwargs: Any) -> Any:
        if self.no_room:
            raise SandboxError("no room for another process")
        return GatedSandbox(await super().claim(*args, **kwargs), self)


class GatedSandbox:
    """One instance."""

    def __init__(self, inner: InProcessSandbox, provider: GatedProvider) -> None:
        self._inner = inner
        self._provider = provider

    @property
    def alive(self) -> bool:
        return self._inner.alive

    @property
    def segments(self) -> Mapping[str, float]:
        return self._inner.segments

    @property
    def stood_by(self) -> bool:
        return self._inner.stood_by

    async def call(self, request: dict[str, Any], timeout_s: float) -> dict[str, Any]:
        return await self._inner.call(request, timeout_s)

    async def snapshot(self, names: Sequence[str], into: Path) -> list[StateFile]:
        provider = self._provider
        provider.at_once += 1
        provider.most_at_once = max(provider.most_at_once, provider.at_once)
        provider.copying.set()
        try:
            await provider.gate.wait()
            if provider.full_disk:
                raise OSError(28, "No space left on device", str(into))
            return await self._inner.snapshot(names, into)
        finally:
            provider.at_once -= 1

    async def destroy(self) -> None:
        await self._inner.destroy()
