"""The client against an endpoint over loopback sockets: what comes of an exchange, and how far a failed one came."""

import asyncio
import json
import logging
import socket
import subprocess
import sys
import traceback
from typing import Any

import pytest

from quintain.agents.base import ChatRequest, Completion
from quintain.agents.endpoint import ChatClient, ChatSettings
from quintain.agents.fake_endpoint import FakeEndpoint
from quintain.agents.fake_replies import Drops, Fails, Garbage, Refuses, Reply, Says, logprob, token_id, tokenized
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

ASKED = ChatRequest(messages=({"role": "user", "content": "Say something."},), max_tokens=100)
KEY = "sk-canary-0f7d2c9a41b8"
CALLS = (("add", {"text": 'braces } and "quotes"', "n": [1, {"a": None}]}), ("list", {}))


def settings(fake: FakeEndpoint, **more: object) -> ChatSettings:
    return ChatSettings.read(base_url=fake.url, model="m-1", **more)


async def completed(fake: FakeEndpoint, **more: object) -> Completion:
    async with ChatClient(settings(fake, **more)) as client:
        return await client.complete(ASKED)


async def failed(fake: FakeEndpoint, **more: object) -> EndpointError:
    with pytest.raises(EndpointError) as raised:
        await completed(fake, **more)
    return raised.value


@pytest.mark.parametrize("stream", [False, True])
async def test_text_calls_reasoning_and_usage_arrive_whole(stream: bool) -> None:
    reply = Says(text="First this: größer", reasoning="hm, hm", calls=CALLS)
    async with FakeEndpoint(script=[reply]) as fake:
        found = await completed(fake, stream=stream)
    assert (found.text, found.reasoning, found.finish_reason) == (reply.text, reply.reasoning, "tool_calls")
    assert [(one.name, json.loads(one.arguments)) for one in found.calls] == list(CALLS)
    assert [one.id for one in found.calls] == ["call_0", "call_1"]
    assert found.model == "m-1"
    assert found.usage.completion_tokens > 10
    assert found.usage.prompt_tokens > 5
    assert (found.tokens.logprobs, found.tokens.token_ids, found.tokens.prompt_token_ids) == (None, None, None)
    assert (found.first_token_ms is not None) is stream


@pytest.mark.parametrize("stream", [False, True])
async def test_tokens_and_logprobs_are_those_that_the_endpoint_returned(stream: bool) -> None:
    text = "One two, three; four five."
    async with FakeEndpoint(script=[Says(text=text)]) as fake:
        found = await completed(fake, stream=stream, logprobs=True, token_ids=True)
    tokens = tuple(tokenized(text))
    assert found.tokens.tokens == tokens
    assert "".join(tokens) == text
    assert found.tokens.logprobs == tuple(map(logprob, tokens))
    assert found.tokens.token_ids == tuple(map(token_id, tokens))
    assert found.usage.completion_tokens == len(tokens)
    assert len(found.tokens.prompt_token_ids or ()) == found.usage.prompt_tokens


