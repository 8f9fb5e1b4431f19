"""A client of an OpenAI-compatible endpoint: bounded in time and size, silent about the key, and typed in its failures.

This module loads an HTTP client, which is slow, so the room does not import it for those who need none.
"""

import asyncio
import json
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Final, Literal, Self

import httpx
from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError

from quintain.agents.answers import NotACompletion, StreamedAnswer, completion_of, events
from quintain.agents.base import ChatRequest, Completion
from quintain.agents.transport import UnreadableBody, json_headers, pieces, plain_client, whole_body
from quintain.contracts.endpoints import (
    ApiKey,
    BaseUrl,
    ModelName,
    error_of,
    problems_of,
    retry_after,
    told_of,
    without_key,
)
from quintain.contracts.identity import digest_of
from quintain.contracts.turns import TokenTrace
from quintain.errors import (
    ContextOverflow,
    Delivery,
    EndpointError,
    EndpointRefused,
    EndpointTimeout,
    EndpointUnavailable,
    RateLimited,
    UsageError,
)

JsonObject = dict[str, Any]

MAX_REPLY_BYTES: Final = 64 * 2**20
"""Largest answer of an endpoint; token ids and logprobs take about a hundred bytes a token."""

_PASSING: Final = frozenset({408, 409, 425})
_GATEWAY: Final = frozenset({502, 504})
_TOO_LONG: Final = ("context_length_exceeded", "context length", "context window", "maximum context")


class ChatSettings(BaseModel):
    """Which model of which endpoint, how it samples, and what is asked for. Neither repr nor dump holds the key."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    base_url: BaseUrl
    api_key: ApiKey | None = Field(default=None, repr=False, exclude=True)
    model: ModelName
    stream: bool = False
    temperature: float | None = Field(default=None, ge=0, le=10)
    top_p: float | None = Field(default=None, gt=0, le=1)
    seed: int | None = Field(default=None, ge=0, lt=2**53)
    logprobs: bool = Field(default=False, description="Ask for the logprob of each token")
    token_ids: bool = Field(default=False, description="Ask for token ids, as vLLM and SGLang give them")
    parallel_tool_calls: bool | None = Field(default=None, description="None: not said")
    token_limit: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    extra: JsonObject = Field(default_factory=dict, description="Further fields of the request's body; no secrets")
    timeout_s: float = Field(default=300.0, gt=0, le=7200, description="Seconds for one exchange, to its last byte")
    connect_timeout_s: float = Field(default=10.0, gt=0, le=600)

    @classmethod
    def read(cls, **values: Any) -> Self:
        """Settings from values that a user gave; None and "" stand for what was not given.

        Raises:
            UsageError: a value is unusable; the message names it and does not hold it.
        """
        problem = ""
        try:
            return cls(**{name: value for name, value in values.items() if value not in (None, "")})
        except ValidationError as error:
            problem = problems_of(error, "the model's")
        # outside of the except, so that the new error does not carry the old one and with it the input
        raise UsageError(problem)

    @property
    def model_digest(self) -> str:
        """Names the model in scores and records: of the address, the model's name and how it samples."""
        told = self.model_dump(include={"base_url", "model", "temperature", "top_p", "seed", "extra"})
        return digest_of(told)

    def body(self, request: ChatRequest) -> JsonObject:
        """The request's body."""
        body: JsonObject = {"model": self.model, "messages": list(request.messages)}
        if request.tools:
            body["tools"] = list(request.tools)
            if self.parallel_tool_calls is not None:
                body["parallel_tool_calls"] = self.parallel_tool_calls
        if request.max_tokens is not None:
            body[self.token_limit] = request.max_tokens
        body |= {name: value for name in ("temperature", "top_p", "seed") if (value := getattr(self, name)) is not None}
        if self.logprobs:
            body["logprobs"] = True
        if self.token_ids:
            body["return_token_ids"] = True
        if self.stream:
            body |= {"stream": True, "stream_options": {"include_usage": True}}
        return body | self.extra


