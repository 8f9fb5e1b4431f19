"""When an endpoint is tried again, and for how long is waited; with a clock of the test's own."""

import random

import pytest

from quintain.agents import PatientCompleter, Retries
from quintain.agents.base import ChatRequest
from quintain.agents.endpoint import ChatClient, ChatSettings
from quintain.agents.fake_endpoint import FakeEndpoint
from quintain.agents.fake_replies import Drops, Fails, Reply, Says
from quintain.errors import EndpointError, EndpointRefused, RateLimited

ASKED = ChatRequest(messages=({"role": "user", "content": "Hi."},))


class Tried:
    """One request, tried against a script; what was waited for."""

    def __init__(self, retries: Retries) -> None:
        self.retries = retries
        self.waits: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)

    async def against(self, *script: Reply) -> object:
        async with (
            FakeEndpoint(script=script) as fake,
            ChatClient(ChatSettings(base_url=fake.url, model="m")) as client,
        ):
            patient = PatientCompleter(client, self.retries, dice=random.Random(1), sleep=self.sleep)
            try:
                return await patient.complete(ASKED)
            except EndpointError as error:
                return error
            finally:
                self.asked = len(fake.asked)


async def test_what_passes_is_waited_for_as_long_as_it_asks() -> None:
    tried = Tried(Retries(attempts=5))
    found = await tried.against(
        Fails(status=429, retry_after="3"), Fails(status=503, retry_after="5"), Says(text="Hi.")
    )
    assert tried.waits == [3.0, 5.0]
    assert [one.error for one in found.retried] == ["RateLimited", "EndpointUnavailable"]


async def test_untold_waits_grow_within_their_bound() -> None:
    tried = Tried(Retries(attempts=6, first_wait_s=1, max_wait_s=5))
    error = await tried.against(*[Drops()] * 9)
    assert tried.asked == 6
    assert isinstance(error, EndpointError)
    assert len(error.retried) == 5
    for wait, middle in zip(tried.waits, (1, 2, 4, 5, 5), strict=True):
        assert 0.75 * middle <= wait <= min(5, 1.25 * middle)


@pytest.mark.parametrize("reply", [Fails(status=401), Fails(status=400), Fails(status=429, code="insufficient_quota")])
async def test_what_will_not_pass_is_not_tried_again(reply: Reply) -> None:
    tried = Tried(Retries())
    assert isinstance(await tried.against(reply, Says(text="never")), EndpointRefused)
    assert tried.asked == 1


async def test_a_wait_beyond_the_bound_is_not_begun() -> None:
    tried = Tried(Retries(max_wait_s=10))
    assert isinstance(await tried.against(Fails(status=429, retry_after="11")), RateLimited)
    assert tried.waits == []
