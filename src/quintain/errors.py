"""The one error tree.

QuintainError
├── UsageError                a mistake in what the user gave us; the CLI prints one line and exits 2
│   ├── DescriptorError       a descriptor or digest that cannot be read
│   ├── SettingsError         a setting out of range
│   ├── DatasetError          a dataset folder that cannot be read as one
│   ├── ExpressionError       an expression of a document that is none, or has no value (the environment's fault)
│   ├── UnknownTaskError      a scenario or task index that does not exist
│   ├── QuarantineError       a quarantine list that cannot be read, or names what its dataset does not hold
│   ├── QuarantinedTaskError  a task or scenario that was shown to be unsound
│   ├── RegistryError         a task registry that is absent, damaged, or cannot be written
│   └── PoolError             a change of the pools that their rules do not allow
├── ArtifactError
│   ├── ArtifactMissing       no blob under that digest
│   └── ArtifactCorrupt       the bytes under a digest are not those the digest names
├── SandboxError
│   ├── IsolationError        this host cannot give the isolation level asked for
│   ├── RuntimeBuildError     the class's own interpreter environment could not be made
│   ├── TemplateError         a payload did not load (the environment's fault)
│   ├── SandboxLost           the episode's process is gone
│   ├── CallTimeout           a call did not answer in time
│   ├── ResultTooLarge        an answer over the size the platform accepts
│   └── StateTooLarge         state files over the size an instance may have (the environment's fault)
├── EndpointError             a model's endpoint gave no usable answer; `delivery` says how far the request came
│   ├── RateLimited           it wants fewer requests; `retry_after_s` says when the next may come, where it said so
│   ├── EndpointUnavailable   it could not be reached, broke off, answered 5xx or what is not its protocol
│   ├── EndpointTimeout       it did not answer in full in time
│   ├── EndpointRefused       it refuses the key, the model's name or the request; trying again will not help
│   └── ContextOverflow       the conversation is longer than the model takes; the attempt is truncated, not failed
├── AgentPlaneError           an outside agent's request got no answer; `delivery` says if the call may have been made
│   └── EpisodeOver           the episode has ended and takes no more calls
├── LifecycleError            an illegal transition of an episode's life
├── CapacityError             no room for another session or episode
├── LedgerError               a ledger that was closed, or that cannot hold what is submitted
│   ├── LedgerUnreadable      a file that is damaged, not a ledger, or one of a newer version; never overwritten
│   └── LedgerUnavailable     a ledger that is full, read-only, locked for too long or gone; submit again
├── RecordError               a record that cannot be kept
│   ├── RecordUnreadable      not a record, or one of a version that is not known here
│   ├── SpoolUnavailable      a spool whose disk is full or cannot be written; append again
│   │   └── SpoolFull         a spool over its size: nothing takes its records away
│   └── StoreError            a store that cannot be read or written
│       └── StoreBusy         another process ingests into it
└── VerifierError             a verifier that did not give a usable verdict

Every failure has exactly one owner (`Owner`); only the agent's may cost reward.
"""

from enum import StrEnum
from typing import Any


class Owner(StrEnum):
    """Who caused a failure. Only `agent` failures may cost reward; the others are masked and counted."""

    AGENT = "agent"
    ENVIRONMENT = "environment"
    VERIFIER = "verifier"
    INFRASTRUCTURE = "infrastructure"


class Delivery(StrEnum):
    """How far a request came. Only what was not sent has certainly had no effect."""

    NOT_SENT = "not_sent"
    POSSIBLY_DELIVERED = "possibly_delivered"
    DELIVERED = "delivered"


class QuintainError(Exception):
    """Base of every error raised on purpose. `owner` says whose failure it is."""

    owner: Owner = Owner.INFRASTRUCTURE


class UsageError(QuintainError):
    """What the user gave is wrong; the message says what, where and what to do."""


class DescriptorError(UsageError):
    """A descriptor, digest or seed that does not follow the contract."""


class SettingsError(UsageError):
    """A setting out of range or contradicting another."""


class DatasetError(UsageError):
    """A dataset folder or file that does not have the published layout."""


class ExpressionError(UsageError):
    """An expression in a document that cannot be read, or that has no value for the variables it is given."""

    owner = Owner.ENVIRONMENT


class UnknownTaskError(UsageError):
    """A scenario name or task index that the task source does not hold."""


