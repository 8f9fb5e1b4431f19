"""Whose failure is what: for each cause its component, its owner, what may be tried again, and whether a reward stands.

The rollout engine looks its retries and owners up here, and the reference page prints it. A cause is an error's class,
a terminal reason, how a tool call went, or whose failure made a verdict uncertain.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from quintain import errors
from quintain.contracts.terminal import TerminalReason
from quintain.environments.base import ToolStatus
from quintain.errors import Owner, QuintainError


class Retry(StrEnum):
    """What may be done again, and is safe to."""

    NEVER = "never"
    START = "start"
    VERIFY = "verify"
    REQUEST = "request"
    APPEND = "append"
    RESUME = "resume"


RETRIES: Final[dict[Retry, str]] = {
    Retry.NEVER: "nothing is tried again",
    Retry.START: "the attempt begins again in a new sandbox, as long as its agent has made no call",
    Retry.VERIFY: "the same final state is verified again",
    Retry.REQUEST: "the same request is sent again; when that is used up, as `start`",
    Retry.APPEND: "the same record is appended again",
    Retry.RESUME: "when the run goes on, the attempt is played again if nothing of it was scored; its record says so",
}
"""What each rule means."""


class RewardValidity(StrEnum):
    """What becomes of the reward."""

    STANDS = "stands"
    NONE = "none"


@dataclass(frozen=True)
class Attribution:
    """One row."""

    cause: str
    component: str
    owner: Owner | None
    """None: nobody's failure."""
    retry: Retry
    reward: RewardValidity


_AGENT, _ENVIRONMENT = Owner.AGENT, Owner.ENVIRONMENT
_VERIFIER, _INFRASTRUCTURE = Owner.VERIFIER, Owner.INFRASTRUCTURE
_STANDS, _NONE = RewardValidity.STANDS, RewardValidity.NONE


def _errors(component: str, owner: Owner | None, retry: Retry, *kinds: type[QuintainError]) -> Iterator[Attribution]:
    for kind in kinds:
        yield Attribution(kind.__name__, component, owner, retry, _NONE if owner is not None else _STANDS)


def _ends(
    component: str, owner: Owner | None, retry: Retry, reward: RewardValidity, *reasons: TerminalReason
) -> Iterator[Attribution]:
    for reason in reasons:
        yield Attribution(reason.value, component, owner, retry, reward)


def _error_rows() -> Iterator[Attribution]:
    never, infrastructure = Retry.NEVER, _INFRASTRUCTURE
    yield from _errors("platform", infrastructure, never, QuintainError, errors.LifecycleError)
    yield from _errors(
        "request", infrastructure, never,
        errors.UsageError, errors.DescriptorError, errors.SettingsError, errors.DatasetError, errors.UnknownTaskError,
        errors.QuarantineError, errors.QuarantinedTaskError, errors.RegistryError, errors.PoolError,
    )  # fmt: skip
    yield from _errors(
        "artifacts", infrastructure, Retry.START, errors.ArtifactError, errors.ArtifactMissing, errors.ArtifactCorrupt
    )
    yield from _errors(
        "sandboxes", infrastructure, Retry.START,
        errors.SandboxError, errors.SandboxLost, errors.CallTimeout, errors.CapacityError,
    )  # fmt: skip
    yield from _errors(
        "sandboxes", infrastructure, never, errors.IsolationError, errors.RuntimeBuildError, errors.ResultTooLarge
    )
    yield from _errors(
        "environment", _ENVIRONMENT, never, errors.TemplateError, errors.StateTooLarge, errors.ExpressionError
    )
    yield from _errors(
        "endpoint", infrastructure, Retry.REQUEST,
        errors.RateLimited, errors.EndpointUnavailable, errors.EndpointTimeout,
    )  # fmt: skip
    yield from _errors("endpoint", infrastructure, never, errors.EndpointError, errors.EndpointRefused)
    yield from _errors("agent", None, never, errors.ContextOverflow)
    yield from _errors("agent plane", infrastructure, never, errors.AgentPlaneError, errors.EpisodeOver)
    yield from _errors("ledger", infrastructure, Retry.START, errors.LedgerError, errors.LedgerUnavailable)
    yield from _errors("ledger", infrastructure, never, errors.LedgerUnreadable)
    yield from _errors("records", infrastructure, Retry.APPEND, errors.SpoolUnavailable, errors.SpoolFull)
    yield from _errors(
        "records", infrastructure, never,
        errors.RecordError, errors.RecordUnreadable, errors.StoreError, errors.StoreBusy,
    )  # fmt: skip
    yield from _errors("verifier", _VERIFIER, never, errors.VerifierError)


