"""Every agent in an episode of the shipped pack, driven by `Episode.play`: the contract of the episodes room holds."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from e2e.serving import CACHE
from quintain.agents import ChatAgent, ErrorRates, ExternalAgent, NoisyAgent, RandomAgent, TextConventionAgent
from quintain.agents.endpoint import ChatClient, ChatSettings
from quintain.agents.fake_endpoint import FakeEndpoint
from quintain.agents.fake_replies import Solution, Solver
from quintain.contracts.tools import CallToolAction
from quintain.episodes import Episode, EpisodeRequest, Rooms
from quintain.episodes.assembly import Assembly, open_rooms
from quintain.episodes.base import Agent
from quintain.tasks import open_pack

SCENARIO = "outdoor_marketplace_1"
MODULE_LOOP = pytest.mark.asyncio(loop_scope="module")

pytestmark = [pytest.mark.xdist_group("agents_episodes"), MODULE_LOOP]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def rooms(runtime_cache: Path, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Rooms]:
    scratch = tmp_path_factory.mktemp("agents")
    with open_pack() as pack:
        async with open_rooms(pack, Assembly(cache=CACHE, scratch=scratch)) as found:
            yield found


@pytest.fixture(scope="module")
def task() -> tuple[str, Solution]:
    with open_pack() as pack:
        found, text = pack.solution(SCENARIO, 0), pack.task(SCENARIO, 0).text
    assert found is not None
    assert text is not None
    calls = tuple((one.name, one.arguments) for one in found.calls)
    return text, Solution(calls=calls, final_answer=found.final_answer)


async def reward(rooms: Rooms, agent: Agent) -> float | None:
    request = EpisodeRequest(scenario=SCENARIO, task_idx=0, model_digest=type(agent).__name__)
    record = await Episode(rooms, request).play(agent)
    assert record.failure_owner is None
    return record.reward


def actions(solution: Solution) -> list[CallToolAction]:
    return [CallToolAction(tool_name=name, arguments=arguments) for name, arguments in solution.calls]


@pytest.mark.parametrize("kind", [ChatAgent, TextConventionAgent])
async def test_a_model_plays(
    rooms: Rooms, task: tuple[str, Solution], kind: type[ChatAgent] | type[TextConventionAgent]
) -> None:
    async with (
        FakeEndpoint(Solver(dict([task]))) as fake,
        ChatClient(ChatSettings(base_url=fake.url, model="m", stream=True)) as client,
    ):
        assert await reward(rooms, kind(client, task[0])) == 1.0


async def test_mistakes_cost_the_reward(rooms: Rooms, task: tuple[str, Solution]) -> None:
    _, solution = task
    for rates, expected in ((ErrorRates(), 1.0), (ErrorRates(early_stop=1.0), 0.1), (ErrorRates(wrong_tool=1.0), 0.1)):
        agent = NoisyAgent(actions(solution), solution.final_answer, rates, seed=7, episode="a")
        assert await reward(rooms, agent) == expected


async def test_drawing_at_random_solves_nothing(rooms: Rooms) -> None:
    assert await reward(rooms, RandomAgent(1, "e", min_steps=5, max_steps=5)) != 1.0


async def test_an_agent_outside_plays(rooms: Rooms, task: tuple[str, Solution]) -> None:
    agent = ExternalAgent(deadline_s=60)
    playing = asyncio.create_task(reward(rooms, agent))
    assert len(await agent.tools()) == 31
    for name, arguments in task[1].calls:
        assert not (await agent.call(name, arguments)).failed
    assert (await agent.call("no_such_tool", {})).failed
    agent.finish(task[1].final_answer)
    assert await playing == 1.0