class QuarantineError(UsageError):
    """A quarantine list that cannot be read or written, or that names what its dataset does not hold."""


class QuarantinedTaskError(UsageError):
    """A task, or a whole scenario, that was shown to be unsound and is not played."""


class RegistryError(UsageError):
    """A task registry that is absent or damaged, or cannot be written. What is damaged is left as it is."""


class PoolError(UsageError):
    """A change of the pools that their rules do not allow; nothing of it was done."""


class ArtifactError(QuintainError):
    """Base of the content-addressed store's errors."""


class ArtifactMissing(ArtifactError):
    """Nothing is stored under the digest asked for."""


class ArtifactCorrupt(ArtifactError):
    """The stored bytes do not have the digest they are stored under; they are never served."""


class SandboxError(QuintainError):
    """Base of the sandbox providers' errors."""


class IsolationError(SandboxError):
    """The host cannot give the isolation level that was asked for."""


class RuntimeBuildError(SandboxError):
    """An environment class's interpreter environment could not be built."""


class TemplateError(SandboxError):
    """A payload did not load in its template; the environment's fault, not the agent's."""

    owner = Owner.ENVIRONMENT


class SandboxLost(SandboxError):
    """The episode's process ended without answering."""


class CallTimeout(SandboxError):
    """A call did not answer within its time; the process was killed."""


class ResultTooLarge(SandboxError):
    """An answer larger than the platform accepts."""


class StateTooLarge(SandboxError):
    """State files that say they are larger than the instance's whole disk; no episode could go on from them."""

    owner = Owner.ENVIRONMENT


class EndpointError(QuintainError):
    """A model's endpoint gave no usable answer. `retryable`: the same request may succeed later."""

    retryable = False

    def __init__(
        self,
        message: str,
        *,
        delivery: Delivery = Delivery.DELIVERED,
        status: int | None = None,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(message)
        self.delivery = delivery
        self.status = status
        self.retry_after_s = retry_after_s
        self.retried: tuple[Any, ...] = ()
        """The exchanges that failed before this one, where it was tried again."""


class RateLimited(EndpointError):
    """The endpoint wants fewer requests."""

    retryable = True


class EndpointUnavailable(EndpointError):
    """The endpoint could not be reached, broke off, or answered 5xx or what is not its protocol."""

    retryable = True


class EndpointTimeout(EndpointError):
    """The endpoint did not answer in full in time."""

    retryable = True


class EndpointRefused(EndpointError):
    """The endpoint refuses the key, the address, the model's name or the request."""


class ContextOverflow(EndpointError):
    """The conversation is longer than the model takes."""


class AgentPlaneError(QuintainError):
    """An outside agent's request got no answer. `delivery` says whether the call may have been made."""

    def __init__(self, message: str, *, delivery: Delivery = Delivery.DELIVERED) -> None:
        super().__init__(message)
        self.delivery = delivery


class EpisodeOver(AgentPlaneError):
    """The episode has ended and takes no more calls."""


class LifecycleError(QuintainError):
    """An illegal transition of an episode's life (a bug in the caller)."""


class CapacityError(QuintainError):
    """No room for another session or episode; try again later. `counts` says how full what is."""

    def __init__(self, message: str, **counts: int) -> None:
        super().__init__(message)
        self.counts = counts


class LedgerError(QuintainError):
    """Base of the ledger's errors. What raised one may not have been committed; submitting it again is safe."""


class LedgerUnreadable(LedgerError):
    """The ledger is damaged, is none, or was written by a newer version. It is left as it is."""


class LedgerUnavailable(LedgerError):
    """The ledger's database cannot be written now: it is full, read-only, locked for too long, or gone."""


class RecordError(QuintainError):
    """Base of what goes wrong with records after their episode. Appending or sending one again is always safe."""


class RecordUnreadable(RecordError):
    """Not a record, damaged, or of a schema version that this version of quintain does not know."""


class SpoolUnavailable(RecordError):
    """The spool cannot be written: its disk is full or read-only. What raised it was not acknowledged."""


class SpoolFull(SpoolUnavailable):
    """The spool holds all it may, because nothing takes its records away."""


class StoreError(RecordError):
    """The store of records cannot be read or written."""


class StoreBusy(StoreError):
    """Another process has the store open for writing."""


class VerifierError(QuintainError):
    """A verifier that crashed, timed out or returned something that is not a verdict."""

    owner = Owner.VERIFIER
