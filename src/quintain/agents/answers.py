"""Reads what an endpoint answers, whole or in streamed pieces. Nothing that it sends is taken on trust."""

import json
import math
from collections.abc import AsyncIterable, AsyncIterator
from typing import Any, Final

from quintain.agents.base import Completion
from quintain.contracts.endpoints import content_text
from quintain.contracts.turns import RequestedCall, TokenTrace, Usage
from quintain.contracts.untrusted import whole_text

JsonObject = dict[str, Any]

MAX_CALLS: Final = 128
"""Most tool calls of one answer."""

_TOKEN_ID: Final = "token_id:"


class NotACompletion(Exception):
    """What came is no chat completion; the text says why. `told` is an error that the endpoint sent in its place."""

    def __init__(self, why: str, told: JsonObject | str | None = None) -> None:
        super().__init__(why)
        self.told = told


async def events(pieces: AsyncIterable[bytes]) -> AsyncIterator[str]:
    """The data of each event of an event stream (WHATWG HTML, server-sent events)."""
    data = list[str]()
    async for line in _lines(pieces):
        if not line and data:
            yield "\n".join(data)
            data = []
        elif line.startswith("data:"):
            data.append(line[5:].removeprefix(" "))
    if data:  # a stream may end without its last empty line
        yield "\n".join(data)


async def _lines(pieces: AsyncIterable[bytes]) -> AsyncIterator[str]:
    begun = list[bytes]()  # a long line is put together once, not anew with every piece
    async for piece in pieces:
        first, *more = piece.split(b"\n")
        begun.append(first)
        for following in more:
            yield _line(begun)
            begun = [following]
    yield _line(begun)


def _line(parts: list[bytes]) -> str:
    return b"".join(parts).removesuffix(b"\r").decode("utf-8", "replace")


class StreamedAnswer:
    """Puts the chunks of a streamed completion together, in the form of one that is not streamed."""

    def __init__(self) -> None:
        self._texts: dict[str, list[str]] = {"content": [], "reasoning_content": [], "refusal": []}
        self._calls: list[JsonObject] = []
        self._places: dict[Any, int] = {}
        self._logprobs: list[Any] = []
        self._token_ids: list[Any] = []
        self._top: JsonObject = {}
        self._finish: str | None = None
        self.begun = False
        """Whether anything of the answer has come."""

    @property
    def finished(self) -> bool:
        """Whether the endpoint has said why the answer ended."""
        return self._finish is not None

    def add(self, data: str) -> None:
        """Take in one chunk.

        Raises:
            NotACompletion: it is none.
        """
        try:
            chunk = json.loads(data)
        except (ValueError, RecursionError):
            raise NotACompletion("streamed what is not JSON") from None
        if not isinstance(chunk, dict):
            raise NotACompletion("streamed JSON that is no object")
        if chunk.get("error"):
            raise NotACompletion("broke the stream off with an error", chunk["error"])
        for name in ("model", "usage", "prompt_token_ids"):
            if chunk.get(name) is not None:
                self._top[name] = chunk[name]
        choices = chunk.get("choices")
        if isinstance(choices, list):
            for choice in choices:
                if isinstance(choice, dict) and choice.get("index", 0) == 0:
                    self._choice(choice)

    def _choice(self, choice: JsonObject) -> None:
        delta = choice.get("delta")
        if isinstance(delta, dict):
            self._delta(delta)
        logprobs, ids = choice.get("logprobs"), choice.get("token_ids")
        if isinstance(logprobs, dict) and isinstance(logprobs.get("content"), list):
            self._logprobs += logprobs["content"]
        if isinstance(ids, list):
            self._token_ids += ids
        if choice.get("prompt_token_ids") is not None:
            self._top["prompt_token_ids"] = choice["prompt_token_ids"]
        if isinstance(choice.get("finish_reason"), str):
            self._finish = choice["finish_reason"]

    def _delta(self, delta: JsonObject) -> None:
        for name, known in (
            ("content", "content"),
            ("reasoning_content", "reasoning_content"),
            ("reasoning", "reasoning_content"),
            ("refusal", "refusal"),
        ):
            if isinstance(delta.get(name), str) and delta[name]:
                self._texts[known].append(delta[name])
                self.begun = True
        calls = delta.get("tool_calls")
        for call in calls if isinstance(calls, list) else []:
            if isinstance(call, dict):
                self._call(call)

    def _call(self, delta: JsonObject) -> None:
        """One piece of a call. Pieces belong together by index; where there is none, a new id begins a call."""
        self.begun = True
        index, named = delta.get("index"), delta.get("id")
        if isinstance(index, int):
            place = self._places.setdefault(index, len(self._calls))
        elif isinstance(named, str) and named:
            place = self._places.setdefault(named, len(self._calls))
        else:
            place = max(len(self._calls) - 1, 0)
        if place >= len(self._calls):
            if len(self._calls) >= MAX_CALLS:
                raise NotACompletion(f"streamed more than {MAX_CALLS} tool calls")
            self._calls.append({"id": "", "name": "", "arguments": []})
        call = self._calls[place]
        function = delta.get("function")
        function = function if isinstance(function, dict) else {}
        if isinstance(named, str) and named:
            call["id"] = named
        name, arguments = function.get("name"), function.get("arguments")
        if isinstance(name, str) and name != call["name"]:  # some endpoints repeat it with every piece
            call["name"] += name
        if isinstance(arguments, str):
            call["arguments"].append(arguments)
        elif isinstance(arguments, dict):
            call["arguments"].append(json.dumps(arguments))

    def answer(self) -> JsonObject:
        """The answer in one piece."""
        message: JsonObject = {name: "".join(parts) for name, parts in self._texts.items() if parts}
        if self._calls:
            message["tool_calls"] = [
                {"id": one["id"], "function": {"name": one["name"], "arguments": "".join(one["arguments"])}}
                for one in self._calls
            ]
        choice: JsonObject = {"message": message, "finish_reason": self._finish}
        if self._logprobs:
            choice["logprobs"] = {"content": self._logprobs}
        if self._token_ids:
            choice["token_ids"] = self._token_ids
        return {**self._top, "choices": [choice]}


