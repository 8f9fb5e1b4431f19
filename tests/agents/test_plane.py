"""Agents over the agent plane of a real server."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from quintain.agents import ExternalAgent, NoisyAgent, RandomAgent, ReferenceAgent
from quintain.agents.noisy import ErrorRates
from quintain.agents.plane import AgentPlaneTools
from quintain.clients.wire import WireSession
from quintain.contracts.tools import CallToolAction
from quintain.errors import AgentPlaneError, Delivery, EpisodeOver
from quintain.tasks import open_pack
from served import served

SCENARIO = "outdoor_marketplace_1"

pytestmark = pytest.mark.xdist_group("agents_plane")


@pytest.fixture(scope="module")
def url(runtime_cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with served(runtime_cache.parent, tmp_path_factory.mktemp("plane") / "server.log") as address:
        yield address


@pytest.fixture(scope="module")
def solution() -> tuple[list[CallToolAction], str]:
    with open_pack() as pack:
        found = pack.solution(SCENARIO, 0)
    assert found is not None
    return [CallToolAction(tool_name=one.name, arguments=one.arguments) for one in found.calls], found.final_answer


async def begun(session: WireSession, url: str) -> str:
    reset = await session.reset(scenario=SCENARIO, task_idx=0)
    path: str = reset["observation"]["metadata"]["agent_plane"]["path"]
    return url + path


async def test_the_reference_solves_it_and_an_early_stop_does_not(
    url: str, solution: tuple[list[CallToolAction], str]
) -> None:
    rates = ErrorRates(early_stop=1.0)
    agents = [(ReferenceAgent(*solution), 2, 1.0), (NoisyAgent(*solution, rates, seed=1, episode="a"), 0, 0.1)]
    async with WireSession(url) as session:
        for agent, steps, reward in agents:
            async with AgentPlaneTools(await begun(session, url)) as tools:
                assert await tools.play(agent) == steps
            verified = await session.call("verify", {"verifier_mode": "code", "final_answer": agent.final_answer or ""})
            assert verified["reward"] == reward
            await session.call("done")


async def test_random_arguments_are_mostly_sound(url: str) -> None:
    failures = []
    async with WireSession(url) as session, AgentPlaneTools(await begun(session, url)) as tools:
        listed = await tools.listed()
        assert len(listed) == 31
        agent = RandomAgent(3, "e", min_steps=60, max_steps=60)
        while (action := await agent.act(listed, None)) is not None:
            answer = await tools.call(action)
            failures += [answer.text] if answer.failed else []
    # a body whose fields are all optional may be left out by its schema, and not by the application
    assert [text for text in failures if "422" in text and "the arguments: Field required" not in text] == []
    assert len(failures) < 40


async def test_an_outside_agent_acts_over_the_plane_while_the_episode_waits(
    url: str, solution: tuple[list[CallToolAction], str]
) -> None:
    async with WireSession(url) as session:
        address = await begun(session, url)
        agent = ExternalAgent(deadline_s=30)
        waiting = asyncio.create_task(agent.act((), None))
        async with AgentPlaneTools(address) as tools:
            await tools.play(ReferenceAgent(*solution))
        agent.finish(solution[1])
        assert await waiting is None
        verified = await session.call("verify", {"verifier_mode": "code", "final_answer": agent.final_answer})
    assert verified["reward"] == 1.0


async def test_failures_of_tools_are_seen_and_the_end_is_an_error_without_the_token(url: str) -> None:
    async with WireSession(url) as session:
        address = await begun(session, url)
        async with AgentPlaneTools(address) as tools:
            assert (await tools.call(CallToolAction(tool_name="nothing_like_it"))).failed
            await session.call("done")
            with pytest.raises(EpisodeOver, match="the episode has ended") as raised:
                await tools.call(CallToolAction(tool_name="get_profile"))
    assert raised.value.delivery is Delivery.POSSIBLY_DELIVERED
    assert address.split("/")[-2] not in str(raised.value)


async def test_where_nobody_listens_nothing_was_sent() -> None:
    async with AgentPlaneTools("http://127.0.0.1:9/agent/token-of-it/mcp") as tools:
        with pytest.raises(AgentPlaneError) as raised:
            await tools.listed()
    assert raised.value.delivery is Delivery.NOT_SENT
    assert "token-of-it" not in str(raised.value)
