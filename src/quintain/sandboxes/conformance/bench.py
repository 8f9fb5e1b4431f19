"""The bench that checks run on, and what a check is.

A check raises `Violation` with what was found. Checks that need isolation name the level they need; a provider
of a lower level is not asked. A destructive check runs its harmless probe first and stops there if the limit or
namespace does not hold, so that running the suite is safe on a host that does not isolate.
"""

import os
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from quintain.errors import QuintainError
from quintain.sandboxes.base import (
    IsolationLevel,
    Sandbox,
    SandboxClass,
    SandboxLimits,
    SandboxProvider,
    StateFile,
    Template,
)
from quintain.sandboxes.policy import SecurityPolicy

LIMITS = SandboxLimits(
    memory_bytes=128 * 2**20, disk_bytes=8 * 2**20, pids=16, cpu_seconds=30, open_files=64
)  # small, so that running into them is quick
CALL_TIMEOUT_S = 10.0


class Violation(QuintainError):
    """A provider does not keep the sandbox contract; the message says what was found."""


def probe_class() -> SandboxClass:
    """The class of the suite's own kind: the standard library only, small limits."""
    here = Path(__file__).parent
    return SandboxClass("probe", here / "probe.lock.txt", here / "probe_kind", limits=LIMITS)


class Bench:
    """A provider with the suite's own kind on it. Checks claim sandboxes from it."""

    def __init__(self, provider: SandboxProvider, folder: Path) -> None:
        self.provider = provider
        self.folder = folder
        self.plain = probe_class()
        self.forking = replace(self.plain, name="probe-forking", policy=SecurityPolicy(processes=True))

    async def template(self, sandbox_class: SandboxClass | None = None) -> Template:
        """The suite's template of a class (the one without processes if None)."""
        chosen = sandbox_class or self.plain
        return await self.provider.template(chosen, f"conformance:{chosen.name}", {"state": "initial"})

    @asynccontextmanager
    async def sandbox(
        self, sandbox_class: SandboxClass | None = None, state: Sequence[StateFile] | None = None, **options: Any
    ) -> AsyncIterator[Sandbox]:
        """A sandbox with the template's state, destroyed afterwards."""
        template = await self.template(sandbox_class)
        files = list(state) if state is not None else self.materialise(template.state)
        claimed = await self.provider.claim(template, {"seed": 7}, files, **options)
        try:
            yield claimed
        finally:
            await claimed.destroy()

    def materialise(self, state: Any) -> list[StateFile]:
        """State files of bytes by name, in a fresh directory."""
        into = Path(tempfile.mkdtemp(dir=self.folder))
        for name, content in state.items():
            (into / name).write_bytes(content)
        return [StateFile(name, into / name) for name in state]


Run = Callable[[Bench], Awaitable[None]]


@dataclass(frozen=True)
class Check:
    """One thing every provider of at least the named level must do."""

    name: str
    area: str
    level: IsolationLevel
    run: Run
    destructive: bool = False


async def value_of(sandbox: Sandbox, probe: str, **arguments: Any) -> Any:
    """What a probe returned.

    Raises:
        Violation: it raised instead.
    """
    answer = await sandbox.call({"probe": probe, "arguments": arguments}, CALL_TIMEOUT_S)
    if "value" not in answer:
        raise Violation(f"{probe} failed: {answer.get('raised')}: {answer.get('text')}")
    return answer["value"]


async def refusal_of(sandbox: Sandbox, probe: str, **arguments: Any) -> str:
    """The name of the exception a probe ended with.

    Raises:
        Violation: it succeeded.
    """
    answer = await sandbox.call({"probe": probe, "arguments": arguments}, CALL_TIMEOUT_S)
    if "raised" not in answer:
        raise Violation(f"{probe} {arguments} succeeded: {answer.get('value')!r}")
    return str(answer["raised"])


def require(holds: bool, found: str) -> None:
    """Raise `Violation` with what was found unless the condition holds."""
    if not holds:
        raise Violation(found)


@runtime_checkable
class HasProcess(Protocol):
    """A sandbox that is a process of this host."""

    pid: int


def host_pid(sandbox: Sandbox) -> int:
    """Process id of a sandbox on this host.

    Raises:
        Violation: it has none, so that its isolation cannot be looked at.
    """
    if not isinstance(sandbox, HasProcess):
        raise Violation(f"{type(sandbox).__name__} does not say which process it is")
    return sandbox.pid


def running(pid: int) -> bool:
    """Whether a process of that id exists on the host."""
    return os.path.exists(f"/proc/{pid}")
