"""The agents room's contract: what acts, what it sees, and what it can tell of itself.

Every agent has `final_answer` and `act(tools, last)`, the Protocol `Agent` of the episodes room. An agent that reports
has `turns` and `ending` besides. What it sees of a call is an `Observation`: a text, and whether the call failed; never
a reward, a verdict or whose failure something was.
"""

from collections.abc import Sequence
from typing import Any, Final, Protocol, runtime_checkable

from pydantic import BaseModel, ConfigDict, Field

from quintain.contracts.tools import Tool
from quintain.contracts.turns import Ending, FailedExchange, RequestedCall, TokenTrace, TurnRecord, Usage
from quintain.errors import Owner

JsonObject = dict[str, Any]

UNANSWERED: Final = "the environment could not answer; the call may be tried again"
"""What an agent reads where the platform failed."""


class _Contract(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Observation(_Contract):
    """What an agent sees of a call."""

    text: str
    failed: bool = False
    done: bool = Field(default=False, description="The environment has ended the episode with it")
    tools_changed: bool = Field(default=False, description="Other tools are there now than before the call")


def observed(last: Any) -> Observation:
    """What an agent may see of a call's outcome.

    Args:
        last: an `Observation`, or an outcome with `status`, `text`, `error` and `owner`; None where there is none.
    """
    if isinstance(last, Observation):
        return last
    if last is None or last.owner is Owner.INFRASTRUCTURE:
        return Observation(text=UNANSWERED, failed=True)
    failed = last.status != "ok"
    return Observation(text=(last.error if failed else last.text) or "", failed=failed)


@runtime_checkable
class ReportingAgent(Protocol):
    """An agent that tells of its exchanges with a model and of how it ended."""

    @property
    def turns(self) -> Sequence[TurnRecord]:
        """Its exchanges so far, those that failed included."""
        ...

    @property
    def ending(self) -> Ending | None:
        """How it came to its end; None while it acts."""
        ...


class ChatRequest(_Contract):
    """One request for a chat completion; what an endpoint's settings say comes besides."""

    messages: tuple[JsonObject, ...]
    tools: tuple[JsonObject, ...] = Field(default=(), description="As OpenAI's protocol has them")
    max_tokens: int | None = Field(default=None, ge=1)


class Completion(_Contract):
    """A chat completion."""

    text: str | None = None
    reasoning: str | None = None
    refusal: str | None = None
    calls: tuple[RequestedCall, ...] = ()
    finish_reason: str | None = None
    model: str | None = None
    usage: Usage = Usage()
    tokens: TokenTrace = TokenTrace()
    first_token_ms: float | None = None
    retried: tuple[FailedExchange, ...] = ()


class Completer(Protocol):
    """What completes chats: an endpoint's client, with or without retries."""

    async def complete(self, request: ChatRequest) -> Completion:
        """The model's answer.

        Raises:
            EndpointError: there is none.
        """
        ...


class AgentLimits(_Contract):
    """How much an agent may do. What runs into a limit is truncated, not finished."""

    max_steps: int = Field(default=30, ge=1, description="Tool calls")
    max_turns: int = Field(default=60, ge=1, description="Answers of the model")
    max_turn_tokens: int | None = Field(default=4096, ge=1, description="Tokens of one answer, asked of the endpoint")
    max_total_tokens: int | None = Field(default=None, ge=1, description="Tokens of all answers")
    max_malformed: int = Field(default=3, ge=0, description="Unreadable calls that are given back to the model")
    max_observation_chars: int = Field(default=32_768, ge=64, description="Of one result, as the model is shown it")


def shown(observation: Observation, limit: int) -> str:
    """An observation's text, in its middle shortened to a limit of characters."""
    text = observation.text
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]}\n[{len(text) - 2 * half} characters left out]\n{text[-half:]}"


def function_tools(tools: Sequence[Tool]) -> tuple[JsonObject, ...]:
    """Tools as OpenAI's protocol has them."""
    return tuple(
        {
            "type": "function",
            "function": {
                "name": tool.name,
                "description": tool.description,
                "parameters": {"type": "object", "properties": {}} | tool.input_schema,
            },
        }
        for tool in tools
    )
