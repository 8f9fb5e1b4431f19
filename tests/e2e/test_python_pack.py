"""A pack with a Python environment and a written conversation, played over every way in."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.serving import CACHE
from environments.python.packs import DOCUMENT, TASKS, write_pack
from quintain.agents import ChatAgent, ReferenceAgent
from quintain.agents.base import ChatRequest, Completion
from quintain.agents.plane import AgentPlaneTools
from quintain.clients.wire import WireSession
from quintain.contracts.record import EpisodeRecord
from quintain.contracts.tools import CallToolAction
from quintain.episodes import Episode, EpisodeRequest
from quintain.episodes.assembly import Assembly, open_rooms
from quintain.tasks import PackSource
from served import ROOT, served

pytestmark = [pytest.mark.asyncio, pytest.mark.xdist_group("python-pack")]

TALK: dict[str, Any] = {
    "name": "talk",
    "text": "Take in parcel B.",
    "start": {"conversation": {"messages": ["Which are there?"], "withhold": {"2": ["names"]}}},
    "solution": [
        {"tool": "add", "arguments": {"name": "B", "parcel": {"weight": 1}}},
        {"tool": "respond", "arguments": {"message": "Done."}},
        {"tool": "names"},
        {"tool": "respond", "arguments": {"message": "B."}},
    ],
    "answer": "B.",
    "verify": "verify_talk",
}
VERIFIER = """
def verify_added(final_state, variables):
    parcel = final_state["parcels"]["B"]
    return {"result": "complete" if parcel["weight"] == variables["weight"] and final_state["done"] else "others"}


def verify_talk(final_state, final_answer):
    turns = final_state["turns"]
    called = [[call["tool"] for call in turn["calls"]] for turn in turns]
    good = called == [["add"], ["names"]] and "B" in turns[0]["state"]["parcels"] and final_answer == "B."
    return {"result": "complete" if good else "others", "turns": len(turns)}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_pack(tmp_path_factory.mktemp("python") / "pack", DOCUMENT, None, [*TASKS, TALK], VERIFIER)


@pytest.fixture(scope="module")
def url(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    log = tmp_path_factory.mktemp("server") / "server.log"
    with served(CACHE, log, QUINTAIN_PACKS=str(folder)) as address:
        yield address


async def test_reference_solutions_are_complete_and_the_same_each_time(folder: Path, tmp_path: Path) -> None:
    async with open_rooms(PackSource.open(folder), Assembly(cache=CACHE, scratch=tmp_path)) as rooms:

        async def play(task_idx: int, seed: int, attempt: int) -> EpisodeRecord:
            solution = rooms.source.solution("desk", task_idx, seed)
            assert solution is not None
            calls = [CallToolAction(tool_name=one.name, arguments=one.arguments) for one in solution.calls]
            request = EpisodeRequest(scenario="desk", task_idx=task_idx, seed=seed, model_digest="m", attempt=attempt)
            return await Episode(rooms, request).play(ReferenceAgent(calls, solution.final_answer))

        for task_idx, seed in ((0, 1), (0, 2), (1, 1)):
            first, again = await play(task_idx, seed, 0), await play(task_idx, seed, 1)
            for record in (first, again):
                assert (record.reward_type, record.terminal_reason) == ("complete", "environment_ended")
                assert record.failure_owner is None
            assert [step.result for step in first.steps] == [step.result for step in again.steps]
            assert first.episode_id == again.episode_id


async def test_over_the_control_plane_the_end_is_told_and_only_verify_and_done_are_left(url: str) -> None:
    async with WireSession(url) as session:
        reset = await session.reset(scenario="desk", task_idx=1)
        assert reset["observation"]["task"] == "Take in parcel B."
        assert [tool["name"] for tool in await session.list_tools()] == ["add", "speed", "close", "respond"]
        await session.call("add", {"name": "B", "parcel": {"weight": 1}})
        said = await session.call("respond", {"message": "Done."})
        assert said["done"] is False
        assert said["observation"]["tool_result"].startswith("Which are there?\n\nNew tools are available now:")
        assert said["observation"]["metadata"]["tools_changed"] is True
        assert "names" in [tool["name"] for tool in await session.list_tools()]
        await session.call("names")
        last = await session.call("respond", {"message": "B."})
        assert (last["done"], last["observation"]["reward_type"]) == (True, "tool_call_ok")
        assert "ended" in last["observation"]["tool_result"]
        refused = await session.call("names")
        assert (refused["done"], refused["observation"]["reward_type"]) == (True, "tool_error")
        assert "the episode has ended" in refused["observation"]["error"]
        verified = await session.call("verify", {"verifier_mode": "code", "final_answer": "B."})
        assert (verified["reward"], verified["observation"]["reward_type"]) == (1.0, "complete")
        assert (await session.call("done"))["observation"]["reward_type"] == "episode_done"


async def test_the_examples_of_the_pages_are_played(tmp_path: Path) -> None:
    page = (ROOT / "docs/reference/python-kind.md").read_text()
    talk = (ROOT / "docs/how-to/counterpart.md").read_text()
    document, tasks = yaml.safe_load(block("yaml", page)), yaml.safe_load(block("yaml", talk))
    folder = write_pack(tmp_path / "pack", document, {"app.py": block("python", page)}, tasks, block("python", talk))
    async with open_rooms(PackSource.open(folder), Assembly(cache=CACHE, scratch=tmp_path / "scratch")) as rooms:
        solution = rooms.source.solution("desk", 0)
        assert solution is not None
        calls = [CallToolAction(tool_name=one.name, arguments=one.arguments) for one in solution.calls]
        request = EpisodeRequest(scenario="desk", task_idx=0, model_digest="m")
        record = await Episode(rooms, request).play(ReferenceAgent(calls, solution.final_answer))
    assert (record.reward_type, record.terminal_reason) == ("complete", "environment_ended")
    assert all(step.failure_owner is None for step in record.steps)


def block(language: str, page: str) -> str:
    """The first block of code in a language."""
    found = re.search(rf"```{language}\n(.*?)```", page, re.DOTALL)
    assert found is not None
    return found[1]


class Script:
    """A model that says what it was given to say."""

    def __init__(self, *replies: Completion) -> None:
        self.replies = list(replies)
        self.asked: list[ChatRequest] = []

    async def complete(self, request: ChatRequest) -> Completion:
        self.asked.append(request)
        return self.replies.pop(0)


def wants(name: str, arguments: str) -> Completion:
    return Completion.model_validate({"calls": ({"id": "c", "name": name, "arguments": arguments},)})


async def test_over_the_agent_plane_a_model_talks_to_the_end(url: str) -> None:
    script = Script(
        wants("add", '{"name": "B", "parcel": {"weight": 1}}'),
        Completion(text="Done."),
        wants("names", "{}"),
        Completion(text="B."),
    )
    agent = ChatAgent(script, "Take in parcel B.")
    async with WireSession(url) as session:
        reset = await session.reset(scenario="desk", task_idx=1)
        plane = url + reset["observation"]["metadata"]["agent_plane"]["path"]
        async with AgentPlaneTools(plane) as tools:
            assert await tools.play(agent) == 4
            refused = await tools.call(CallToolAction(tool_name="names"))
            assert (refused.failed, refused.done, "the episode has ended" in refused.text) == (True, True, True)
        offered = [[tool["function"]["name"] for tool in request.tools] for request in script.asked]
        assert ["names" in names for names in offered] == [False, False, True, True]
        assert agent.final_answer == "B."
        verified = await session.call("verify", {"verifier_mode": "code", "final_answer": agent.final_answer})
        assert verified["reward"] == 1.0
