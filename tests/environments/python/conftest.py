"""Python environments in real sandboxes: one provider for all tests of a module."""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from quintain.contracts.identity import digest_of
from quintain.environments.base import EpisodeClass, ToolOutcome
from quintain.environments.python import PythonEnvironment, PythonKind
from quintain.environments.python.kind import ReadyPython
from quintain.sandboxes.fork import ForkProvider

JsonObject = dict[str, Any]
Make = Callable[..., AbstractAsyncContextManager["Player"]]

CLASS = EpisodeClass(environment_class="python-v1", dependency_lock="cas://none", runtime="tests", policy="cas://none")
EPOCH = "2026-02-10T00:00:00Z"


class Player:
    """One episode."""

    def __init__(self, environment: PythonEnvironment, root: Path) -> None:
        self.environment = environment
        self._root = root

    async def call(self, name: str, timeout_s: float = 30.0, /, **arguments: Any) -> ToolOutcome:
        """One call."""
        return await self.environment.call(name, arguments, timeout_s)

    async def text(self, name: str, /, **arguments: Any) -> str:
        """The result of a call that must succeed."""
        outcome = await self.call(name, **arguments)
        assert outcome.status == "ok", outcome
        return outcome.text or ""

    async def file(self) -> bytes:
        """The state's file as it is now."""
        (file,) = await self.environment.snapshot(self._root)
        return file.path.read_bytes()

    async def state(self) -> JsonObject:
        """The state as it is now."""
        return dict(json.loads(await self.file()))


def payload(code: str | dict[str, str], document: JsonObject) -> JsonObject:
    """A payload as a pack gives it; `code` is app.py, or all files."""
    files = {"app.py": code} if isinstance(code, str) else code
    return {"scenario": "tried", "kind": "python", "epoch": EPOCH, "files": files,
            "environment": {"kind": "python", **document}}  # fmt: skip


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def kind(runtime_cache: Path, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[PythonKind]:
    """The kind on this host."""
    provider = ForkProvider(runtime_cache, warm_after=3)
    try:
        yield PythonKind(provider, CLASS, scratch=tmp_path_factory.mktemp("scratch"))
    finally:
        await provider.close()


@pytest.fixture
def prepare(kind: PythonKind) -> Callable[..., Any]:
    """`await prepare(code, entry="app:Desk")`: the code made ready."""

    async def prepared(code: str | dict[str, str], **document: Any) -> ReadyPython:
        one = payload(code, document)
        return await kind.prepare(digest_of(one), lambda: one)

    return prepared


@pytest.fixture
def playing(prepare: Callable[..., Any], tmp_path: Path) -> Make:
    """`async with playing(code, start, seed=0, entry="app:Desk") as player`: an episode."""

    @asynccontextmanager
    async def played(
        code: str | dict[str, str], start: JsonObject | None = None, *, seed: int = 0, **document: Any
    ) -> AsyncIterator[Player]:
        environment = (await prepare(code, **document)).environment()
        try:
            await environment.reset(seed, start)
            yield Player(environment, tmp_path)
        finally:
            await environment.close()

    return played
