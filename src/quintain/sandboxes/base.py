"""The sandbox contract: a class is prepared, a payload becomes a template, an episode is claimed from it.

    provider.template(cls, payload)   a payload loaded once, by digest; no agent action ever touches it
    provider.claim(template, ...)     a clean instance for one episode
    sandbox.call(...)                 one request, one answer
    sandbox.snapshot(...)             its state files, taken with the instance stopped
    sandbox.destroy()                 nothing is left behind

What runs inside is a *kind*: a package directory with a module `kind` that defines a class `Kind`. It is imported
by the class's own interpreter, never by the platform's (so it imports nothing of quintain). Its methods:

    load(payload: dict, root: str) -> dict   once, in the template: build state under root, describe yourself
    warm() -> None                           optional exercise before forking; must leave no trace
    rehearse() -> None                       optional, in a process that waits for its claim: touch what will be needed;
                                             runs no payload's code, and must leave no trace
    begin(start: dict) -> None               in the episode, before the first call (seed, clock)
    call(request: dict) -> dict              one request

A kind with `tends_processes = True` starts processes and ends them itself; what another leaves behind ends the
instance.

Everything that comes out of a sandbox (descriptions, answers, state files) is untrusted input.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from quintain.sandboxes.policy import SecurityPolicy
from quintain.sandboxes.trees import BaseTree, Changes

JsonObject = dict[str, Any]


class IsolationLevel(StrEnum):
    """How strongly a provider isolates on this host; `full` is the strongest."""

    FULL = "full"
    REDUCED = "reduced"
    NONE = "none"

    @property
    def rank(self) -> int:
        """0 for none, 1 for reduced, 2 for full: comparable."""
        return ("none", "reduced", "full").index(self.value)


@dataclass(frozen=True)
class SandboxLimits:
    """What one instance may use. None of it is identity."""

    memory_bytes: int = 512 * 2**20
    """Address space that an instance's process may add to its template's."""
    disk_bytes: int = 64 * 2**20
    """Size of the instance's private tmpfs."""
    pids: int = 64
    """Processes and threads."""
    cpu_seconds: int = 900
    """CPU time over the instance's life."""
    open_files: int = 256
    """File descriptors per process."""


@dataclass(frozen=True)
class SandboxClass:
    """One environment class as a provider sees it: an interpreter environment and a kind to run in it."""

    name: str
    """Short name, for processes and messages: `awm`."""
    lock: Path
    """Hashed requirements file from which the class's own interpreter environment is built; may be empty."""
    kind: Path
    """Directory of the kind's package: its module `kind` defines `Kind`."""
    preload: tuple[str, ...] = ()
    """Modules the zygote imports once, before any payload is loaded."""
    policy: SecurityPolicy = field(default_factory=SecurityPolicy)
    limits: SandboxLimits = field(default_factory=SandboxLimits)
    programs: tuple[str, ...] = ()
    """The host's programs that its code may run, by name; those that the host lacks are not there."""


@dataclass(frozen=True)
class StateFile:
    """One file of an instance's state: its name inside the state directory and where its bytes are."""

    name: str
    path: Path


@dataclass(frozen=True)
class Template:
    """A payload loaded and ready to be claimed from.

    `description` is what the kind's `load` returned (untrusted); `state` the files it left in its state
    directory, by name (bytes).
    """

    key: str
    sandbox_class: SandboxClass
    description: JsonObject
    state: Mapping[str, bytes]
    build_ms: Mapping[str, float] = field(default_factory=dict)


class Sandbox(Protocol):
    """One claimed instance; it serves one episode and is destroyed."""

    @property
    def alive(self) -> bool:
        """False once the process is known to be gone."""
        ...

    @property
    def segments(self) -> Mapping[str, float]:
        """Milliseconds of each part of the claim, by name."""
        ...

    @property
    def stood_by(self) -> bool:
        """Whether its process waited, isolated, before it was claimed."""
        ...

    async def call(self, request: JsonObject, timeout_s: float) -> JsonObject:
        """Send one request to the kind and return its answer.

        Raises:
            CallTimeout: no answer in time; the process was killed, `alive` is False.
            SandboxLost: the process ended without answering.
            ResultTooLarge: the answer was larger than the provider accepts.
        """
        ...

    async def snapshot(self, names: Sequence[str], into: Path) -> list[StateFile]:
        """Copy those of the named state files that exist into a directory, with the instance stopped.

        Works on a dead instance too: its state directory outlives its process until `destroy`.

        Raises:
            SandboxLost: the state directory is gone.
            StateTooLarge: the files say they are larger than the instance's disk.
        """
        ...

    async def destroy(self) -> None:
        """End every process of the instance and give back all it held. Idempotent."""
        ...


class SandboxProvider(Protocol):
    """Makes templates and sandboxes of one isolation level."""

    @property
    def name(self) -> str:
        """Provider name, part of the class identity: `fork`."""
        ...

    @property
    def level(self) -> IsolationLevel:
        """The isolation level it gives on this host."""
        ...

    async def template(
        self,
        sandbox_class: SandboxClass,
        key: str,
        payload: JsonObject,
        state: Sequence[StateFile] = (),
        *,
        warm: bool = False,
    ) -> Template:
        """Load a payload once; later calls with the same key return the same template, or one warmed since.

        Args:
            key: names class, payload and initial state by digest.
            state: files placed in the state directory before `load` (an initial state built earlier).
            warm: warm it now, and not only when it proves to be hot.

        Raises:
            TemplateError: the payload did not load.
            SandboxError: the class could not be started.
        """
        ...

    async def claim(
        self,
        template: Template,
        start: JsonObject,
        state: Sequence[StateFile],
        *,
        limits: SandboxLimits | None = None,
        read_only: bool = False,
    ) -> Sandbox:
        """A clean instance with `state` as its state directory, ready for its first call.

        Args:
            start: given to the kind's `begin`.
            read_only: mount the state directory read-only after `begin`.

        Raises:
            SandboxError: the instance could not be started.
        """
        ...

    async def close(self) -> None:
        """End every sandbox, template and zygote. Idempotent."""
        ...


@runtime_checkable
class PacksTrees(Protocol):
    """A sandbox whose state may be a folder."""

    async def pack(self, name: str, target: Path, base: BaseTree | None) -> Changes:
        """Write what differs between a folder of the state directory and a tree as a tar, with the instance stopped.

        Works on a dead instance too; see `pack_changes`.

        Raises:
            SandboxLost: the state directory is gone, or the folder cannot be read.
        """
        ...


@runtime_checkable
class KeepsStandbys(Protocol):
    """A provider that starts processes ahead of their claims."""

    async def stand_down(self) -> None:
        """End those that wait, and start no more for the templates there are; then all there is are episodes' own."""
        ...
