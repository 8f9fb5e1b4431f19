"""One exchange with an OpenAI-compatible endpoint: bounded in time and size, and silent about the key."""

import asyncio
import json
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import httpx

from quintain.agents.transport import UnreadableBody, json_headers, plain_client, whole_body
from quintain.contracts.endpoints import content_text, error_of, retry_after, told_of
from quintain.errors import Owner
from quintain.verifiers.judging import JsonObject, JudgeSettings

MAX_REPLY_BYTES: Final = 2**20
"""Largest answer of an endpoint."""

_KEPT_FORMS = 256
_RETRIED = frozenset({408, 409, 425, 429})
_FORM_REFUSED = frozenset({400, 422})


@dataclass(frozen=True)
class Reply:
    """What the model wrote, and which model the endpoint says it was."""

    text: str
    model: str | None = None


@dataclass(frozen=True)
class Trouble:
    """Why there is no reply, whose failure that is, and whether another attempt may help."""

    reason: str
    owner: Owner = Owner.INFRASTRUCTURE
    retry: bool = True
    retry_after_s: float | None = None
    form_refused: bool = False


def _forms(settings: JudgeSettings, schema: JsonObject) -> list[JsonObject]:
    """What may be asked beyond model and messages, the most telling first.

    Endpoints differ in what they refuse: some have no structured output, some models take no temperature and know only
    the newer name of the token limit. A form that is refused gives way to the next.
    """
    named = {"name": "judgment", "strict": True, "schema": schema}
    structured = {"response_format": {"type": "json_schema", "json_schema": named}}
    return [
        {**structured, "temperature": 0, "max_completion_tokens": settings.max_tokens},
        structured,
        {"temperature": 0, "max_tokens": settings.max_tokens},
        {},
    ]


class Endpoints:
    """Exchanges with any number of endpoints, over one client. What form each takes is remembered."""

    def __init__(self, *, now: Callable[[], float] = time.time) -> None:
        """`now` is the wall clock, for a Retry-After that is a date."""
        self._now = now
        self._client = plain_client()
        self._taken: OrderedDict[tuple[str | None, str | None], int] = OrderedDict()

    async def aclose(self) -> None:
        """Close all connections."""
        await self._client.aclose()

    async def complete(
        self, settings: JudgeSettings, messages: list[JsonObject], schema: JsonObject
    ) -> Reply | Trouble:
        """One chat completion, in the best form that the endpoint takes; within `settings.timeout_s`."""
        try:
            async with asyncio.timeout(settings.timeout_s):
                return await self._in_some_form(settings, messages, _forms(settings, schema))
        except TimeoutError:
            return Trouble(f"{_name(settings)} did not answer in full within {settings.timeout_s:g} s")

    async def _in_some_form(
        self, settings: JudgeSettings, messages: list[JsonObject], forms: list[JsonObject]
    ) -> Reply | Trouble:
        key = (settings.base_url, settings.model)
        answer: Reply | Trouble = Trouble("no form was tried")
        for number in range(self._taken.get(key, 0), len(forms)):
            answer = await self._exchange(settings, {"model": settings.model, "messages": messages, **forms[number]})
            if isinstance(answer, Reply):
                self._taken[key] = number
                self._taken.move_to_end(key)
                if len(self._taken) > _KEPT_FORMS:
                    self._taken.popitem(last=False)
                return answer
            if not answer.form_refused:
                return answer
        return answer

    async def _exchange(self, settings: JudgeSettings, body: JsonObject) -> Reply | Trouble:
        headers = json_headers(settings.api_key)
        url = f"{settings.base_url}/chat/completions"
        content = json.dumps(body).encode("ascii")
        try:
            async with self._client.stream(
                "POST", url, content=content, headers=headers, timeout=settings.timeout_s
            ) as response:
                data = await whole_body(response, MAX_REPLY_BYTES)
                if response.is_success:
                    return reply_of(settings, data)
                return self._refusal(settings, response, data)
        except UnreadableBody as error:
            return Trouble(f"{_name(settings)} {error}")
        except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError) as error:
            told = told_of(str(error), settings.api_key)
            return Trouble(
                f"{_name(settings)} could not be reached or broke off: {type(error).__name__} {told}".strip()
            )

    def _refusal(self, settings: JudgeSettings, response: httpx.Response, data: bytes) -> Trouble:
        status, name = response.status_code, _name(settings)
        if status in (401, 403):  # what such an answer says may well be the key, so it is not told
            keys = "OPENENV_AWM_LLM_API_KEY (or the reset's llm_api_key)"
            why = f"{name} refused the key ({status}); set {keys} to one that may use model {settings.model}"
            return Trouble(told_of(why, settings.api_key), Owner.VERIFIER, retry=False)
        told = error_of(data, settings.api_key)
        if status in _RETRIED or status >= 500:
            wait = retry_after(response.headers.get("retry-after"), self._now())
            return Trouble(f"{name} answered {status}{told}", retry_after_s=wait)
        hint = ""
        if status == 404:
            hint = f"; check that the address (often it ends in /v1) and model {settings.model} are right"
        elif response.is_redirect:
            hint = "; redirects are not followed: give the address that it leads to"
        reason = told_of(f"{name} answered {status}{hint}", settings.api_key) + told
        return Trouble(reason, Owner.VERIFIER, retry=False, form_refused=status in _FORM_REFUSED)


def reply_of(settings: JudgeSettings, data: bytes) -> Reply | Trouble:
    """The model's text in a chat completion."""
    name = _name(settings)
    try:
        answer = json.loads(data)
    except (ValueError, RecursionError):
        return Trouble(f"{name} answered {len(data)} bytes that are not JSON")
    choices = answer.get("choices") if isinstance(answer, dict) else None
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = choice.get("message") if isinstance(choice, dict) else None
    if not isinstance(choice, dict) or not isinstance(message, dict):
        told = error_of(data, settings.api_key) if isinstance(answer, dict) and "error" in answer else ""
        return Trouble(f"{name} answered JSON that is no chat completion{told}")
    if message.get("refusal") or choice.get("finish_reason") == "content_filter":
        return Trouble(f"model {settings.model} refused to judge", Owner.VERIFIER)
    if choice.get("finish_reason") == "length":
        return Trouble(f"model {settings.model} was cut off at {settings.max_tokens} tokens", Owner.VERIFIER)
    text = content_text(message.get("content"))
    if text is None:
        return Trouble(f"model {settings.model} answered without text", Owner.VERIFIER)
    served = answer.get("model")
    return Reply(text, told_of(served, settings.api_key, 200) if isinstance(served, str) and served else None)


def _name(settings: JudgeSettings) -> str:
    return f"the judge endpoint {settings.base_url}"
