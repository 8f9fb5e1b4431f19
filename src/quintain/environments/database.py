"""The database environment, platform half: an Agent World Model scenario in a sandbox, called tool by tool.

Its other half is the kind that runs inside (`environments/awm_kind`). What that half answers is untrusted:
its shape and its size are checked here, and which tools exist is decided here from the list it gave when loaded.
"""

import asyncio
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from quintain.contracts.tools import Tool
from quintain.contracts.untrusted import json_problem, whole_text
from quintain.environments.base import (
    MAX_RESULT_BYTES,
    OWNERS,
    EpisodeClass,
    Hibernation,
    Prepared,
    Rebuilt,
    ToolOutcome,
    ToolStatus,
)
from quintain.environments.resting import RestingState
from quintain.environments.templates import DatabaseTemplates, PreparedDatabase
from quintain.errors import (
    ArtifactError,
    CallTimeout,
    Owner,
    QuintainError,
    ResultTooLarge,
    SandboxError,
    SandboxLost,
)
from quintain.sandboxes.base import Sandbox, StateFile

JsonObject = dict[str, Any]

_MAX_ERROR = 64 * 1024
_MAX_LOG = 64 * 1024
_REST_TIMEOUT_S = 10.0


class _Answer(BaseModel):
    model_config = ConfigDict(extra="ignore", strict=True)

    status: Literal["ok", "tool_not_found", "invalid_args", "tool_error", "server_error"]
    text: str | None = None
    error: str | None = None
    http_status: int | None = None
    log: str = ""


