"""One episode in a workspace, platform half: what is called, when, with what; the tree goes in and comes out as a tar.

Its other half is the kind that runs inside (`environments/workspace_kind`); what that answers is untrusted, and so is
the tree.
"""

import asyncio
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from quintain.contracts.tools import Tool
from quintain.environments.base import Hibernation, ToolOutcome, ToolStatus
from quintain.environments.inprocess.schemas import ArgumentCheck
from quintain.environments.workspace.answers import failure, outcome_of
from quintain.environments.workspace.tools import DEFAULT_SECONDS, MAX_ARGUMENTS, TOOLS
from quintain.environments.workspace.trees import STATE
from quintain.errors import (
    ArtifactError,
    CallTimeout,
    Owner,
    QuintainError,
    ResultTooLarge,
    SandboxError,
    SandboxLost,
)
from quintain.sandboxes.base import PacksTrees, Sandbox, StateFile

if TYPE_CHECKING:
    from quintain.environments.workspace.kind import ReadyWorkspace, WorkspaceKind

JsonObject = dict[str, Any]

BASE: Final = "base.tar"
FOLDER: Final = "workspace"
"""The tree's folder in the state directory."""

_GRACE_S = 10.0
_REST_TIMEOUT_S = 10.0


@lru_cache(maxsize=1)
def _checks() -> Mapping[str, ArgumentCheck]:
    """Of each tool's arguments; made when one is called, since JSON Schema takes a while to import."""
    return {tool.name: ArgumentCheck(tool, MAX_ARGUMENTS) for tool in TOOLS}


