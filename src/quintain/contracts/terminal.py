"""Why an episode ended, and whether a limit cut it off.

Terminated is not truncated (as in Gymnasium): an agent that ends by its own doing has had its say, one that ran into a
limit might have gone on. Both are verified, and the record keeps them apart.
"""

from enum import StrEnum
from typing import Final

from pydantic import BaseModel, ConfigDict, Field

from quintain.contracts.lifecycle import Stage
from quintain.contracts.turns import EndReason
from quintain.errors import Delivery, Owner

MAX_MESSAGE_CHARS: Final = 2000


class TerminalReason(StrEnum):
    """Why there was no further step."""

    DONE = "done"
    ENVIRONMENT_ENDED = "environment_ended"
    REFUSED = "refused"
    CONTENT_FILTER = "content_filter"
    MALFORMED_CALLS = "malformed_calls"
    EARLY_STOP = "early_stop"
    MAX_STEPS = "max_steps"
    MAX_TURNS = "max_turns"
    MAX_TOKENS = "max_tokens"
    CONTEXT = "context"
    WALL_TIME = "wall_time"
    ENDPOINT_FAILED = "endpoint_failed"
    AGENT_FAILED = "agent_failed"
    SANDBOX_LOST = "sandbox_lost"
    BAD_REQUEST = "bad_request"
    START_FAILED = "start_failed"
    START_TIMEOUT = "start_timeout"
    CANCELLED_AT_START = "cancelled_at_start"
    CANCELLED = "cancelled"
    RESET = "reset"
    CLOSED = "closed"
    CONNECTION_LOST = "connection_lost"
    IDLE = "idle"
    SERVER_SHUTDOWN = "server_shutdown"
    KEEP_FAILED = "keep_failed"
    PLATFORM_FAILED = "platform_failed"
    RECORD_LOST = "record_lost"


TRUNCATED: Final = frozenset(
    {
        TerminalReason.MAX_STEPS,
        TerminalReason.MAX_TURNS,
        TerminalReason.MAX_TOKENS,
        TerminalReason.CONTEXT,
        TerminalReason.WALL_TIME,
    }
)
"""Ends by a limit."""

CALLED_OFF: Final = frozenset(
    {
        TerminalReason.CANCELLED_AT_START,
        TerminalReason.CANCELLED,
        TerminalReason.RESET,
        TerminalReason.CLOSED,
        TerminalReason.CONNECTION_LOST,
        TerminalReason.IDLE,
        TerminalReason.SERVER_SHUTDOWN,
    }
)
"""Ends from outside, whosever failure they are: the episode's stage is then `cancelled`, and not `failed`."""

CUT_OFF: Final = frozenset({TerminalReason.CONNECTION_LOST, TerminalReason.IDLE, TerminalReason.SERVER_SHUTDOWN})
"""Ends from outside that are a failure, of the infrastructure, where nothing was scored before."""

ENDINGS: Final[dict[EndReason, TerminalReason]] = {
    EndReason.FINISHED: TerminalReason.DONE,
    EndReason.REFUSED: TerminalReason.REFUSED,
    EndReason.CONTENT_FILTER: TerminalReason.CONTENT_FILTER,
    EndReason.MALFORMED_CALLS: TerminalReason.MALFORMED_CALLS,
    EndReason.EARLY_STOP: TerminalReason.EARLY_STOP,
    EndReason.MAX_STEPS: TerminalReason.MAX_STEPS,
    EndReason.MAX_TURNS: TerminalReason.MAX_TURNS,
    EndReason.MAX_TURN_TOKENS: TerminalReason.MAX_TOKENS,
    EndReason.MAX_TOTAL_TOKENS: TerminalReason.MAX_TOKENS,
    EndReason.CONTEXT_OVERFLOW: TerminalReason.CONTEXT,
    EndReason.DEADLINE: TerminalReason.WALL_TIME,
    EndReason.ENVIRONMENT_ENDED: TerminalReason.ENVIRONMENT_ENDED,
}
"""What an agent's own ending is for the episode."""


class Failure(BaseModel):
    """One failure with the chain of evidence: what failed, in which component, at which stage, and whose it is."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    cause: str = Field(description="The error's class, a terminal reason, or `uncertain_verdict`")
    owner: Owner
    component: str = Field(description="Which part of the platform, or beside it, produced the failure")
    stage: Stage = Field(description="The stage of the episode's life that it hit")
    message: str = Field(max_length=MAX_MESSAGE_CHARS)
    at: float = Field(description="Seconds since 1970 (UTC)")
    delivery: Delivery | None = Field(default=None, description="How far the request came that failed, if one did")
