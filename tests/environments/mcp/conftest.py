"""MCP servers in sandboxes, for tests: one provider for each module."""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from quintain.contracts.identity import digest_of
from quintain.environments.base import EpisodeClass, ToolOutcome
from quintain.environments.mcp import McpEnvironment, McpKind
from quintain.sandboxes.fork import ForkProvider

JsonObject = dict[str, Any]
Make = Callable[..., AbstractAsyncContextManager["Player"]]

CLASS = EpisodeClass(environment_class="mcp-v1", dependency_lock="cas://none", runtime="tests", policy="cas://none")


class Player:
    """One episode."""

    def __init__(self, environment: McpEnvironment, root: Path) -> None:
        self.environment = environment
        self._root = root

    async def call(self, name: str, timeout_s: float = 60.0, /, **arguments: Any) -> ToolOutcome:
        """One call."""
        return await self.environment.call(name, arguments, timeout_s)

    async def text(self, name: str, /, **arguments: Any) -> str:
        """The result of a call that must succeed."""
        outcome = await self.call(name, **arguments)
        assert outcome.status == "ok", outcome
        return outcome.text or ""

    async def state(self) -> JsonObject:
        """The state as it is now."""
        (file,) = await self.environment.snapshot(self._root)
        return dict(json.loads(file.path.read_bytes()))


def payload(files: dict[str, str], **document: Any) -> JsonObject:
    """A payload as a pack gives it."""
    return {
        "scenario": "bench",
        "kind": "mcp",
        "epoch": "2026-02-10T00:00:00Z",
        "files": files,
        "environment": {"kind": "mcp", "command": ["python", "server.py"], **document},
    }


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def kind(runtime_cache: Path, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[McpKind]:
    """The kind on this host."""
    provider = ForkProvider(runtime_cache)
    try:
        yield McpKind(provider, CLASS, scratch=tmp_path_factory.mktemp("scratch"))
    finally:
        await provider.close()


@pytest.fixture
def playing(kind: McpKind, tmp_path: Path) -> Make:
    """`async with playing(code, start, seed=0, env={...}) as player`: an episode of a server."""

    @asynccontextmanager
    async def played(
        code: str,
        start: JsonObject | None = None,
        *,
        seed: int = 0,
        files: dict[str, str] | None = None,
        **document: Any,
    ) -> AsyncIterator[Player]:
        one = payload({"server.py": code, **(files or {})}, **document)
        environment = (await kind.prepare(digest_of(one), lambda: one)).environment()
        try:
            await environment.reset(seed, start)
            yield Player(environment, tmp_path)
        finally:
            await environment.close()

    return played
