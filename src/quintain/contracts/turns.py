"""What one exchange of an agent with its model leaves behind, and how an agent came to its end. It is evidence."""

from enum import StrEnum
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field

from quintain.errors import Delivery

JsonObject = dict[str, Any]


class _Contract(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class RequestedCall(_Contract):
    """A tool call as the model wrote it. `arguments` is its text, which need not be JSON."""

    id: str
    name: str
    arguments: str


class Usage(_Contract):
    """Tokens as the endpoint counted them; None where it did not say."""

    prompt_tokens: int | None = Field(default=None, ge=0)
    completion_tokens: int | None = Field(default=None, ge=0)
    cached_prompt_tokens: int | None = Field(default=None, ge=0)


class TokenTrace(_Contract):
    """The tokens of one exchange as the endpoint returned them; what it did not return is None, never empty.

    `tokens`, `logprobs` (natural logarithms) and `token_ids` are of the completion, in order. An endpoint that counts
    its end-of-turn token in one and not in the other gives lists of different lengths; they are kept as they came.
    """

    prompt_token_ids: tuple[int, ...] | None = None
    token_ids: tuple[int, ...] | None = None
    tokens: tuple[str, ...] | None = None
    logprobs: tuple[float, ...] | None = None


class FailedExchange(_Contract):
    """One request that got no usable answer."""

    error: str = Field(description="Name of the error's class")
    message: str
    delivery: Delivery
    status: int | None = Field(default=None, description="HTTP status, where there was an answer")
    retry_after_s: float | None = None
    latency_ms: float = Field(ge=0)


class TurnRecord(_Contract):
    """One turn of an agent: what its model was sent, and what came back.

    `messages` are those that are new in the prompt: the whole prompt is the messages and replies of all turns so far,
    those without a reply included.
    A turn without `error` has its reply in `reply`, as it went into the conversation.
    """

    index: int = Field(ge=1, description="1 for the first turn")
    messages: tuple[JsonObject, ...]
    prompt_messages: int = Field(ge=0, description="How many messages the whole prompt had")
    reply: JsonObject | None = None
    reasoning: str | None = None
    refusal: str | None = None
    calls: tuple[RequestedCall, ...] = ()
    finish_reason: str | None = None
    served_model: str | None = Field(default=None, description="Which model the endpoint says answered")
    usage: Usage = Usage()
    tokens: TokenTrace = TokenTrace()
    responded: bool | None = Field(default=None, description="True where its plain text was sent through `respond`")
    started: float = Field(description="Seconds since 1970 (UTC)")
    latency_ms: float = Field(ge=0, description="All attempts and the waits between them")
    first_token_ms: float | None = Field(default=None, ge=0, description="Of a streamed answer")
    delivery: Delivery = Delivery.DELIVERED
    error: FailedExchange | None = Field(default=None, description="Why there is no reply")
    retried: tuple[FailedExchange, ...] = Field(default=(), description="Requests that failed before the last one")


class EndReason(StrEnum):
    """Why an agent made no further call."""

    FINISHED = "finished"
    REFUSED = "refused"
    CONTENT_FILTER = "content_filter"
    MALFORMED_CALLS = "malformed_calls"
    EARLY_STOP = "early_stop"
    MAX_STEPS = "max_steps"
    MAX_TURNS = "max_turns"
    MAX_TURN_TOKENS = "max_turn_tokens"
    MAX_TOTAL_TOKENS = "max_total_tokens"
    CONTEXT_OVERFLOW = "context_overflow"
    DEADLINE = "deadline"
    ENVIRONMENT_ENDED = "environment_ended"


_TRUNCATED: Final = frozenset(
    {
        EndReason.MAX_STEPS,
        EndReason.MAX_TURNS,
        EndReason.MAX_TURN_TOKENS,
        EndReason.MAX_TOTAL_TOKENS,
        EndReason.CONTEXT_OVERFLOW,
        EndReason.DEADLINE,
    }
)


class Ending(_Contract):
    """How an agent came to its end."""

    reason: EndReason
    detail: str = ""

    @property
    def truncated(self) -> bool:
        """Whether a limit cut it off; otherwise it ended by its own doing."""
        return self.reason in _TRUNCATED