class DatabaseEnvironment:
    """One episode of one scenario."""

    def __init__(
        self,
        templates: DatabaseTemplates,
        prepared: PreparedDatabase,
        *,
        scratch: Path | None = None,
        restart_timeout_s: float = 30.0,
    ) -> None:
        """`scratch` is where state is copied between processes; `restart_timeout_s` bounds a fork after a death."""
        self._templates = templates
        self._prepared = prepared
        self._scratch = scratch
        self._restart_timeout_s = restart_timeout_s
        self._sandbox: Sandbox | None = None
        self._resting: RestingState | None = None
        self._initial: Sequence[StateFile] | None = None
        self._seed = 0
        self._calls = 0
        self._end: str | None = None
        """How the process ended, until a call has said so; None while nothing was lost."""

    @property
    def tools(self) -> Sequence[Tool]:
        """The scenario's tools."""
        return self._prepared.tools

    @property
    def start_kind(self) -> str:
        """cold, cached_cold, template_fork, or warm_claim of a process that stood by."""
        if self._prepared.start_kind == "template_fork" and self._sandbox is not None and self._sandbox.stood_by:
            return "warm_claim"
        return self._prepared.start_kind

    @property
    def segments(self) -> Mapping[str, float]:
        """Milliseconds of each part of the claim."""
        return dict(self._sandbox.segments) if self._sandbox is not None else {}

    @property
    def initial(self) -> Sequence[StateFile]:
        """The files of the initial state, as the task varies it once the environment was reset."""
        return self._templates.files(self._prepared) if self._initial is None else self._initial

    @property
    def done(self) -> bool:
        """An application answers for as long as it is called."""
        return False

    @property
    def hibernated(self) -> bool:
        """Whether it is only files now, with no process."""
        return self._resting is not None

    @property
    def prepared(self) -> PreparedDatabase:
        """The payload this episode was forked from."""
        return self._prepared

    async def reset(self, seed: int, start: JsonObject | None = None) -> None:
        """Claim a clean instance on the initial state. An environment is reset once: an instance serves one episode.

        Args:
            seed: of the episode.
            start: `{"sql": [statements]}` that vary the initial state; None begins on the payload's own.

        Raises:
            SandboxError: no instance could be started, or this environment was reset before.
            TemplateError: the initial state cannot be varied so.
            ArtifactError: the stored initial state is damaged.
        """
        if self._sandbox is not None:
            raise SandboxError("this environment was reset before; make a new one for a new episode")
        if start is not None:
            self._initial = await self._templates.variant(self._prepared, start, self._scratch)
        self._seed = seed
        self._sandbox = await self._templates.claim(self._prepared, {"seed": seed}, self.initial)

    async def call(self, name: str, arguments: JsonObject, timeout_s: float) -> ToolOutcome:
        """Call a tool; see `Environment.call`."""
        started = time.perf_counter()
        self._calls += 1
        if name not in self._prepared.names:
            outcome = _failure(
                ToolStatus.TOOL_NOT_FOUND,
                f"no tool is called {name[:200]!r}; list the tools to see which are",
            )
        elif problem := json_problem(arguments):
            outcome = _failure(ToolStatus.INVALID_ARGS, f"arguments of {name} were refused: {problem}")
        else:
            outcome = await self._dispatch(name, arguments, timeout_s)
        return outcome.model_copy(update={"duration_ms": (time.perf_counter() - started) * 1000})

    async def snapshot(self, into: Path) -> list[StateFile]:
        """Copy the database and its side files as last committed; works hibernated and after the process's death."""
        if self._resting is not None:
            return await self._resting.copy(into)
        if self._sandbox is None:
            raise SandboxLost("the environment has no instance; reset it first")
        return await self._sandbox.snapshot(self._prepared.state_names, into)

    async def hibernate(self, unwanted: Callable[[], bool] = lambda: False) -> Hibernation:
        """Give the process back and keep the database as files; the next call forks again on them.

        Args:
            unwanted: asked once the files are copied; if it says yes, they are dropped and the process goes on.

        Raises:
            SandboxError, OSError: the state could not be copied out; the process goes on.
        """
        sandbox = self._sandbox
        if sandbox is None or not self._templates.warm(self._prepared):
            return Hibernation(done=False, why="there is no process, or it may hold state in memory")
        if not sandbox.alive:
            self._end = self._end or "ended"
        elif why := await self._reason_to_stay(sandbox):
            return Hibernation(done=False, why=why)
        resting = await RestingState.take(sandbox, self._prepared.state_names, self._scratch)
        whole = any(file.name == self._prepared.database for file in resting.files)
        if unwanted() or not whole:
            await resting.drop()
            why = "it was called meanwhile" if whole else "its database is not a file that can be copied"
            return Hibernation(done=False, why=why)
        self._sandbox, self._resting = None, resting
        await self._templates.disposal.dispose(sandbox)
        return Hibernation(done=True)

    async def close(self) -> None:
        """Destroy the instance, and the files of a hibernated one. Idempotent."""
        sandbox, self._sandbox = self._sandbox, None
        resting, self._resting = self._resting, None
        if resting is not None:
            await resting.drop()
        if sandbox is not None:
            await self._templates.disposal.dispose(sandbox)

    async def _dispatch(self, name: str, arguments: JsonObject, timeout_s: float) -> ToolOutcome:
        warning = None
        if self._sandbox is None or not self._sandbox.alive:
            ended = self._end or "ended"
            try:
                warning = await (self._restart() if self._resting is None else self._wake(self._resting))
            except (SandboxError, ArtifactError, TimeoutError, OSError) as error:
                lost = f"had {ended}" if self._resting is None else "was hibernated"
                return _failure(
                    ToolStatus.SERVER_ERROR,
                    f"the tools' process {lost} and no new one could be started: {error}; reset the episode",
                    owner=error.owner if isinstance(error, QuintainError) else Owner.INFRASTRUCTURE,
                )
        assert self._sandbox is not None
        request = {
            "op": "tool",
            "name": name,
            "arguments": arguments,
            "index": self._calls,
        }
        try:
            answer = await self._sandbox.call(request, timeout_s)
        except CallTimeout:
            self._end = "been stopped after a timeout"
            outcome = _failure(
                ToolStatus.TIMEOUT,
                f"{name} did not answer within {timeout_s:g} s and was stopped; the next call starts a new process "
                "on the database as last committed",
            )
        except SandboxLost:
            self._end = "ended without answering"
            outcome = _failure(
                ToolStatus.SERVER_ERROR,
                f"the process of {name} ended without answering; the next call starts a new one on the database as "
                "last committed",
            )
        except ResultTooLarge:
            self._end = "been stopped after a result over the size limit"
            outcome = _too_large(name)
        else:
            outcome = _outcome(name, answer)
        return outcome.model_copy(update={"warning": warning}) if warning else outcome

    async def _reason_to_stay(self, sandbox: Sandbox) -> str | None:
        """What the instance holds beyond its files, by its own word; None for nothing."""
        try:
            answer = await sandbox.call({"op": "rest"}, _REST_TIMEOUT_S)
        except SandboxError:
            self._end = "ended between two calls"
            return None
        return None if answer.get("rest") is True else whole_text(str(answer.get("why", "it gave no reason")))[:500]

    async def _restart(self) -> str:
        """A new instance on what the ended one last committed; the old one goes only when the new one stands."""
        if self._sandbox is None:
            raise SandboxLost("the environment has no instance; reset it first")
        with tempfile.TemporaryDirectory(prefix="quintain_state_", dir=self._scratch) as directory:
            async with asyncio.timeout(self._restart_timeout_s):
                state = await self._sandbox.snapshot(self._prepared.state_names, Path(directory))
                fresh = await self._fork(state)
        ended, self._sandbox = self._sandbox, fresh
        await self._templates.disposal.dispose(ended)
        return self._said()

    async def _wake(self, resting: RestingState) -> str | None:
        """A new instance on a hibernated one's files. Silent, unless its process had died before."""
        async with asyncio.timeout(self._restart_timeout_s):
            self._sandbox = await self._fork(resting.files)
        self._resting = None
        await resting.drop()
        return self._said() if self._end is not None else None

    async def _fork(self, state: Sequence[StateFile]) -> Sandbox:
        return await self._templates.claim(self._prepared, {"seed": self._seed}, state)

    def _said(self) -> str:
        ended, self._end = self._end or "ended", None
        return (
            f"the tools' process had {ended} in an earlier call; this call ran in a new one, on the database "
            "as last committed, and what was not committed is lost"
        )


