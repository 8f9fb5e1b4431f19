"""The kind of environment whose code is an MCP server: payloads tried once, servers started for episodes."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import perf_counter
from typing import Any, Final

from pydantic import ValidationError

from quintain.contracts.identity import digest_of
from quintain.contracts.tools import Tool
from quintain.contracts.untrusted import whole_text
from quintain.environments.base import EpisodeClass
from quintain.environments.inprocess.machine import STATE
from quintain.environments.mcp.environment import McpEnvironment
from quintain.environments.mcp.models import Begun, McpDocument, document_of, tools_of
from quintain.environments.mcp.sandbox import PROGRAMS, mcp_class
from quintain.environments.workspace.sandbox import programs_digest
from quintain.errors import (
    CallTimeout,
    IsolationError,
    ResultTooLarge,
    SandboxLost,
    TemplateError,
)
from quintain.sandboxes.base import IsolationLevel, Sandbox, SandboxClass, SandboxProvider, Template
from quintain.sandboxes.disposal import Disposal

JsonObject = dict[str, Any]

KIND: Final = "mcp"

_KEEP: Final = 64
_GRACE_S: Final = 10.0


@dataclass(frozen=True)
class ReadyMcp:
    """A payload whose server was started once; see `Prepared`."""

    kind: "McpKind"
    key: str
    payload: JsonObject
    document: McpDocument
    template: Template
    tools: Sequence[Tool]
    start_kind: str
    build_ms: Mapping[str, float] = field(default_factory=dict)
    state: str = STATE
    state_names: Sequence[str] = (STATE,)
    warm: bool = False

    @property
    def scenario(self) -> str:
        """Of the payload."""
        return str(self.payload.get("scenario"))

    @property
    def code(self) -> str:
        """Source of the server's Python files."""
        files = self.payload["files"]
        return "\n".join(f"# {name}\n{files[name]}" for name in sorted(files) if name.endswith(".py"))

    def environment(self) -> McpEnvironment:
        """A new environment, to be reset."""
        return McpEnvironment(self, self.kind.disposal, scratch=self.kind.scratch)

    async def claim(self, seed: int) -> Sandbox:
        """A clean instance, without its server yet; the template is made again if it was let go or has died.

        Raises:
            SandboxError: no instance could be started.
        """
        return await self.kind.claim(self.template, self.key, self.payload, seed)


class McpKind:
    """MCP servers of this host; see `EnvironmentKind`."""

    def __init__(
        self,
        provider: SandboxProvider,
        episode_class: EpisodeClass,
        *,
        sandbox_class: SandboxClass | None = None,
        scratch: Path | None = None,
        keep: int = _KEEP,
        disposal: Disposal | None = None,
    ) -> None:
        """`keep` is how many payloads are kept ready."""
        programs = programs_digest(PROGRAMS)
        self.episode_class = replace(episode_class, runtime=f"{episode_class.runtime} programs-{programs}")
        self.scratch = scratch
        self.disposal = disposal or Disposal()
        self._provider = provider
        self._class = sandbox_class or mcp_class()
        self._keep = keep
        self._ready: OrderedDict[str, ReadyMcp] = OrderedDict()
        self._locks: dict[str, asyncio.Lock] = {}

    async def prepare(self, payload_digest: str, payload: Callable[[], JsonObject]) -> ReadyMcp:
        """The payload of that digest, its server started once to list its tools.

        Raises:
            TemplateError: it does not start, or lists what cannot be offered; says why.
            IsolationError: this host's sandboxes cannot bound processes.
            SandboxError: the class could not be started.
        """
        if self._provider.level is not IsolationLevel.FULL:
            raise IsolationError(
                f"MCP servers are processes, which takes sandboxes of level full; here they are {self._provider.level}"
            )
        async with self._locks.setdefault(payload_digest, asyncio.Lock()):
            known = self._ready.get(payload_digest)
            if known is None:
                ready = await self._built(payload_digest, payload)
            else:
                ready = replace(known, start_kind="template_fork", build_ms={})
            self._ready[payload_digest] = ready
            self._ready.move_to_end(payload_digest)
            while len(self._ready) > self._keep:
                self._locks.pop(self._ready.popitem(last=False)[0], None)
            return ready

    async def claim(self, template: Template, key: str, payload: JsonObject, seed: int) -> Sandbox:
        """A clean instance.

        Raises:
            SandboxError: none could be started.
        """
        try:
            return await self._provider.claim(template, {"seed": seed}, [])
        except SandboxLost:
            again = await self._provider.template(self._class, key, payload)
            return await self._provider.claim(again, {"seed": seed}, [])

    async def _built(self, digest: str, read: Callable[[], JsonObject]) -> ReadyMcp:
        payload = await asyncio.to_thread(read)
        document = document_of(payload)
        key = digest_of({"class": self._class.name, "payload": digest})
        template = await self._provider.template(self._class, key, payload)
        began = perf_counter()
        sandbox = await self.claim(template, key, payload, 0)
        try:
            begun = await begin(sandbox, document, str(payload.get("scenario")), 0, {})
        finally:
            await self.disposal.dispose(sandbox)
        tools = tools_of(payload.get("scenario"), begun.tools or [], document.exclude)
        build = {**template.build_ms, "first_start": (perf_counter() - began) * 1000}
        return ReadyMcp(self, key, payload, document, template, tools, "cold", build)


async def begin(sandbox: Sandbox, document: McpDocument, scenario: str, seed: int, start: JsonObject) -> Begun:
    """Start the server in a sandbox.

    Raises:
        TemplateError: it does not start; has what it wrote to standard error.
    """
    request = {"op": "begin", "seed": seed, "start": start, "timeout_s": document.start_timeout}
    try:
        begun = Begun.model_validate(await sandbox.call(request, document.start_timeout + _GRACE_S))
    except (CallTimeout, SandboxLost, ResultTooLarge, ValidationError) as error:
        words = " ".join(str(error).split())[:500]
        raise TemplateError(f"the server of scenario {scenario!r} does not start: {words}") from error
    if begun.tools is None or begun.state is None:
        words = whole_text(begun.error or "it told no tools, or no state")[:8192]
        raise TemplateError(f"the server of scenario {scenario!r} does not start: {words}")
    return begun
