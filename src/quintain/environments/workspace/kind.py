"""Workspaces as a kind of environment: payloads made ready, sandboxes claimed for them."""

import asyncio
import tempfile
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter
from typing import Final

from quintain.artifacts import ArtifactStore
from quintain.contracts.identity import digest_of
from quintain.contracts.tools import Tool
from quintain.contracts.untrusted import whole_text
from quintain.environments.identity import sandboxed_class
from quintain.environments.workspace.environment import FOLDER, WorkspaceEnvironment, packer
from quintain.environments.workspace.models import GitModel, Payload
from quintain.environments.workspace.sandbox import CLASS_NAME, programs_digest
from quintain.environments.workspace.tools import TOOLS
from quintain.environments.workspace.trees import STATE, KeptTree, Trees
from quintain.errors import IsolationError, SandboxLost, TemplateError
from quintain.sandboxes.base import IsolationLevel, JsonObject, Sandbox, SandboxClass, SandboxProvider, StateFile
from quintain.sandboxes.disposal import Disposal
from quintain.sandboxes.runtime import Interpreter
from quintain.tasks.base import WORKSPACE

KIND: Final = WORKSPACE

_KEEP: Final = 256
_UNBUNDLE_TIMEOUT_S: Final = 150.0


@dataclass(frozen=True)
class ReadyWorkspace:
    """A payload that was made ready; see `Prepared`."""

    kind: "WorkspaceKind"
    payload: Payload
    tree: KeptTree
    epoch: int
    """Of the episode's clock, in seconds."""
    build_ms: Mapping[str, float] = field(default_factory=dict)
    tools: Sequence[Tool] = TOOLS
    state: str = STATE
    state_names: Sequence[str] = (STATE,)
    warm: bool = True
    code: str = ""

    def environment(self) -> WorkspaceEnvironment:
        """A new environment, to be reset."""
        return WorkspaceEnvironment(self.kind, self)


class WorkspaceKind:
    """The workspaces of this host; see `EnvironmentKind`. All are claimed from one template: a tree comes as state."""

    def __init__(
        self,
        provider: SandboxProvider,
        sandbox_class: SandboxClass,
        store: ArtifactStore,
        interpreter: Interpreter,
        *,
        scratch: Path | None = None,
        restart_timeout_s: float = 30.0,
        disposal: Disposal | None = None,
    ) -> None:
        self.trees = Trees(store)
        self.scratch = scratch
        self.restart_timeout_s = restart_timeout_s
        self.disposal = disposal or Disposal()
        programs = programs_digest(sandbox_class.programs)
        self.episode_class = sandboxed_class(CLASS_NAME, provider, sandbox_class, interpreter, store, programs=programs)
        self._provider = provider
        self._class = sandbox_class
        self._key = digest_of({"class": sandbox_class.name, "role": KIND})
        self._ready: OrderedDict[str, ReadyWorkspace] = OrderedDict()
        self._building: dict[str, asyncio.Lock] = {}

    async def prepare(self, payload_digest: str, payload: Callable[[], JsonObject]) -> ReadyWorkspace:
        """The payload of that digest, its tree kept; `payload` is read only when it is not at hand.

        Raises:
            TemplateError: it is no workspace, or its tree cannot be made.
            IsolationError: this host's sandboxes cannot bound processes.
            SandboxError: a sandbox that makes its tree could not be started.
            ArtifactError: the tree could not be kept.
        """
        if self._provider.level is not IsolationLevel.FULL:
            raise IsolationError(
                f"workspaces start processes, which takes sandboxes of level full; here they are {self._provider.level}"
            )
        async with self._building.setdefault(payload_digest, asyncio.Lock()):
            known = self._ready.get(payload_digest)
            ready = await self._built(payload) if known is None else known
            self._ready[payload_digest] = replace(ready, build_ms={})
            self._ready.move_to_end(payload_digest)
            while len(self._ready) > _KEEP:
                self._building.pop(self._ready.popitem(last=False)[0], None)
            return ready

    async def claim(self, state: Sequence[StateFile], start: JsonObject) -> Sandbox:
        """A sandbox with a tree.

        Raises:
            SandboxError: none could be started.
        """
        try:
            return await self._claim(state, start)
        except SandboxLost:
            return await self._claim(state, start)  # the template had died; now there is a new one

    async def _claim(self, state: Sequence[StateFile], start: JsonObject) -> Sandbox:
        template = await self._provider.template(self._class, self._key, {}, warm=True)
        return await self._provider.claim(template, start, state)

    async def _built(self, read: Callable[[], JsonObject]) -> ReadyWorkspace:
        began = perf_counter()
        payload = Payload.of(await asyncio.to_thread(read))
        epoch = _seconds(payload.epoch)
        document = payload.document
        if document.git is not None:
            tree = await self._unbundled(payload, document.git, epoch)
        elif document.archive is not None:
            tree = await asyncio.to_thread(self.trees.of_archive, payload, document.archive)
        else:
            tree = await asyncio.to_thread(self.trees.of_files, payload)
        return ReadyWorkspace(self, payload, tree, epoch, {"load": (perf_counter() - began) * 1000})

    async def _unbundled(self, payload: Payload, git: GitModel, epoch: int) -> KeptTree:
        """A state of a repository, made in a sandbox: what is in a bundle is untrusted."""
        bundle = payload.files.get(git.bundle)
        if bundle is None:
            raise TemplateError(f"scenario {payload.scenario!r} has no file {git.bundle!r} for its repository")
        with tempfile.TemporaryDirectory(prefix="quintain_bundle_", dir=self.scratch) as directory:
            file, target = Path(directory) / "repository.bundle", Path(directory) / STATE
            await asyncio.to_thread(file.write_bytes, bundle)
            sandbox = await self.claim([StateFile(file.name, file)], {"epoch": epoch})
            try:
                answer = await sandbox.call({"op": "unbundle", "ref": git.ref}, _UNBUNDLE_TIMEOUT_S)
                if answer.get("status") != "ok":
                    why = whole_text(str(answer.get("error", "no reason given")))[:1000]
                    raise TemplateError(f"the repository of scenario {payload.scenario!r} cannot be made: {why}")
                await packer(sandbox).pack(FOLDER, target, None)
                tar = await asyncio.to_thread(target.read_bytes)
            finally:
                await self.disposal.dispose(sandbox)
        return await asyncio.to_thread(self.trees.of_tar, payload.scenario, tar)


def _seconds(epoch: str) -> int:
    try:
        return int(datetime.strptime(epoch, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC).timestamp())
    except ValueError:
        raise TemplateError(f"the epoch {epoch!r} is no instant; write it as 2026-02-10T00:00:00Z") from None
