"""Database payloads made ready: loaded once in a template, the tool list checked, the initial state kept by digest."""

import asyncio
import json
import tempfile
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final
from weakref import WeakValueDictionary

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from quintain.artifacts import ArtifactStore
from quintain.contracts.identity import digest_of
from quintain.contracts.tools import MAX_TOOL_NAME, Tool
from quintain.contracts.untrusted import json_problem, whole_text
from quintain.errors import CallTimeout, SandboxLost, TemplateError
from quintain.sandboxes.base import Sandbox, SandboxClass, SandboxProvider, StateFile, Template
from quintain.sandboxes.disposal import Disposal

JsonObject = dict[str, Any]

MAX_DESCRIPTION_BYTES: Final = 10 * 2**20
MAX_TOOLS: Final = 1000

MAX_STATEMENTS: Final = 1000
"""Most SQL statements by which a task varies the initial state."""

_KEPT_VARIANTS: Final = 1000
_VARY_TIMEOUT_S: Final = 30.0


class _ToolIn(BaseModel):
    model_config = ConfigDict(extra="ignore")

    name: str = Field(min_length=1, max_length=MAX_TOOL_NAME)
    description: str = ""
    input_schema: JsonObject = Field(default_factory=dict)


class LoadReport(BaseModel):
    """What of a payload's data did not load, by the kind's own count."""

    model_config = ConfigDict(extra="ignore", frozen=True, strict=True)

    failed: list[JsonObject] = Field(default_factory=list)
    foreign_key_violations: int = Field(default=0, ge=0)


class _Description(BaseModel):
    """What the kind says of itself; it comes out of a sandbox, so nothing about it is taken for granted."""

    model_config = ConfigDict(extra="ignore")

    tools: list[_ToolIn] = Field(max_length=MAX_TOOLS)
    report: LoadReport = Field(default_factory=LoadReport)


class _Start(BaseModel):
    """How a task varies the initial state."""

    model_config = ConfigDict(extra="forbid", strict=True)

    sql: list[str] = Field(min_length=1, max_length=MAX_STATEMENTS)


@dataclass(frozen=True)
class PreparedDatabase:
    """A payload that can be claimed from. `initial` are the files of its initial state: name and digest."""

    key: str
    payload: JsonObject
    payload_digest: str
    template: Template
    tools: tuple[Tool, ...]
    report: LoadReport
    initial: tuple[tuple[str, str], ...]
    start_kind: str
    names: frozenset[str]

    @property
    def database(self) -> str:
        """File name of the database inside the state directory."""
        return str(self.payload["database"])

    @property
    def state_names(self) -> tuple[str, str, str]:
        """The database and the side files that belong to it."""
        return state_names(self.database)

    @property
    def warm(self) -> bool:
        """Whether it was shown that earlier calls do not show in later ones, so that a process may be replaced."""
        return self.template.description.get("warm") is True

    @property
    def code(self) -> str:
        """Source of the scenario's application."""
        return str(self.payload.get("code", ""))


def state_names(database: str) -> tuple[str, str, str]:
    """A database file and the side files without which a copy of it may be torn."""
    return database, f"{database}-wal", f"{database}-journal"