def completion_of(answer: Any, first_token_ms: float | None = None) -> Completion:
    """A completion from an endpoint's parsed answer.

    Raises:
        NotACompletion: it is none.
    """
    if not isinstance(answer, dict):
        raise NotACompletion("answered JSON that is no object")
    choices = answer.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = choice.get("message") if isinstance(choice, dict) else None
    if not isinstance(choice, dict) or not isinstance(message, dict):
        raise NotACompletion("answered JSON that is no chat completion", answer.get("error"))
    finish, model = choice.get("finish_reason"), answer.get("model")
    reasoning = message.get("reasoning_content") or message.get("reasoning")
    refusal = message.get("refusal")
    text = content_text(message.get("content"))
    return Completion(
        text=None if text is None else whole_text(text),
        reasoning=whole_text(reasoning) if isinstance(reasoning, str) and reasoning else None,
        refusal=whole_text(refusal) if isinstance(refusal, str) and refusal else None,
        calls=_calls(message),
        finish_reason=whole_text(finish)[:100] if isinstance(finish, str) else None,
        model=whole_text(model)[:200] if isinstance(model, str) and model else None,
        usage=_usage(answer.get("usage")),
        tokens=_tokens(answer, choice),
        first_token_ms=first_token_ms,
    )


def _calls(message: JsonObject) -> tuple[RequestedCall, ...]:
    given = message.get("tool_calls")
    if given is None:
        return ()
    if not isinstance(given, list) or len(given) > MAX_CALLS:
        raise NotACompletion(f"answered with tool_calls that are no list of up to {MAX_CALLS} calls")
    calls = []
    for number, call in enumerate(given):
        function = call.get("function") if isinstance(call, dict) else None
        name = function.get("name") if isinstance(function, dict) else None
        if not isinstance(function, dict) or not isinstance(name, str):
            raise NotACompletion("answered with a tool call that names no function")
        arguments = function.get("arguments")
        if arguments is None:
            arguments = ""
        elif not isinstance(arguments, str):  # some endpoints send them parsed
            arguments = json.dumps(arguments)
        named = call.get("id")
        identity = whole_text(named)[:200] if isinstance(named, str) and named else f"call_{number}"
        calls.append(RequestedCall(id=identity, name=whole_text(name), arguments=whole_text(arguments)))
    return tuple(calls)


def _usage(given: Any) -> Usage:
    usage = given if isinstance(given, dict) else {}
    details = usage.get("prompt_tokens_details")
    return Usage(
        prompt_tokens=_count(usage.get("prompt_tokens")),
        completion_tokens=_count(usage.get("completion_tokens")),
        cached_prompt_tokens=_count(details.get("cached_tokens")) if isinstance(details, dict) else None,
    )


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53 else None


def _tokens(answer: JsonObject, choice: JsonObject) -> TokenTrace:
    """Token ids come in fields of their own (vLLM, SGLang) or in place of the tokens' text (`token_id:42`)."""
    logprobs = choice.get("logprobs")
    content = logprobs.get("content") if isinstance(logprobs, dict) else None
    entries = content if isinstance(content, list) and all(isinstance(one, dict) for one in content) else []
    numbers = [one.get("logprob") for one in entries]
    told = bool(entries) and all(_is_number(one) for one in numbers)
    texts = [one.get("token") for one in entries]
    named = bool(texts) and all(isinstance(one, str) for one in texts)
    ids = _ids(choice.get("token_ids"))
    if ids is None and named and all(one.startswith(_TOKEN_ID) for one in texts):
        ids = _ids([int(one[9:]) if one[9:].isdecimal() and len(one) < 30 else None for one in texts])
    prompt = answer.get("prompt_token_ids")
    return TokenTrace(
        prompt_token_ids=_ids(choice.get("prompt_token_ids") if prompt is None else prompt),
        token_ids=ids,
        tokens=tuple(whole_text(one) for one in texts) if named else None,
        logprobs=tuple(float(one) for one in numbers) if told else None,
    )


def _is_number(value: Any) -> bool:
    return (
        isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e300 and math.isfinite(value)
    )


def _ids(value: Any) -> tuple[int, ...] | None:
    if not isinstance(value, list) or not value or any(_count(one) is None for one in value):
        return None
    return tuple(value)