class WorkspaceEnvironment:
    """One episode; see `Environment`."""

    def __init__(self, kind: "WorkspaceKind", ready: "ReadyWorkspace") -> None:
        self._kind = kind
        self._ready = ready
        self._tree = ready.tree
        self._sandbox: Sandbox | None = None
        self._resting: Path | None = None
        self._calls = 0
        self._end: str | None = None
        """How the sandbox ended, until a call has said so; None while nothing was lost."""

    @property
    def tools(self) -> Sequence[Tool]:
        """The tools of every workspace."""
        return TOOLS

    @property
    def start_kind(self) -> str:
        """template_fork, or warm_claim of a process that stood by."""
        return "warm_claim" if self._sandbox is not None and self._sandbox.stood_by else "template_fork"

    @property
    def segments(self) -> Mapping[str, float]:
        """Milliseconds of each part of the claim."""
        return dict(self._sandbox.segments) if self._sandbox is not None else {}

    @property
    def initial(self) -> Sequence[StateFile]:
        """The tar of the initial tree, as the task varies it once the environment was reset."""
        return [self._tree.file]

    @property
    def done(self) -> bool:
        """A workspace is there for as long as it is used."""
        return False

    @property
    def hibernated(self) -> bool:
        """Whether it is only files now, with no process."""
        return self._resting is not None

    async def reset(self, seed: int, start: JsonObject | None = None) -> None:
        """Claim a sandbox with the tree in it; see `Environment.reset`.

        Args:
            seed: of the episode; the tree does not depend on it beyond what `start` says.
            start: `{"files": {path: text}, "remove": [paths]}`.
        """
        if self._sandbox is not None:
            raise SandboxError("this environment was reset before; make a new one for a new episode")
        if start is not None:
            scenario = self._ready.payload.scenario
            self._tree = await asyncio.to_thread(self._kind.trees.varied, scenario, self._tree, start)
        self._sandbox = await self._claimed([self._tree.file])

    async def call(self, name: str, arguments: JsonObject, timeout_s: float) -> ToolOutcome:
        """Call a tool; see `Environment.call`."""
        started = time.perf_counter()
        self._calls += 1
        check = _checks().get(name)
        if check is None:
            words = f"no tool is called {name[:200]!r}; list the tools to see which are"
            outcome = failure(ToolStatus.TOOL_NOT_FOUND, words)
        elif problem := check.problem(arguments):
            outcome = failure(ToolStatus.INVALID_ARGS, f"arguments of {name} were refused: {problem}")
        else:
            outcome = await self._dispatch(name, check.typed(arguments), timeout_s)
        return outcome.model_copy(update={"duration_ms": (time.perf_counter() - started) * 1000})

    async def snapshot(self, into: Path) -> list[StateFile]:
        """What differs from the initial tree, as a tar; works hibernated and after the sandbox's death."""
        target = into / STATE
        if self._resting is not None:
            await asyncio.to_thread(shutil.copyfile, self._resting / STATE, target)
        elif self._sandbox is None:
            raise SandboxLost("the environment has no instance; reset it first")
        else:
            await packer(self._sandbox).pack(FOLDER, target, self._tree.base)
        return [StateFile(STATE, target)]

    async def hibernate(self, unwanted: Callable[[], bool] = lambda: False) -> Hibernation:
        """Give the processes back and keep what changed as a file, if nothing runs and /tmp is empty."""
        sandbox = self._sandbox
        if sandbox is None:
            return Hibernation(done=False, why="there is no process")
        if sandbox.alive:
            try:
                answer = await sandbox.call({"op": "rest"}, _REST_TIMEOUT_S)
            except SandboxError:
                self._end = "ended between two calls"
            else:
                if answer.get("rest") is not True:
                    return Hibernation(done=False, why=str(answer.get("why", "it gave no reason"))[:500])
        folder = Path(tempfile.mkdtemp(prefix="quintain_resting_", dir=self._kind.scratch))
        try:
            await self.snapshot(folder)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        if unwanted():
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
            return Hibernation(done=False, why="it was called meanwhile")
        self._sandbox, self._resting = None, folder
        await self._kind.disposal.dispose(sandbox)
        return Hibernation(done=True)

    async def close(self) -> None:
        """Destroy the sandbox, and the file of a hibernated one. Idempotent."""
        sandbox, self._sandbox = self._sandbox, None
        resting, self._resting = self._resting, None
        if resting is not None:
            await asyncio.to_thread(shutil.rmtree, resting, ignore_errors=True)
        if sandbox is not None:
            await self._kind.disposal.dispose(sandbox)

    async def _dispatch(self, name: str, arguments: JsonObject, timeout_s: float) -> ToolOutcome:
        warning = None
        if self._sandbox is None or not self._sandbox.alive:
            try:
                async with asyncio.timeout(self._kind.restart_timeout_s):
                    warning = await self._restarted()
            except (SandboxError, ArtifactError, TimeoutError, OSError) as error:
                owner = error.owner if isinstance(error, QuintainError) else Owner.INFRASTRUCTURE
                words = f"the workspace's sandbox has ended and no new one could be started: {error}; reset the episode"
                return failure(ToolStatus.SERVER_ERROR, words, owner=owner)
        assert self._sandbox is not None
        limit = min(timeout_s, arguments.get("timeout_s", DEFAULT_SECONDS))
        request = {"op": "tool", "name": name, "arguments": arguments, "index": self._calls, "timeout_s": limit}
        try:
            # inside, a command is stopped at its limit; only a sandbox that hangs is stopped from here
            answer = await self._sandbox.call(request, limit + _GRACE_S if name != "search" else timeout_s + _GRACE_S)
        except CallTimeout:
            self._end = "been stopped after a timeout"
            outcome = failure(ToolStatus.TIMEOUT, f"{name} did not answer in time; {_NEXT}")
        except SandboxLost:
            self._end = "ended without answering"
            outcome = failure(ToolStatus.SERVER_ERROR, f"the sandbox ended during {name}; {_NEXT}")
        except ResultTooLarge:
            self._end = "been stopped after a result over the size limit"
            outcome = failure(ToolStatus.TOOL_ERROR, f"the result of {name} is too large; ask for less")
        else:
            outcome = outcome_of(name, answer)
        return outcome.model_copy(update={"warning": warning}) if warning else outcome

    async def _restarted(self) -> str | None:
        """A new sandbox on the tree as it is; what to tell of it, None for one that only slept."""
        if self._sandbox is None and self._resting is None:
            raise SandboxLost("the environment has no instance; reset it first")
        with tempfile.TemporaryDirectory(prefix="quintain_state_", dir=self._kind.scratch) as directory:
            state = await self.snapshot(Path(directory))
            fresh = await self._claimed([StateFile(BASE, self._tree.path), *state])
        ended, self._sandbox = self._sandbox, fresh
        resting, self._resting = self._resting, None
        if ended is not None:
            await self._kind.disposal.dispose(ended)
        if resting is not None:
            await asyncio.to_thread(shutil.rmtree, resting, ignore_errors=True)
        end, self._end = self._end, None
        if end is None and ended is None:
            return None
        return (
            f"the workspace's sandbox had {end or 'ended'} in an earlier call; this call ran in a new one, on the tree "
            "as it was; background jobs and /tmp are gone"
        )

    async def _claimed(self, state: Sequence[StateFile]) -> Sandbox:
        return await self._kind.claim(state, {"epoch": self._ready.epoch})


_NEXT = "the next call starts a new sandbox on the tree as it is; background jobs and /tmp are gone"


def packer(sandbox: Sandbox) -> PacksTrees:
    """A sandbox as one that keeps folders. Raises SandboxError where it does not."""
    if not isinstance(sandbox, PacksTrees):
        raise SandboxError("this provider's sandboxes keep no folders; workspaces need one that does")
    return sandbox
