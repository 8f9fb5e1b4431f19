"""What an environment is to an episode: tools, a reset, calls whose outcome says what happened. And what a kind is."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, Protocol, runtime_checkable

from pydantic import BaseModel, ConfigDict

from quintain.contracts.descriptor import Limits, ToolContract
from quintain.contracts.tools import Tool
from quintain.errors import Owner
from quintain.sandboxes.base import StateFile

JsonObject = dict[str, Any]

MAX_RESULT_BYTES: Final = 10 * 2**20
"""Largest result a tool may give, in bytes of UTF-8; a larger one is a tool_error."""


class ToolStatus(StrEnum):
    """How a call went, by its cause and never by the words of a message."""

    OK = "ok"
    TOOL_NOT_FOUND = "tool_not_found"
    INVALID_ARGS = "invalid_args"
    TOOL_ERROR = "tool_error"
    SERVER_ERROR = "server_error"
    TIMEOUT = "timeout"


OWNERS: Final[Mapping[ToolStatus, Owner | None]] = {
    ToolStatus.OK: None,
    ToolStatus.TOOL_NOT_FOUND: Owner.AGENT,
    ToolStatus.INVALID_ARGS: Owner.AGENT,
    ToolStatus.TOOL_ERROR: Owner.AGENT,
    ToolStatus.SERVER_ERROR: Owner.ENVIRONMENT,
    ToolStatus.TIMEOUT: Owner.ENVIRONMENT,
}
"""Whose failure a call's is, unless more is known."""


class ToolOutcome(BaseModel):
    """What one call came to. `owner` is whose failure it is, None for a success."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    status: ToolStatus
    text: str | None = None
    error: str | None = None
    http_status: int | None = None
    warning: str | None = None
    log: str = ""
    owner: Owner | None = None
    duration_ms: float = 0.0


@dataclass(frozen=True)
class Hibernation:
    """Whether an environment hibernated, and why not."""

    done: bool
    why: str = ""


class Environment(Protocol):
    """One episode's environment. Methods are called one at a time."""

    @property
    def tools(self) -> Sequence[Tool]:
        """The tools, in the environment's own order."""
        ...

    @property
    def start_kind(self) -> str:
        """How the instance came to be: cold, cached_cold, warm_claim, template_fork; in_process where there is none."""
        ...

    @property
    def segments(self) -> Mapping[str, float]:
        """Milliseconds of each part of the start, by name."""
        ...

    @property
    def initial(self) -> Sequence[StateFile]:
        """The files of the initial state; the first is the one that `Prepared.state` names."""
        ...

    @property
    def done(self) -> bool:
        """Whether it has ended the episode itself, as a counterpart does that hangs up; no call does anything then."""
        ...

    @property
    def hibernated(self) -> bool:
        """Whether it is only files now, with no process."""
        ...

    async def reset(self, seed: int, start: JsonObject | None = None) -> None:
        """Start from the initial state, which `start` varies (`TaskRef.start`). An environment is reset once.

        Raises:
            SandboxError: no instance could be started.
            TemplateError: the kind cannot start so.
        """
        ...

    async def call(self, name: str, arguments: JsonObject, timeout_s: float) -> ToolOutcome:
        """Call a tool. Every failure of the tool, and the loss of the instance, is an outcome and not an exception."""
        ...

    async def snapshot(self, into: Path) -> list[StateFile]:
        """Copy the state as last committed into a directory.

        Raises:
            SandboxLost: the state is gone.
        """
        ...

    async def hibernate(self, unwanted: Callable[[], bool] = lambda: False) -> Hibernation:
        """Give the process back until the next call, if files are all there is of the episode.

        Args:
            unwanted: asked once the files are copied; if it says yes, they are dropped and the process goes on.

        Raises:
            SandboxError, OSError: the files could not be copied out; the process goes on.
        """
        ...

    async def close(self) -> None:
        """Give back everything. Idempotent."""
        ...


@dataclass(frozen=True)
class EpisodeClass:
    """The parts of an episode's identity that all episodes of one environment class share."""

    environment_class: str
    dependency_lock: str
    """`cas://` reference of the class's dependency lock."""
    runtime: str
    """Provider profile with exact interpreter, SQLite and profile versions."""
    policy: str
    """`cas://` reference of the security policy."""
    tool_contract: ToolContract = field(default_factory=ToolContract)
    limits: Limits = field(default_factory=Limits)
    versions: Mapping[str, str] = field(default_factory=dict)


class Prepared(Protocol):
    """A payload that was made ready: loaded and checked, so that episodes can begin on it."""

    @property
    def tools(self) -> Sequence[Tool]:
        """The tools that an episode begins with."""
        ...

    @property
    def build_ms(self) -> Mapping[str, float]:
        """Milliseconds of each part of making it ready."""
        ...

    @property
    def state(self) -> str:
        """Name of the file that holds the state."""
        ...

    @property
    def state_names(self) -> Sequence[str]:
        """That name, and those of side files without which it may be torn."""
        ...

    @property
    def warm(self) -> bool:
        """Whether it was shown that a process holds nothing that its files do not."""
        ...

    @property
    def code(self) -> str:
        """Source of what runs, for people; empty where there is none."""
        ...

    def environment(self) -> Environment:
        """A new environment, to be reset."""
        ...


@dataclass(frozen=True)
class Rebuilt:
    """A payload that was made ready once more."""

    prepared: Prepared
    kept: Sequence[StateFile]
    """The initial state that episodes begin on."""
    state: Mapping[str, bytes]
    """The one that this time made, by file name."""


@runtime_checkable
class RebuildsPayloads(Protocol):
    """What a kind can whose making ready can go otherwise the next time: validation has it done again."""

    async def rebuilt(self, prepared: Prepared) -> Rebuilt:
        """The same payload loaded once more, by itself and not warmed.

        Raises:
            TemplateError, SandboxError: it does not load again.
        """
        ...


class EnvironmentKind(Protocol):
    """A kind of environment on this host: makes payloads of its kind ready."""

    @property
    def episode_class(self) -> EpisodeClass:
        """The identity that its episodes share."""
        ...

    async def prepare(self, payload_digest: str, payload: Callable[[], JsonObject]) -> Prepared:
        """The payload of that digest, made ready; `payload` is read only when it is not at hand.

        Raises:
            TemplateError: the payload does not load, or describes itself wrongly.
            SandboxError: what it needs could not be started.
            ArtifactError: the initial state could not be kept.
        """
        ...
