"""Workspaces in sandboxes, for tests: one provider for each module."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from quintain.artifacts import LocalArtifactStore
from quintain.environments.base import ToolOutcome
from quintain.environments.workspace import WorkspaceKind, workspace_class
from quintain.environments.workspace.environment import WorkspaceEnvironment
from quintain.environments.workspace.sandbox import LIMITS
from quintain.sandboxes.cgroups import GroupLimits
from quintain.sandboxes.fork import ForkProvider
from quintain.sandboxes.runtime import choose_interpreter

JsonObject = dict[str, Any]
SMALL = replace(LIMITS, memory_bytes=256 * 2**20, disk_bytes=32 * 2**20, pids=24)


def payload(files: dict[str, Any], **document: Any) -> JsonObject:
    """A payload as a pack gives it; files of the tree by their path."""
    environment = {"kind": "workspace", **document}
    epoch = "2026-02-10T00:00:00Z"
    return {"scenario": "bench", "kind": "workspace", "epoch": epoch, "environment": environment, "files": files}


@dataclass
class Player:
    """One episode."""

    environment: WorkspaceEnvironment
    root: Path
    copies: list[Path] = field(default_factory=list)

    async def call(self, name: str, /, **arguments: Any) -> ToolOutcome:
        """One call, which is never the platform's failure."""
        outcome = await self.environment.call(name, arguments, 60.0)
        assert outcome.status not in ("server_error", "timeout"), outcome
        return outcome

    async def text(self, name: str, /, **arguments: Any) -> str:
        """The result of a call that must succeed."""
        outcome = await self.call(name, **arguments)
        assert outcome.status == "ok", outcome
        return outcome.text or ""

    async def error(self, name: str, /, **arguments: Any) -> str:
        """What a call says that the agent did wrong."""
        outcome = await self.call(name, **arguments)
        assert (outcome.status, outcome.owner) == ("tool_error", "agent"), outcome
        return outcome.error or ""

    async def bash(self, command: str) -> str:
        """What a command prints, which must end with status 0."""
        text = await self.text("bash", command=command)
        assert text.endswith("[exit status 0]"), text
        return text.removesuffix("[exit status 0]")

    async def others(self) -> int:
        """How many processes there are beside the sandbox's first and those of the question itself."""
        code = "import os; print(sum(name.isdigit() for name in os.listdir('/proc')) - 2)"
        return int((await self.text("python", code=code)).split()[0])

    async def snapshot(self) -> Path:
        """The state's file as it is now."""
        folder = self.root / f"copy{len(self.copies)}"
        folder.mkdir(parents=True)
        self.copies.append(folder)
        (file,) = await self.environment.snapshot(folder)
        assert (file.name, list(folder.iterdir())) == ("tree.tar", [file.path])
        return file.path


@dataclass
class Workshop:
    """A kind, and what its episodes are kept in."""

    kind: WorkspaceKind
    provider: ForkProvider
    store: LocalArtifactStore
    scratch: Path
    digests: dict[str, int] = field(default_factory=dict)

    @asynccontextmanager
    async def playing(
        self, files: dict[str, Any], root: Path, start: JsonObject | None = None, **document: Any
    ) -> AsyncIterator[Player]:
        """An episode that is closed again and must have left nothing."""
        given = payload({f"tree/{path}": content for path, content in files.items()}, **document)
        ready = await self.kind.prepare(repr(given), lambda: given)
        environment = ready.environment()
        await environment.reset(0, start)
        try:
            yield Player(environment, root)
        finally:
            await environment.close()
        assert list(self.scratch.iterdir()) == []


@pytest.fixture(scope="module")
def open_workshop(
    runtime_cache: Path, tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., AbstractAsyncContextManager[Workshop]]:
    """`async with open_workshop(limits) as workshop`."""

    @asynccontextmanager
    async def opened(limits: Any = None, cache: Path = runtime_cache) -> AsyncIterator[Workshop]:
        root = tmp_path_factory.mktemp("workshop")
        scratch = root / "scratch"
        scratch.mkdir()
        interpreter = choose_interpreter()
        provider = ForkProvider(cache, interpreter, group_limits=GroupLimits(8 * 2**30, 4096))
        store = LocalArtifactStore(root / "artifacts")
        try:
            kind = WorkspaceKind(provider, workspace_class(limits), store, interpreter, scratch=scratch)
            yield Workshop(kind, provider, store, scratch)
        finally:
            await provider.close()

    return opened


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def workshop(
    open_workshop: Callable[..., AbstractAsyncContextManager[Workshop]],
) -> AsyncIterator[Workshop]:
    """Workspaces with their usual limits."""
    async with open_workshop() as opened:
        yield opened
