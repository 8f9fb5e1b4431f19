"""The kind of environment whose code is Python classes or modules: payloads loaded once in a template."""

import asyncio
import json
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from quintain.contracts.identity import digest_of
from quintain.contracts.tools import Tool
from quintain.contracts.untrusted import json_problem
from quintain.environments.base import EpisodeClass
from quintain.environments.inprocess.findings import summary
from quintain.environments.inprocess.machine import STATE
from quintain.environments.inprocess.schemas import MAX_TOOLS, ArgumentCheck, ToolModel, tool_findings
from quintain.environments.python.environment import PythonEnvironment
from quintain.environments.python.models import PythonDocument, document_of
from quintain.errors import SandboxLost, TemplateError
from quintain.sandboxes.base import Sandbox, SandboxClass, SandboxLimits, SandboxProvider, Template
from quintain.sandboxes.disposal import Disposal

JsonObject = dict[str, Any]

KIND: Final = "python"
CLASS_NAME: Final = "python-v1"

MAX_DESCRIPTION_BYTES: Final = 8 * 2**20
_KEEP: Final = 64
_PRELOAD: Final = (
    "asyncio",
    "copy",
    "csv",
    "dataclasses",
    "datetime",
    "decimal",
    "enum",
    "hashlib",
    "inspect",
    "json",
    "math",
    "mpmath",
    "random",
    "re",
    "statistics",
    "time_machine",
    "typing",
    "uuid",
)
"""What such code imports: once, in the zygote."""


def python_class(limits: SandboxLimits | None = None) -> SandboxClass:
    """The sandbox class that runs Python environments."""
    here = Path(__file__).parents[1]
    return SandboxClass(
        KIND, here / "python.lock.txt", here / "python_kind", _PRELOAD, limits=limits or SandboxLimits()
    )


class _Description(BaseModel):
    model_config = ConfigDict(extra="ignore")

    tools: list[ToolModel] = Field(max_length=MAX_TOOLS)


@dataclass(frozen=True)
class ReadyPython:
    """A payload that was made ready; see `Prepared`."""

    kind: "PythonKind"
    key: str
    payload: JsonObject
    document: PythonDocument
    template: Template
    tools: Sequence[Tool]
    checks: Mapping[str, ArgumentCheck]
    start_kind: str
    build_ms: Mapping[str, float] = field(default_factory=dict)
    state: str = STATE
    state_names: Sequence[str] = (STATE,)
    warm: bool = False

    @property
    def code(self) -> str:
        """Source of the modules."""
        files = self.payload["files"]
        return "\n".join(f"# {name}\n{files[name]}" for name in sorted(files) if name.endswith(".py"))

    def environment(self) -> PythonEnvironment:
        """A new environment, to be reset."""
        return PythonEnvironment(self, self.kind.disposal, scratch=self.kind.scratch)

    async def claim(self, seed: int) -> Sandbox:
        """A clean instance; the template is built again if it was let go or has died.

        Raises:
            TemplateError: the payload does not load any more.
            SandboxError: no instance could be started.
        """
        provider = self.kind.provider
        try:
            return await provider.claim(self.template, {"seed": seed}, [])
        except SandboxLost:
            template = await self.kind.template(self.key, self.payload)
            return await provider.claim(template, {"seed": seed}, [])


class PythonKind:
    """Python environments of this host; see `EnvironmentKind`."""

    def __init__(
        self,
        provider: SandboxProvider,
        episode_class: EpisodeClass,
        *,
        sandbox_class: SandboxClass | None = None,
        scratch: Path | None = None,
        warm: bool = False,
        keep: int = _KEEP,
        disposal: Disposal | None = None,
    ) -> None:
        """`warm` keeps processes standing by from the first episode on; `keep` is how many payloads are kept ready."""
        self.provider = provider
        self.episode_class = episode_class
        self.scratch = scratch
        self.disposal = disposal or Disposal()
        self._class = sandbox_class or python_class()
        self._warm = warm
        self._keep = keep
        self._ready: OrderedDict[str, ReadyPython] = OrderedDict()
        self._locks: dict[str, asyncio.Lock] = {}

    async def prepare(self, payload_digest: str, payload: Callable[[], JsonObject]) -> ReadyPython:
        """The payload of that digest, loaded and checked; `payload` is read only when it is not at hand.

        Raises:
            TemplateError: it does not load, or describes itself wrongly; says what is wrong, and where.
            SandboxError: the class could not be started.
        """
        async with self._locks.setdefault(payload_digest, asyncio.Lock()):
            known = self._ready.get(payload_digest)
            ready = await (self._built(payload_digest, payload) if known is None else self._renewed(known))
            self._ready[payload_digest] = ready
            self._ready.move_to_end(payload_digest)
            while len(self._ready) > self._keep:
                self._ready.popitem(last=False)
            return ready

    async def template(self, key: str, payload: JsonObject) -> Template:
        """A payload's template, built if it does not stand."""
        return await self.provider.template(self._class, key, payload, warm=self._warm)

    async def _built(self, digest: str, read: Callable[[], JsonObject]) -> ReadyPython:
        payload = await asyncio.to_thread(read)
        document = document_of(payload)
        key = digest_of({"class": self._class.name, "payload": digest})
        template = await self.template(key, payload)
        tools = await asyncio.to_thread(_tools, str(payload.get("scenario")), template.description)
        checks = {tool.name: ArgumentCheck(tool) for tool in tools}
        return ReadyPython(self, key, payload, document, template, tools, checks, "cold", template.build_ms)

    async def _renewed(self, known: ReadyPython) -> ReadyPython:
        template = await self.template(known.key, known.payload)
        same = template is known.template or template.state is known.template.state
        if same:
            return replace(known, template=template, start_kind="template_fork", build_ms={})
        return replace(known, template=template, start_kind="cached_cold", build_ms=template.build_ms)


def _tools(scenario: str, description: JsonObject) -> list[Tool]:
    """The tools of a description, which came out of a sandbox.

    Raises:
        TemplateError: it is none, or a tool cannot be offered.
    """
    try:
        problem = json_problem(description)
        if problem is None and len(json.dumps(description)) > MAX_DESCRIPTION_BYTES:
            problem = f"over {MAX_DESCRIPTION_BYTES} bytes"
        if problem:
            raise TemplateError(f"scenario {scenario!r} describes itself wrongly: {problem}")
        models = _Description.model_validate(description).tools
    except (ValidationError, ValueError, RecursionError) as error:
        words = " ".join(str(error).split())[:500]
        raise TemplateError(f"scenario {scenario!r} describes itself wrongly: {words}") from error
    if wrong := summary(list(tool_findings(models))):
        raise TemplateError(f"scenario {scenario!r} cannot be played: {wrong}")
    return [model.tool for model in models]