class DatabaseTemplates:
    """Prepared payloads of one sandbox class, the last used ones kept at hand.

    The provider keeps the templates' processes and decides how many; this keeps what the platform knows of them.
    """

    def __init__(
        self,
        provider: SandboxProvider,
        sandbox_class: SandboxClass,
        store: ArtifactStore,
        *,
        keep: int = 64,
        warm: bool = False,
        disposal: Disposal | None = None,
    ) -> None:
        self.provider = provider
        self.disposal = disposal or Disposal()
        self.sandbox_class = sandbox_class
        self._store = store
        self._keep = keep
        self._warm = warm
        self._prepared: OrderedDict[str, PreparedDatabase] = OrderedDict()
        self._initial: dict[str, tuple[tuple[str, str], ...]] = {}
        self._locks: dict[str, asyncio.Lock] = {}
        self._shown_warm: set[str] = set()
        self._variants: OrderedDict[str, tuple[tuple[str, str], ...]] = OrderedDict()
        self._varying: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def prepare(self, payload_digest: str, payload: Callable[[], JsonObject]) -> PreparedDatabase:
        """The payload of that digest, loaded; `payload` is read only when it is not at hand.

        Raises:
            TemplateError: the payload does not load, or describes itself wrongly.
            SandboxError: the class could not be started.
            ArtifactError: the initial state could not be kept.
        """
        async with self._locks.setdefault(payload_digest, asyncio.Lock()):  # many resets build it once
            known = self._prepared.get(payload_digest)
            prepared = await (self._build(payload_digest, payload) if known is None else self._renew(known))
            if prepared.warm:
                self._shown_warm.add(payload_digest)
            self._prepared[payload_digest] = prepared
            self._prepared.move_to_end(payload_digest)
            while len(self._prepared) > self._keep:
                self._prepared.popitem(last=False)
            return prepared

    async def claim(self, prepared: PreparedDatabase, start: JsonObject, state: Sequence[StateFile]) -> Sandbox:
        """A clean instance of a prepared payload; its template is built again if it was let go or has died.

        Raises:
            TemplateError: the payload does not load any more.
            SandboxError: no instance could be started.
        """
        try:
            return await self.provider.claim(prepared.template, start, state)
        except SandboxLost:
            renewed = await self._renew(prepared)
            return await self.provider.claim(renewed.template, start, state)

    async def anew(self, prepared: PreparedDatabase) -> PreparedDatabase:
        """The same payload loaded once more in a template of its own, not warmed.

        Raises:
            TemplateError, SandboxError: it does not load again.
        """
        template = await self.provider.template(
            self.sandbox_class, f"{prepared.key}:anew", prepared.payload, warm=False
        )
        known = prepared
        return _described(template.key, known.payload, known.payload_digest, template, known.initial, "cold")

    async def variant(
        self, prepared: PreparedDatabase, start: JsonObject, scratch: Path | None = None
    ) -> list[StateFile]:
        """The initial state as a task varies it, by `{"sql": [statements]}`: made once, in an instance of its own.

        It does not depend on a seed beyond what `start` says. The clock stands at the epoch while the statements run.

        Raises:
            TemplateError: `start` has another form, or a statement fails; the message names it.
            SandboxError: no instance could be started, or it was lost.
            ArtifactError: the state could not be kept.
        """
        try:
            statements = _Start.model_validate(start).sql
        except ValidationError as error:
            item = error.errors(include_url=False)[0]
            where = ".".join(str(part) for part in ("start", *item["loc"]))
            raise TemplateError(
                f"a task of {prepared.payload.get('scenario')!r} varies its database by {{sql: [statements]}}; "
                f"{where}: {str(item['msg'])[:200].lower()}"
            ) from error
        key = digest_of({"payload": prepared.payload_digest, "sql": statements})
        lock = self._varying.setdefault(key, asyncio.Lock())
        async with lock:  # many episodes build it once
            kept = self._variants.get(key)
            if kept is None:
                kept = await self._varied(prepared, statements, scratch)
            self._variants[key] = kept
            self._variants.move_to_end(key)
            while len(self._variants) > _KEPT_VARIANTS:
                self._variants.popitem(last=False)
        return self._files(kept)

    async def _varied(
        self, prepared: PreparedDatabase, statements: list[str], scratch: Path | None
    ) -> tuple[tuple[str, str], ...]:
        sandbox = await self.claim(prepared, {"seed": 0}, self.files(prepared))
        scenario = prepared.payload.get("scenario")
        try:
            try:
                answer = await sandbox.call({"op": "vary", "statements": statements}, _VARY_TIMEOUT_S)
            except CallTimeout as error:
                raise TemplateError(
                    f"the statements that vary {scenario!r} for a task took over {_VARY_TIMEOUT_S:g} s"
                ) from error
            if answer.get("varied") is not True:
                failed, why = (whole_text(str(answer.get(key, "?")))[:500] for key in ("statement", "error"))
                raise TemplateError(f"a task of {scenario!r} varies its database by SQL that fails: {failed}: {why}")
            with tempfile.TemporaryDirectory(prefix="quintain_variant_", dir=scratch) as directory:
                found = await sandbox.snapshot(prepared.state_names, Path(directory))
                content = await asyncio.to_thread(lambda: {file.name: file.path.read_bytes() for file in found})
                return await asyncio.to_thread(self._kept, prepared.payload, content)
        finally:
            await self.disposal.dispose(sandbox)

    def warm(self, prepared: PreparedDatabase) -> bool:
        """Whether a payload was shown to hold nothing in memory, by its own template or one warmed since."""
        return prepared.payload_digest in self._shown_warm

    def files(self, prepared: PreparedDatabase) -> list[StateFile]:
        """The initial state as files; read-only and verified by digest."""
        return self._files(prepared.initial)

    def _files(self, kept: Sequence[tuple[str, str]]) -> list[StateFile]:
        return [StateFile(name, self._store.path(digest)) for name, digest in kept]

    async def _renew(self, prepared: PreparedDatabase) -> PreparedDatabase:
        template = await self.provider.template(
            self.sandbox_class, prepared.key, prepared.payload, self.files(prepared), warm=self._warm
        )
        if template is prepared.template:
            return replace(prepared, start_kind="template_fork")
        warmed_since = template.state is prepared.template.state
        return _described(
            prepared.key,
            prepared.payload,
            prepared.payload_digest,
            template,
            prepared.initial,
            "template_fork" if warmed_since else "cached_cold",
        )

    async def _build(self, digest: str, read: Callable[[], JsonObject]) -> PreparedDatabase:
        payload = await asyncio.to_thread(read)
        database = payload.get("database")
        if not isinstance(database, str) or "/" in database or database in ("", ".", ".."):
            raise TemplateError(
                f"scenario {payload.get('scenario')!r} names its database {database!r}; a plain file name is needed"
            )
        key = digest_of({"class": self.sandbox_class.name, "payload": digest})
        known = self._initial.get(digest, ())
        template = await self.provider.template(self.sandbox_class, key, payload, self._files(known), warm=self._warm)
        initial = known or await asyncio.to_thread(self._kept, payload, template.state)
        self._initial[digest] = initial
        return _described(key, payload, digest, template, initial, "cached_cold" if known else "cold")

    def _kept(self, payload: JsonObject, state: Mapping[str, bytes]) -> tuple[tuple[str, str], ...]:
        database = str(payload["database"])
        if database not in state:
            raise TemplateError(
                f"scenario {payload.get('scenario')!r} left no database {database!r} in its state directory"
            )
        return tuple((name, self._store.put(state[name])) for name in state_names(database) if name in state)


def _described(
    key: str,
    payload: JsonObject,
    payload_digest: str,
    template: Template,
    initial: Sequence[tuple[str, str]],
    start_kind: str,
) -> PreparedDatabase:
    try:
        if problem := json_problem(template.description):
            raise TemplateError(f"scenario {payload.get('scenario')!r} describes itself wrongly: {problem}")
        if len(json.dumps(template.description)) > MAX_DESCRIPTION_BYTES:
            raise TemplateError(
                f"scenario {payload.get('scenario')!r} describes itself in more than {MAX_DESCRIPTION_BYTES} bytes"
            )
        description = _Description.model_validate(template.description)
    except (ValidationError, ValueError, RecursionError) as error:
        raise TemplateError(
            f"scenario {payload.get('scenario')!r} describes itself wrongly: {' '.join(str(error).split())[:500]}"
        ) from error
    tools = tuple(
        Tool(name=tool.name, description=tool.description, input_schema=tool.input_schema) for tool in description.tools
    )
    return PreparedDatabase(
        key=key,
        payload=payload,
        payload_digest=payload_digest,
        template=template,
        tools=tools,
        report=description.report,
        initial=tuple(initial),
        start_kind=start_kind,
        names=frozenset(tool.name for tool in tools),
    )
