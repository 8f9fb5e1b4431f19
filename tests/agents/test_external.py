"""An agent outside: its calls are handed over one by one, and nobody is left waiting for an episode that is over."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from quintain.agents import ExternalAgent, Observation
from quintain.contracts.tools import CallToolAction, Tool
from quintain.contracts.turns import EndReason
from quintain.errors import Delivery, EpisodeOver

TOOLS: Sequence[Tool] = (Tool(name="add"),)


async def drive(agent: ExternalAgent) -> list[CallToolAction]:
    """What an episode does."""
    made: list[CallToolAction] = []
    last: Any = None
    while (action := await agent.act(TOOLS, last)) is not None:
        made.append(action)
        last = Observation(text=f"fine {action.arguments['n']}")
    return made


async def test_calls_are_made_in_order_and_each_gets_its_own_answer() -> None:
    agent = ExternalAgent(deadline_s=10)
    driving = asyncio.create_task(drive(agent))
    assert await agent.tools() == TOOLS
    answers = await asyncio.gather(*(agent.call("add", {"n": number}) for number in range(5)))
    assert [one.text for one in answers] == [f"fine {number}" for number in range(5)]
    agent.finish("The end.")
    agent.finish("Not this.")
    assert [one.arguments["n"] for one in await driving] == list(range(5))
    assert agent.final_answer == "The end."
    assert agent.ending is not None
    assert agent.ending.reason is EndReason.FINISHED
    with pytest.raises(EpisodeOver):
        await agent.call("add", {"n": 9})


async def test_at_the_deadline_the_episode_is_truncated() -> None:
    agent = ExternalAgent(deadline_s=0.1)
    assert await drive(agent) == []
    assert agent.ending is not None
    assert (agent.ending.reason, agent.ending.truncated) == (EndReason.DEADLINE, True)
    assert agent.final_answer is None
    agent.finish("Too late.")
    assert agent.final_answer is None


async def test_what_became_of_calls_at_the_end_is_told() -> None:
    """A driver takes one call and answers it; another waits; then the time is up while a third is being made."""
    agent = ExternalAgent(deadline_s=30)
    first, second = (asyncio.create_task(agent.call("add", {"n": number})) for number in (1, 2))
    assert await agent.act(TOOLS, None) is not None
    third = asyncio.create_task(agent.call("add", {"n": 3}))
    assert await agent.act(TOOLS, Observation(text="fine 1")) is not None
    agent.finish()
    assert (await first).text == "fine 1"
    for call, delivery in ((second, Delivery.POSSIBLY_DELIVERED), (third, Delivery.NOT_SENT)):
        with pytest.raises(EpisodeOver) as raised:
            await call
        assert raised.value.delivery is delivery
    assert await agent.act(TOOLS, Observation(text="fine 2")) is None


async def test_a_driver_that_is_cancelled_leaves_nobody_waiting() -> None:
    agent = ExternalAgent(deadline_s=60)
    driving = asyncio.create_task(agent.act(TOOLS, None))
    await agent.tools()
    driving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await driving
    with pytest.raises(EpisodeOver):
        await asyncio.wait_for(agent.call("add", {"n": 1}), 20)


async def test_finishing_before_it_begins_is_an_episode_without_calls() -> None:
    agent = ExternalAgent(deadline_s=60)
    agent.finish()
    assert await drive(agent) == []
