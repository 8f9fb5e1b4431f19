"""A conversation with a model: what was said, what each turn was, and the limits it runs into."""

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Any

from quintain.agents.base import AgentLimits, ChatRequest, Completer, Completion
from quintain.agents.patience import failed_exchange
from quintain.contracts.turns import Ending, EndReason, TurnRecord
from quintain.errors import ContextOverflow, Delivery, EndpointError

JsonObject = dict[str, Any]

_MAX_DETAIL = 500


class Dialogue:
    """One agent's conversation.

    A turn that got no answer leaves the conversation as it was, so the same turn may be taken again.
    """

    def __init__(
        self,
        completer: Completer,
        limits: AgentLimits,
        opening: Sequence[JsonObject],
        *,
        now: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.limits = limits
        self.turns: list[TurnRecord] = []
        self.ending: Ending | None = None
        self.final_answer: str | None = None
        self._completer = completer
        self._messages = list(opening)
        self._told = 0
        self._steps = 0
        self._answers = 0
        self._tokens = 0
        self._malformed = 0
        self._now = now
        self._clock = clock

    def say(self, *messages: JsonObject) -> None:
        """Add what the model is to be shown next."""
        self._messages += messages

    def end(self, reason: EndReason, detail: str = "", final_answer: str | None = None) -> None:
        """The agent acts no more."""
        self.ending = Ending(reason=reason, detail=detail[:_MAX_DETAIL])
        self.final_answer = final_answer

    def spoke(self, text: str, *, plainly: bool = False) -> None:
        """The agent said something to whoever it works for; `plainly` as plain text, which is so told of its turn."""
        self.final_answer = text
        if plainly:
            self.turns[-1] = self.turns[-1].model_copy(update={"responded": True})

    def ended_by_environment(self, last: str) -> None:
        """The environment ended the episode; the agent's answer is what it said last."""
        self.end(EndReason.ENVIRONMENT_ENDED, last, self.final_answer)

    def step(self) -> bool:
        """Whether another tool call may be made; counts it."""
        if self._steps >= self.limits.max_steps:
            self.end(EndReason.MAX_STEPS, f"{self.limits.max_steps} tool calls were made")
            return False
        self._steps += 1
        return True

    def malformed(self, problem: str) -> bool:
        """Whether another unreadable call may be given back to the model; counts it."""
        self._malformed += 1
        if self._malformed > self.limits.max_malformed:
            self.end(EndReason.MALFORMED_CALLS, f"{self._malformed} calls could not be read, the last: {problem}")
            return False
        return True

    async def turn(self, tools: tuple[JsonObject, ...] = ()) -> Completion | None:
        """The model's next answer, which becomes part of the conversation; None when the dialogue has ended instead.

        Raises:
            EndpointError: there is no answer, and it is no limit of the model's that was met.
        """
        allowed = self._allowed()
        if self.ending is not None:
            return None
        began, started = self._clock(), self._now()
        request = ChatRequest(messages=tuple(self._messages), tools=tools, max_tokens=allowed)
        try:
            completion = await self._completer.complete(request)
        except asyncio.CancelledError:
            # nobody knows how far it came
            broken = EndpointError("the exchange was cancelled", delivery=Delivery.POSSIBLY_DELIVERED)
            self._failed(broken, started, (self._clock() - began) * 1e3)
            raise
        except EndpointError as error:
            self._failed(error, started, (self._clock() - began) * 1e3)
            if isinstance(error, ContextOverflow):
                self.end(EndReason.CONTEXT_OVERFLOW, str(error))
                return None
            raise
        self._took(completion, started, (self._clock() - began) * 1e3)
        return None if self._cut_short(completion) else completion

    def _allowed(self) -> int | None:
        """Most tokens of the next answer; ends the dialogue where there may be none."""
        limits = self.limits
        if self._answers >= limits.max_turns:
            self.end(EndReason.MAX_TURNS, f"the model answered {limits.max_turns} times")
        if limits.max_total_tokens is None:
            return limits.max_turn_tokens
        left = limits.max_total_tokens - self._tokens
        if left <= 0:
            self.end(EndReason.MAX_TOTAL_TOKENS, f"{self._tokens} of {limits.max_total_tokens} tokens were written")
            return None
        return left if limits.max_turn_tokens is None else min(left, limits.max_turn_tokens)

    def _took(self, completion: Completion, started: float, latency_ms: float) -> None:
        reply = _reply(completion)
        self.turns.append(
            TurnRecord(
                index=len(self.turns) + 1,
                messages=self._new(),
                prompt_messages=len(self._messages),
                reply=reply,
                reasoning=completion.reasoning,
                refusal=completion.refusal,
                calls=completion.calls,
                finish_reason=completion.finish_reason,
                served_model=completion.model,
                usage=completion.usage,
                tokens=completion.tokens,
                started=started,
                latency_ms=latency_ms,
                first_token_ms=completion.first_token_ms,
                retried=completion.retried,
            )
        )
        self._messages.append(reply)
        self._told = len(self._messages)
        self._answers += 1
        self._tokens += _written(completion)

    def _new(self) -> tuple[JsonObject, ...]:
        """The messages that no turn has told of yet."""
        found = tuple(self._messages[self._told :])
        self._told = len(self._messages)
        return found

    def _failed(self, error: EndpointError, started: float, latency_ms: float) -> None:
        self.turns.append(
            TurnRecord(
                index=len(self.turns) + 1,
                messages=self._new(),
                prompt_messages=len(self._messages),
                started=started,
                latency_ms=latency_ms,
                delivery=error.delivery,
                error=failed_exchange(error, latency_ms),
                retried=error.retried,
            )
        )

    def _cut_short(self, completion: Completion) -> bool:
        """Whether an answer ends the dialogue by how it ended."""
        if completion.refusal is not None:
            self.end(EndReason.REFUSED, completion.refusal)
        elif completion.finish_reason == "content_filter":
            self.end(EndReason.CONTENT_FILTER, "the endpoint's filter stopped the answer")
        elif completion.finish_reason == "length":
            self._length(completion)
        return self.ending is not None

    def _length(self, completion: Completion) -> None:
        limits, written = self.limits, _written(completion)
        if limits.max_total_tokens is not None and self._tokens >= limits.max_total_tokens:
            self.end(EndReason.MAX_TOTAL_TOKENS, f"{self._tokens} of {limits.max_total_tokens} tokens were written")
        elif completion.usage.completion_tokens is not None and written < (limits.max_turn_tokens or 2**63):
            self.end(EndReason.CONTEXT_OVERFLOW, f"an answer was cut off at {written} tokens, short of its own limit")
        else:
            self.end(EndReason.MAX_TURN_TOKENS, f"an answer was cut off at {written} tokens")


def _reply(completion: Completion) -> JsonObject:
    """The answer as the next prompt holds it. A model's reasoning is not sent back to it."""
    reply: JsonObject = {"role": "assistant", "content": completion.text}
    if completion.calls:
        reply["tool_calls"] = [
            {"id": one.id, "type": "function", "function": {"name": one.name, "arguments": one.arguments}}
            for one in completion.calls
        ]
    elif completion.text is None:
        reply["content"] = completion.refusal or ""
    return reply


def _written(completion: Completion) -> int:
    """Tokens of an answer; where nothing told them, one for four bytes of text."""
    for told in (completion.tokens.token_ids, completion.tokens.logprobs):
        if completion.usage.completion_tokens is None and told is not None:
            return len(told)
    if completion.usage.completion_tokens is not None:
        return completion.usage.completion_tokens
    texts = [completion.text, completion.reasoning, *(one.name + one.arguments for one in completion.calls)]
    return sum(-(-len(text.encode()) // 4) for text in texts if text)