async def test_what_is_asked_for_is_in_the_request_and_what_is_not_is_not() -> None:
    async with FakeEndpoint() as fake:
        await completed(fake)
        await completed(
            fake, temperature=0.5, top_p=0.9, seed=7, stream=True, logprobs=True, api_key=KEY,
            token_limit="max_completion_tokens", extra={"top_k": 20},
        )  # fmt: skip
    bare, full = fake.asked
    assert bare.body == {"model": "m-1", "messages": list(ASKED.messages), "max_tokens": 100}
    assert "authorization" not in bare.headers
    assert full.headers["authorization"] == f"Bearer {KEY}"
    assert full.body == {
        "model": "m-1", "messages": list(ASKED.messages), "max_completion_tokens": 100, "temperature": 0.5,
        "top_p": 0.9, "seed": 7, "stream": True, "stream_options": {"include_usage": True}, "logprobs": True,
        "top_k": 20,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("reply", "kind", "delivery"),
    [
        (Fails(status=429, retry_after="3"), RateLimited, Delivery.DELIVERED),
        (Fails(status=429, code="insufficient_quota"), EndpointRefused, Delivery.DELIVERED),
        (Fails(status=500), EndpointUnavailable, Delivery.DELIVERED),
        (Fails(status=502), EndpointUnavailable, Delivery.POSSIBLY_DELIVERED),
        (Fails(status=400), EndpointRefused, Delivery.DELIVERED),
        (Fails(status=400, code="context_length_exceeded"), ContextOverflow, Delivery.DELIVERED),
        (
            Fails(status=400, message="This model's maximum context length is 4096 tokens."),
            ContextOverflow,
            Delivery.DELIVERED,
        ),
        (Fails(status=404), EndpointRefused, Delivery.DELIVERED),
        (Fails(status=307), EndpointRefused, Delivery.DELIVERED),
        (Drops(), EndpointUnavailable, Delivery.POSSIBLY_DELIVERED),
        (Garbage(), EndpointUnavailable, Delivery.DELIVERED),
        (Garbage(body='{"choices": []}'), EndpointUnavailable, Delivery.DELIVERED),
        (Garbage(body='{"error": {"message": "overloaded"}}'), EndpointUnavailable, Delivery.DELIVERED),
        (Garbage(body="[" * 100_000), EndpointUnavailable, Delivery.DELIVERED),
        (
            Garbage(body="data: nonsense\n\n", content_type="text/event-stream"),
            EndpointUnavailable,
            Delivery.POSSIBLY_DELIVERED,
        ),
    ],
    ids=repr,
)
async def test_a_failure_has_a_type_and_says_how_far_the_request_came(
    reply: Reply, kind: type[EndpointError], delivery: Delivery
) -> None:
    async with FakeEndpoint(script=[reply]) as fake:
        error = await failed(fake)
    assert type(error) is kind
    assert error.delivery is delivery
    assert error.retryable is (kind in (RateLimited, EndpointUnavailable, EndpointTimeout))
    assert fake.url in str(error)
    assert len(fake.asked) == 1


async def test_retry_after_is_read() -> None:
    async with FakeEndpoint(script=[Fails(status=429, retry_after="3"), Fails(status=503, retry_after="7")]) as fake:
        assert [(await failed(fake)).retry_after_s for _ in range(2)] == [3.0, 7.0]


async def test_where_nobody_listens_nothing_was_sent() -> None:
    with socket.socket() as unheard:
        unheard.bind(("127.0.0.1", 0))
        given = ChatSettings(base_url=f"http://127.0.0.1:{unheard.getsockname()[1]}/v1", model="m")
        async with ChatClient(given) as client:
            with pytest.raises(EndpointUnavailable) as raised:
                await client.complete(ASKED)
    assert raised.value.delivery is Delivery.NOT_SENT


@pytest.mark.parametrize("reply", [Says(text="late", delay_s=30), Says(text="drip " * 50, pause_s=0.1)], ids=repr)
async def test_an_exchange_is_over_when_its_time_is(reply: Reply) -> None:
    async with FakeEndpoint(script=[reply]) as fake:
        error = await failed(fake, stream=True, timeout_s=0.4)
        assert isinstance(error, EndpointTimeout)
        assert error.delivery is Delivery.POSSIBLY_DELIVERED


@pytest.mark.parametrize(("after", "stream"), [(0, True), (1, True), (4, True), (0, False)])
async def test_an_answer_that_breaks_off_was_possibly_delivered(after: int, stream: bool) -> None:
    async with FakeEndpoint(script=[Says(text="a text of a few words", calls=CALLS, cut_after=after)]) as fake:
        error = await failed(fake, stream=stream)
    assert isinstance(error, EndpointUnavailable)
    assert error.delivery is Delivery.POSSIBLY_DELIVERED


async def test_a_stream_that_ends_early_without_breaking_is_no_answer() -> None:
    chunk = json.dumps({"choices": [{"index": 0, "delta": {"content": "half"}}]})
    async with FakeEndpoint(script=[Garbage(body=f"data: {chunk}\n\n", content_type="text/event-stream")]) as fake:
        error = await failed(fake, stream=True)
    assert isinstance(error, EndpointUnavailable)
    assert "before the answer was complete" in str(error)


