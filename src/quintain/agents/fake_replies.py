"""What a fake endpoint answers: replies as data, and rules that choose one by what was asked."""

import json
import re
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

JsonObject = dict[str, Any]

CALL_OPEN: Final = "<tool_call>"
_WORD: Final = re.compile(r"\s*[\w']+|\s*[^\w\s]|\s+")


class _Reply(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    delay_s: float = Field(default=0.0, ge=0, description="Waits so long before anything is sent")


class Says(_Reply):
    """The model writes a text, calls tools, or both. Arguments that are text go out as they are, sound or not."""

    kind: Literal["says"] = "says"
    text: str | None = None
    reasoning: str | None = None
    calls: tuple[tuple[str, JsonObject | str], ...] = ()
    finish_reason: str | None = Field(default=None, description="None: as it comes of the rest")
    cut_after: int | None = Field(
        default=None, ge=0, description="The connection breaks after so many streamed chunks, or half the body"
    )
    pause_s: float = Field(default=0.0, ge=0, description="Waits so long between two streamed chunks")


class Refuses(_Reply):
    """The model refuses."""

    kind: Literal["refuses"] = "refuses"
    text: str = "I cannot help with that."


class Fails(_Reply):
    """An HTTP error."""

    kind: Literal["fails"] = "fails"
    status: int = Field(default=500, ge=300, le=599)
    message: str = "failed on request"
    code: str | None = None
    retry_after: str | None = None


class Garbage(_Reply):
    """Any body, as JSON by its type."""

    kind: Literal["garbage"] = "garbage"
    body: str = "<html>not what you came for</html>"
    status: int = Field(default=200, ge=200, le=599)
    content_type: str = "application/json"


class Drops(_Reply):
    """Closes the connection without a word."""

    kind: Literal["drops"] = "drops"


Reply = Says | Refuses | Fails | Garbage | Drops

REPLIES: TypeAdapter[list[Reply]] = TypeAdapter(list[Annotated[Reply, Field(discriminator="kind")]])
"""Reads a list of replies from JSON."""

Rule = Callable[[JsonObject], Reply]
"""A reply by the request's body."""


class Solution(BaseModel):
    """What is to be called, and then said, for one task."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    calls: tuple[tuple[str, JsonObject], ...]
    final_answer: str = "Done."


class Solver:
    """A rule: a model that knows the solutions of some tasks, by the task's text, and calls natively or by convention.

    It keeps nothing between requests: how far a conversation has come is read from it.
    """

    def __init__(self, solutions: Mapping[str, Solution], otherwise: str = "I do not know how.") -> None:
        self._solutions = dict(solutions)
        self._otherwise = otherwise

    def __call__(self, body: JsonObject) -> Reply:
        """The next call of the conversation's task, or its final answer."""
        messages = body.get("messages") or []
        task = next((str(one.get("content")) for one in messages if one.get("role") == "user"), "")
        known = self._solutions.get(task.strip())
        if known is None:
            return Says(text=self._otherwise)
        native = bool(body.get("tools"))
        done = sum(_called(one) for one in messages if one.get("role") == "assistant")
        if not native and done == 0:
            return Says(text=written("list_tools", {}))
        if not native:
            done -= 1
        if done >= len(known.calls):
            return Says(text=known.final_answer)
        name, arguments = known.calls[done]
        if native:
            return Says(calls=((name, arguments),))
        return Says(text="Next.\n" + written("call_tool", {"tool_name": name, "arguments": arguments}))


def written(name: str, arguments: JsonObject) -> str:
    """A call in the text convention."""
    return f"{CALL_OPEN}\n{json.dumps({'name': name, 'arguments': arguments})}\n</tool_call>"


def _called(message: JsonObject) -> int:
    return len(message.get("tool_calls") or ()) + (message.get("content") or "").count(CALL_OPEN)


def tokenized(text: str) -> list[str]:
    """A text in pieces that make it up: the fake's tokens."""
    return _WORD.findall(text)


def token_id(token: str) -> int:
    """A token's id: the same in every process."""
    return zlib.crc32(token.encode()) % 50_000


def logprob(token: str) -> float:
    """A token's logprob: the same in every process."""
    return -(token_id(token) % 1000 + 1) / 1000


def completion_text(reply: Says) -> str:
    """All that a reply makes its model write, as one text to count tokens of."""
    calls = [name + _arguments(arguments) for name, arguments in reply.calls]
    return "".join([reply.reasoning or "", reply.text or "", *calls])


def completion_body(reply: Says | Refuses, body: JsonObject) -> JsonObject:
    """A reply as the body of a chat completion; what the request asked for of tokens is in it."""
    message: JsonObject = {"role": "assistant", "content": reply.text}
    finish, pieces = "stop", tokenized(reply.text or "")
    if isinstance(reply, Refuses):
        message |= {"content": None, "refusal": reply.text}
    else:
        limit = body.get("max_tokens") or body.get("max_completion_tokens")
        pieces = tokenized(completion_text(reply))
        if isinstance(limit, int) and len(pieces) > limit and not reply.calls:
            pieces, finish = pieces[:limit], "length"
            message["content"] = "".join(pieces)
        if reply.reasoning:
            message["reasoning_content"] = reply.reasoning
        if reply.calls:
            message["tool_calls"] = [tool_call(number, *call) for number, call in enumerate(reply.calls)]
            finish = "tool_calls"
        finish = reply.finish_reason or finish
    prompt = tokenized(json.dumps(body.get("messages")))
    choice: JsonObject = {"index": 0, "message": message, "finish_reason": finish}
    answer = {
        "id": "chatcmpl-fake", "object": "chat.completion", "created": 0, "model": body.get("model"),
        "choices": [choice],
        "usage": {
            "prompt_tokens": len(prompt), "completion_tokens": len(pieces), "total_tokens": len(prompt) + len(pieces)
        },
    }  # fmt: skip
    if body.get("logprobs"):
        choice["logprobs"] = {
            "content": [{"token": one, "logprob": logprob(one), "bytes": list(one.encode())} for one in pieces]
        }
    if body.get("return_token_ids"):
        choice["token_ids"] = [token_id(one) for one in pieces]
        answer["prompt_token_ids"] = [token_id(one) for one in prompt]
    return answer


def tool_call(number: int, name: str, arguments: JsonObject | str) -> JsonObject:
    """One call as a message has it."""
    return {
        "id": f"call_{number}",
        "type": "function",
        "function": {"name": name, "arguments": _arguments(arguments)},
    }


def _arguments(arguments: JsonObject | str) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(arguments)


def chunks_of(answer: JsonObject, usage: bool, size: int = 7) -> Sequence[JsonObject]:
    """A completion's body in streamed chunks: texts and arguments in pieces of a few characters, usage in the last."""
    (choice,) = answer["choices"]
    message, finish = choice["message"], choice["finish_reason"]
    head = {name: answer[name] for name in ("id", "created", "model")} | {"object": "chat.completion.chunk"}
    deltas: list[JsonObject] = [{"role": "assistant", "content": ""}]
    for name in ("reasoning_content", "content", "refusal"):
        deltas += [{name: piece} for piece in _pieces(message.get(name) or "", size)]
    for index, call in enumerate(message.get("tool_calls", ())):
        function = call["function"]
        first = {"index": index, "id": call["id"], "type": "function"}
        deltas.append({"tool_calls": [first | {"function": {"name": function["name"], "arguments": ""}}]})
        for piece in _pieces(function["arguments"], size):
            deltas.append({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    told = [{"index": 0, "delta": delta, "finish_reason": None} for delta in deltas]
    _spread(told, choice)
    told.append({"index": 0, "delta": {}, "finish_reason": finish})
    chunks = [head | {"choices": [one]} for one in told]
    if "prompt_token_ids" in answer:
        chunks[0]["prompt_token_ids"] = answer["prompt_token_ids"]
    return [*chunks, head | {"choices": [], "usage": answer["usage"]}] if usage else chunks


def _spread(told: list[JsonObject], choice: JsonObject) -> None:
    """Token ids and logprobs over the chunks, in order and all of them."""
    content, ids = (choice.get("logprobs") or {}).get("content", []), choice.get("token_ids", [])
    share = -(-max(len(content), len(ids)) // len(told))
    for number, one in enumerate(told):
        part = slice(number * share, (number + 1) * share)
        if content[part]:
            one["logprobs"] = {"content": content[part]}
        if ids[part]:
            one["token_ids"] = ids[part]


def _pieces(text: str, size: int) -> list[str]:
    return [text[first : first + size] for first in range(0, len(text), size)]
