"""What environments share whose state is in a process: it lives as long as the episode, and tells its state."""

import asyncio
import shutil
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from quintain.environments.base import Hibernation, ToolOutcome
from quintain.environments.inprocess.machine import STATE
from quintain.errors import SandboxLost
from quintain.sandboxes.base import Sandbox, StateFile
from quintain.sandboxes.disposal import Disposal

JsonObject = dict[str, Any]


class ResidentEnvironment(ABC):
    """One episode in one process; see `Environment`. Once the process is lost the episode ends."""

    def __init__(self, disposal: Disposal, scratch: Path | None) -> None:
        """`scratch` is where the initial state is written when asked for."""
        self._disposal = disposal
        self._scratch = scratch
        self._sandbox: Sandbox | None = None
        self._initial: bytes | None = None
        self._state = ""
        """The state after the last finished call, as the sandbox told it: JSON, if it is honest."""
        self._lost: str | None = None
        """How the process ended, if it did."""
        self._folder: Path | None = None

    @property
    def segments(self) -> Mapping[str, float]:
        """Milliseconds of each part of the claim."""
        return dict(self._sandbox.segments) if self._sandbox is not None else {}

    @property
    def initial(self) -> Sequence[StateFile]:
        """The file of the initial state, written when it is first asked for and removed at the end."""
        if self._initial is None:
            return []
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="quintain_initial_", dir=self._scratch))
            (self._folder / STATE).write_bytes(self._initial)
        return [StateFile(STATE, self._folder / STATE)]

    @property
    def hibernated(self) -> bool:
        """Never: what it remembers is in its process."""
        return False

    async def call(self, name: str, arguments: JsonObject, timeout_s: float) -> ToolOutcome:
        """Call a tool; see `Environment.call`."""
        began = time.perf_counter()
        outcome = await self._called(name, arguments, timeout_s)
        return outcome.model_copy(update={"duration_ms": (time.perf_counter() - began) * 1000})

    async def snapshot(self, into: Path) -> list[StateFile]:
        """Write the state after the last finished call; works after the process's death.

        Raises:
            SandboxLost: there is none yet.
            TemplateError: what was told is no JSON object.
        """
        if self._initial is None:
            raise SandboxLost("the environment has no state; reset it first")
        (into / STATE).write_bytes(await self._file())
        return [StateFile(STATE, into / STATE)]

    async def hibernate(self, unwanted: Callable[[], bool] = lambda: False) -> Hibernation:
        """The process is never given back."""
        return Hibernation(done=False, why="what the environment remembers is in its process")

    async def close(self) -> None:
        """Destroy the process, and remove the file of the initial state. Idempotent."""
        sandbox, self._sandbox = self._sandbox, None
        folder, self._folder = self._folder, None
        self._initial = None
        if folder is not None:
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
        if sandbox is not None:
            await self._disposal.dispose(sandbox)

    @abstractmethod
    async def _called(self, name: str, arguments: JsonObject, timeout_s: float) -> ToolOutcome:
        """What a call comes to."""

    @abstractmethod
    async def _file(self) -> bytes:
        """The state's file as it is now."""