async def test_an_error_in_mid_stream_is_told() -> None:
    event = 'data: {"error": {"message": "the engine died"}}\n\n'
    async with FakeEndpoint(script=[Garbage(body=event, content_type="text/event-stream")]) as fake:
        assert "the engine died" in str(await failed(fake, stream=True))


async def test_a_refusal_is_an_answer() -> None:
    async with FakeEndpoint(script=[Refuses(), Refuses()]) as fake:
        for stream in (False, True):
            found = await completed(fake, stream=stream)
            assert (found.refusal, found.text, found.calls) == (Refuses().text, None, ())


async def test_the_key_is_told_by_nothing() -> None:
    async with FakeEndpoint(script=[Fails(status=500, message=f"your key {KEY}")], api_key="another") as fake:
        refused = await failed(fake, api_key=KEY)
        fake.api_key = None
        echoed = await failed(fake, api_key=KEY)
        given = settings(fake, api_key=KEY)
    shown = "".join("".join(traceback.format_exception(error)) for error in (refused, echoed))
    assert isinstance(refused, EndpointRefused)
    assert "[key]" in str(echoed)
    assert KEY not in shown + repr(given) + given.model_dump_json() + str(given.model_digest)
    with pytest.raises(UsageError) as raised:
        ChatSettings.read(base_url="nowhere", model="m", api_key=f"{KEY} with a space")
    assert KEY not in "".join(traceback.format_exception(raised.value))


async def test_exchanges_at_once_do_not_mix() -> None:
    def echo(body: dict[str, Any]) -> Reply:
        return Says(text=body["messages"][0]["content"], delay_s=0.05)

    async with FakeEndpoint(echo) as fake, ChatClient(settings(fake)) as client:
        texts = [f"number {number}" for number in range(20)]
        asked = [client.complete(ChatRequest(messages=({"role": "user", "content": one},))) for one in texts]
        assert [one.text for one in await asyncio.gather(*asked)] == texts
    assert fake.most_under_way > 1


async def test_over_its_capacity_the_fake_asks_for_patience() -> None:
    async with FakeEndpoint(lambda _: Says(text="yes", delay_s=0.2), at_once=2) as fake:
        answers = await asyncio.gather(*(completed(fake) for _ in range(4)), return_exceptions=True)
    assert sum(isinstance(one, RateLimited) for one in answers) == 2


def test_the_model_digest_is_of_what_the_model_is_and_not_of_how_it_is_reached() -> None:
    given = ChatSettings(base_url="http://host/v1", model="m", temperature=0.5)
    same = given.model_copy(update={"timeout_s": 1.0, "stream": True})
    assert given.model_digest == same.model_digest
    assert given.model_digest != given.model_copy(update={"temperature": 0.6}).model_digest


@pytest.mark.parametrize("stream", [False, True])
async def test_a_key_that_a_model_says_is_taken_out_of_what_it_said(stream: bool) -> None:
    reply = Says(text=f"Your key is {KEY}.", calls=(("tell", {"key": KEY}), (KEY, "{}")), reasoning=KEY)
    async with FakeEndpoint(script=[reply]) as fake:
        found = await completed(fake, stream=stream, api_key=KEY, logprobs=True, token_ids=True)
    assert KEY not in found.model_dump_json()
    assert found.text == "Your key is [key]."
    assert found.calls[0].arguments == '{"key": "[key]"}'
    assert (found.tokens.tokens, found.tokens.token_ids) == (None, None)


async def test_nothing_that_is_logged_holds_the_key(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with FakeEndpoint(script=[Says(text="Hi."), Fails(status=429)]) as fake:
        await completed(fake, api_key=KEY)
        await failed(fake, api_key=KEY)
    assert len(caplog.records) > 5
    assert KEY not in caplog.text + repr([vars(record) for record in caplog.records])


def test_who_needs_no_endpoint_loads_no_http_client() -> None:
    program = "import sys, quintain.agents; print({'httpx', 'starlette', 'mcp'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "set()"