def _end_rows() -> Iterator[Attribution]:
    reason, never = TerminalReason, Retry.NEVER
    yield from _ends("agent", None, never, _STANDS, reason.DONE)
    yield from _ends("environment", None, never, _STANDS, reason.ENVIRONMENT_ENDED)
    yield from _ends(
        "agent", _AGENT, never, _STANDS,
        reason.REFUSED, reason.CONTENT_FILTER, reason.MALFORMED_CALLS, reason.EARLY_STOP,
        reason.MAX_STEPS, reason.MAX_TURNS, reason.MAX_TOKENS, reason.CONTEXT, reason.WALL_TIME,
    )  # fmt: skip
    yield from _ends("endpoint", _INFRASTRUCTURE, Retry.START, _NONE, reason.ENDPOINT_FAILED)
    yield from _ends("agent's program", _INFRASTRUCTURE, never, _NONE, reason.AGENT_FAILED)
    yield from _ends("sandboxes", _INFRASTRUCTURE, never, _NONE, reason.SANDBOX_LOST)
    yield from _ends("request", _INFRASTRUCTURE, never, _NONE, reason.BAD_REQUEST)
    yield from _ends("sandboxes", _INFRASTRUCTURE, Retry.START, _NONE, reason.START_FAILED, reason.START_TIMEOUT)
    yield from _ends("operator", _INFRASTRUCTURE, Retry.RESUME, _NONE, reason.CANCELLED_AT_START, reason.CANCELLED)
    yield from _ends("client", None, never, _STANDS, reason.RESET, reason.CLOSED)
    yield from _ends("client", _INFRASTRUCTURE, never, _NONE, reason.CONNECTION_LOST, reason.IDLE)
    yield from _ends("operator", _INFRASTRUCTURE, never, _NONE, reason.SERVER_SHUTDOWN)
    yield from _ends(
        "platform", _INFRASTRUCTURE, never, _NONE, reason.KEEP_FAILED, reason.PLATFORM_FAILED, reason.RECORD_LOST
    )


_TOOL_CALLS: Final = {
    ToolStatus.OK: None,
    ToolStatus.TOOL_NOT_FOUND: _AGENT,
    ToolStatus.INVALID_ARGS: _AGENT,
    ToolStatus.TOOL_ERROR: _AGENT,
    ToolStatus.SERVER_ERROR: _ENVIRONMENT,
    ToolStatus.TIMEOUT: _ENVIRONMENT,
}


def _other_rows() -> Iterator[Attribution]:
    for status, owner in _TOOL_CALLS.items():
        yield Attribution(f"tool call: {status}", "environment", owner, Retry.NEVER, _STANDS)
    for owner in (_VERIFIER, _ENVIRONMENT, _INFRASTRUCTURE):
        retry = Retry.VERIFY if owner is _INFRASTRUCTURE else Retry.NEVER
        yield Attribution(_uncertain_verdict(owner), "verifier", owner, retry, _NONE)
    yield Attribution(BUG, "platform", _INFRASTRUCTURE, Retry.NEVER, _NONE)


def _uncertain_verdict(owner: Owner) -> str:
    return f"uncertain verdict: {owner}"


BUG: Final = "any other exception"
"""The cause of what is no QuintainError."""

ROWS: Final = (*_error_rows(), *_end_rows(), *_other_rows())
"""Every row, in the order in which it is printed."""

TABLE: Final = {row.cause: row for row in ROWS}
"""The rows by cause."""


def of_error(error: BaseException) -> Attribution:
    """The row of an error: its own class's, or that of the nearest class above it that has one."""
    if not isinstance(error, QuintainError):
        return TABLE[BUG]
    return next(TABLE[kind.__name__] for kind in type(error).__mro__ if kind.__name__ in TABLE)


def of_verdict(owner: Owner) -> Attribution:
    """The row of an uncertain verdict, by whose failure made it so."""
    return TABLE.get(_uncertain_verdict(owner), TABLE[_uncertain_verdict(Owner.VERIFIER)])