def _outcome(name: str, answer: JsonObject) -> ToolOutcome:
    try:
        checked = _Answer.model_validate(answer)
    except ValidationError as error:
        found = "; ".join(f"{'.'.join(map(str, item['loc']))}: {item['msg']}" for item in error.errors()[:3])
        return _failure(
            ToolStatus.SERVER_ERROR,
            f"{name} answered what is not an answer ({found[:300]})",
        )
    status = ToolStatus(checked.status)
    log = whole_text(checked.log[:_MAX_LOG])
    if status is ToolStatus.OK:
        text = whole_text(checked.text or "")
        if len(text.encode()) > MAX_RESULT_BYTES:
            return _too_large(name, log)
        return ToolOutcome(status=status, text=text, http_status=checked.http_status, log=log)
    error_text = whole_text(checked.error or f"{name} failed and gave no reason")[:_MAX_ERROR]
    return _failure(status, error_text, http_status=checked.http_status, log=log)


def _too_large(name: str, log: str = "") -> ToolOutcome:
    limit = MAX_RESULT_BYTES // 2**20
    return _failure(
        ToolStatus.TOOL_ERROR,
        f"the result of {name} is over {limit} MiB; ask for less, for example a page",
        log=log,
    )


def _failure(
    status: ToolStatus,
    error: str,
    *,
    http_status: int | None = None,
    log: str = "",
    owner: Owner | None = None,
) -> ToolOutcome:
    return ToolOutcome(
        status=status,
        error=error,
        http_status=http_status,
        log=log,
        owner=owner or OWNERS[status],
    )


@dataclass(frozen=True)
class ReadyDatabase:
    """A scenario that was made ready."""

    kind: "DatabaseKind"
    prepared: PreparedDatabase

    @property
    def tools(self) -> Sequence[Tool]:
        """The scenario's tools."""
        return self.prepared.tools

    @property
    def build_ms(self) -> Mapping[str, float]:
        """Milliseconds of each part of making it ready; empty where its template stood already."""
        if self.prepared.start_kind not in ("cold", "cached_cold"):
            return {}
        return self.prepared.template.build_ms

    @property
    def state(self) -> str:
        """File name of the database."""
        return self.prepared.database

    @property
    def state_names(self) -> Sequence[str]:
        """The database and its side files."""
        return self.prepared.state_names

    @property
    def warm(self) -> bool:
        """Whether it was shown that earlier calls do not show in later ones."""
        return self.prepared.warm

    @property
    def code(self) -> str:
        """Source of the scenario's application."""
        return self.prepared.code

    def environment(self) -> DatabaseEnvironment:
        """A new environment, to be reset."""
        kind = self.kind
        return DatabaseEnvironment(
            kind.templates, self.prepared, scratch=kind.scratch, restart_timeout_s=kind.restart_timeout_s
        )


@dataclass(frozen=True)
class DatabaseKind:
    """Scenarios of Agent World Model; see `EnvironmentKind`."""

    templates: DatabaseTemplates
    episode_class: EpisodeClass
    scratch: Path | None = None
    restart_timeout_s: float = 30.0

    async def prepare(self, payload_digest: str, payload: Callable[[], JsonObject]) -> Prepared:
        """The scenario of that digest, made ready."""
        return ReadyDatabase(self, await self.templates.prepare(payload_digest, payload))

    async def rebuilt(self, prepared: Prepared) -> Rebuilt:
        """Its payload loaded in a template of its own, not warmed."""
        assert isinstance(prepared, ReadyDatabase)  # the one that this kind made
        anew = await self.templates.anew(prepared.prepared)
        return Rebuilt(ReadyDatabase(self, anew), self.templates.files(prepared.prepared), anew.template.state)