class ChatClient:
    """Exchanges with one endpoint; any number at a time. `async with`, or `aclose` at the end.

    Args:
        now: the wall clock, for a Retry-After that is a date.
        clock: a monotonic clock, in seconds.
    """

    def __init__(
        self,
        settings: ChatSettings,
        *,
        now: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.settings = settings
        self._now = now
        self._clock = clock
        self._client = plain_client()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close all connections."""
        await self._client.aclose()

    async def complete(self, request: ChatRequest) -> Completion:
        """One chat completion, in one attempt.

        Raises:
            RateLimited, EndpointUnavailable, EndpointTimeout, EndpointRefused, ContextOverflow: there is none.
        """
        exchange = _Exchange(self.settings, self._now, self._clock)
        return _without_key(await exchange.completed(self._client, request), self.settings.api_key)


class _Exchange:
    """One request and its answer; knows how far it has come."""

    def __init__(self, settings: ChatSettings, now: Callable[[], float], clock: Callable[[], float]) -> None:
        self._settings = settings
        self._now = now
        self._clock = clock
        self._name = f"the model's endpoint {settings.base_url}"
        self._delivery = Delivery.NOT_SENT

    async def completed(self, client: httpx.AsyncClient, request: ChatRequest) -> Completion:
        settings = self._settings
        try:
            async with asyncio.timeout(settings.timeout_s):
                return await self._sent(client, request)
        except TimeoutError:
            why = f"{self._name} did not answer in full within {settings.timeout_s:g} s"
            raise EndpointTimeout(why, delivery=self._delivery) from None
        except httpx.TimeoutException as error:
            why = f"{self._name} could not be reached in time: {type(error).__name__}"
            raise EndpointTimeout(why, delivery=self._delivery) from None
        except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError) as error:
            why = f"could not be reached or broke off: {type(error).__name__} {self._told(str(error))}"
            raise self._unavailable(why.strip()) from None
        except UnreadableBody as error:
            raise self._unavailable(str(error)) from None
        except NotACompletion as error:
            raise self._misspoken(error) from None

    async def _sent(self, client: httpx.AsyncClient, request: ChatRequest) -> Completion:
        settings, began = self._settings, self._clock()
        content = json.dumps(settings.body(request)).encode("ascii")
        accept = "text/event-stream, application/json" if settings.stream else "application/json"
        async with client.stream(
            "POST",
            f"{settings.base_url}/chat/completions",
            content=content,
            headers=json_headers(settings.api_key, accept),
            timeout=httpx.Timeout(settings.timeout_s, connect=settings.connect_timeout_s),
            extensions={"trace": self._watch},
        ) as response:
            if not response.is_success:
                raise self._failure(response, await whole_body(response, MAX_REPLY_BYTES))
            if response.headers.get("content-type", "").partition(";")[0].strip().lower() == "text/event-stream":
                return await self._streamed(response, began)
            data = await whole_body(response, MAX_REPLY_BYTES)
        self._delivery = Delivery.DELIVERED
        try:
            answer = json.loads(data)
        except (ValueError, RecursionError):
            raise self._unavailable(f"answered {len(data)} bytes that are not JSON") from None
        return completion_of(answer)

    async def _streamed(self, response: httpx.Response, began: float) -> Completion:
        answer, first = StreamedAnswer(), None
        async for data in events(pieces(response, MAX_REPLY_BYTES)):
            if data.strip() == "[DONE]":
                break
            answer.add(data)
            if first is None and answer.begun:
                first = (self._clock() - began) * 1e3
        if not answer.finished:
            raise self._unavailable("ended its stream before the answer was complete")
        self._delivery = Delivery.DELIVERED
        return completion_of(answer.answer(), first)

    async def _watch(self, event: str, _: Any) -> None:
        """Told by the transport of each thing that it begins and ends."""
        if event.endswith(".send_request_headers.started"):
            self._delivery = Delivery.POSSIBLY_DELIVERED

    def _failure(self, response: httpx.Response, data: bytes) -> EndpointError:
        status, settings = response.status_code, self._settings
        self._delivery = Delivery.POSSIBLY_DELIVERED if status in _GATEWAY else Delivery.DELIVERED
        if status in (401, 403):  # what such an answer says may well be the key, so it is not told
            why = f"{self._name} refused the key ({status}); give one that may use model {settings.model}"
            return EndpointRefused(why, status=status)
        wait = retry_after(response.headers.get("retry-after"), self._now())
        told = f"{self._name} answered {status}{error_of(data, settings.api_key)}"
        code = _code_of(data)
        if status == 429 and code != "insufficient_quota":
            return RateLimited(told, status=status, retry_after_s=wait)
        if status in _PASSING or status >= 500:
            return EndpointUnavailable(told, delivery=self._delivery, status=status, retry_after_s=wait)
        if status in (400, 413, 422) and _says_too_long(code, data):
            return ContextOverflow(told, status=status)
        if status == 404:
            told += f"; check that the address (often it ends in /v1) and model {settings.model} are right"
        elif response.is_redirect:
            told += "; redirects are not followed: give the address that it leads to"
        return EndpointRefused(told, status=status)

    def _misspoken(self, error: NotACompletion) -> EndpointError:
        """An answer that is none. An error that came in place of one is read as an error's body would be."""
        data = json.dumps({"error": error.told}).encode() if error.told else b""
        told = error_of(data, self._settings.api_key) if data else ""
        why = f"{self._name} {error}{told}"
        if _says_too_long(_code_of(data), data):
            return ContextOverflow(why, delivery=self._delivery)
        return EndpointUnavailable(why, delivery=self._delivery)

    def _unavailable(self, why: str) -> EndpointUnavailable:
        return EndpointUnavailable(f"{self._name} {why}", delivery=self._delivery)

    def _told(self, text: str) -> str:
        return told_of(text, self._settings.api_key)


def _without_key(completion: Completion, api_key: SecretStr | None) -> Completion:
    """A completion that does not hold the key, should an endpoint have sent it back; then its tokens go too."""
    told = completion.model_dump_json(exclude={"tokens"})
    if api_key is None or without_key(told, api_key) == told:
        return completion
    clean = Completion.model_validate_json(without_key(told, api_key))
    return clean.model_copy(update={"tokens": TokenTrace(prompt_token_ids=completion.tokens.prompt_token_ids)})


def _code_of(data: bytes) -> str | None:
    try:
        body = json.loads(data)
    except (ValueError, RecursionError):
        return None
    error = body.get("error", body) if isinstance(body, dict) else None
    code = error.get("code") if isinstance(error, dict) else None
    return code if isinstance(code, str) else None


def _says_too_long(code: str | None, data: bytes) -> bool:
    """Whether an error says that the prompt is too long. OpenAI has a code for it; others have only words."""
    if code == "context_length_exceeded":
        return True
    text = data[:4096].decode("utf-8", "replace").lower()
    return any(words in text for words in _TOO_LONG)
