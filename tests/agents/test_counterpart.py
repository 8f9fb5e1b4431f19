"""Agents in environments that have a counterpart: plain text goes through `respond`, and the environment may end."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from quintain.agents import AgentLimits, ChatAgent, ExternalAgent, NoisyAgent, RandomAgent, TextConventionAgent
from quintain.agents.base import ChatRequest, Completion, function_tools
from quintain.agents.noisy import ErrorRates
from quintain.contracts.terminal import TerminalReason
from quintain.contracts.tools import CallToolAction, Tool
from quintain.contracts.turns import EndReason, RequestedCall
from quintain.environments.base import ToolOutcome, ToolStatus
from quintain.episodes.driving import DriveLimits, drive
from quintain.errors import Owner

RESPOND = Tool(name="respond", input_schema={"type": "object", "properties": {"message": {"type": "string"}}})
LOOK, OPEN = Tool(name="look"), Tool(name="open")


class Talk:
    """An episode whose counterpart says its lines and then ends it; the tool `open` appears with the second."""

    failure_owner: Owner | None = None

    def __init__(self, *lines: str) -> None:
        self.lines = lines
        self.heard: list[str] = []
        self.calls: list[str] = []

    @property
    def tools(self) -> Sequence[Tool]:
        return (LOOK, RESPOND, OPEN) if len(self.heard) >= 2 else (LOOK, RESPOND)

    @property
    def done(self) -> bool:
        return len(self.heard) > len(self.lines)

    def list_tools(self) -> Sequence[Tool]:
        return self.tools

    async def call(self, name: str, arguments: dict[str, Any], timeout_s: float) -> ToolOutcome:
        assert not self.done, "nothing is called after the end"
        self.calls.append(name)
        if name != "respond":
            return ToolOutcome(status=ToolStatus.OK, text="seen")
        if not isinstance(arguments.get("message"), str):
            return ToolOutcome(status=ToolStatus.INVALID_ARGS, error="message is missing", owner=Owner.AGENT)
        self.heard.append(arguments["message"])
        return ToolOutcome(status=ToolStatus.OK, text=(*self.lines, "It is over.")[len(self.heard) - 1])


class Script:
    """A model that says what it was given to say."""

    def __init__(self, *replies: Completion | str) -> None:
        self.replies = list(replies)
        self.asked: list[ChatRequest] = []

    async def complete(self, request: ChatRequest) -> Completion:
        self.asked.append(request)
        reply = self.replies.pop(0)
        return Completion(text=reply) if isinstance(reply, str) else reply


def calls(name: str, arguments: str = "{}") -> Completion:
    return Completion(calls=(RequestedCall(id="c", name=name, arguments=arguments),))


async def test_plain_text_of_a_chat_agent_is_said_and_answered_as_the_user() -> None:
    talk, model = Talk("And then?"), Script("<think>hm</think>Hello.", calls("look"), "Bye.")
    agent = ChatAgent(model, "Talk.")
    assert await drive(talk, agent, DriveLimits()) is TerminalReason.ENVIRONMENT_ENDED
    assert talk.heard == ["Hello.", "Bye."]
    assert talk.calls == ["respond", "look", "respond"]
    assert model.asked[1].messages[-1] == {"role": "user", "content": "And then?"}
    assert model.asked[2].messages[-1]["role"] == "tool"
    assert [turn.responded for turn in agent.turns] == [True, None, True]
    assert agent.final_answer == "Bye."
    assert agent.ending is not None
    assert (agent.ending.reason, agent.ending.detail, agent.ending.truncated) == (
        EndReason.ENVIRONMENT_ENDED,
        "It is over.",
        False,
    )


async def test_a_native_call_of_respond_says_the_same() -> None:
    talk = Talk()
    agent = ChatAgent(Script(calls("respond", '{"message": "Bye."}')), "Talk.")
    assert await drive(talk, agent, DriveLimits()) is TerminalReason.ENVIRONMENT_ENDED
    assert (talk.heard, agent.final_answer) == (["Bye."], "Bye.")
    assert [turn.responded for turn in agent.turns] == [None]


async def test_plain_text_in_the_convention_is_said_and_answered_as_the_user() -> None:
    look = '<tool_call>{"name": "call_tool", "arguments": {"tool_name": "look"}}</tool_call>'
    listed = '<tool_call>{"name": "list_tools", "arguments": {}}</tool_call>'
    talk, model = Talk("One.", "Two."), Script("Hello.", look, "Well.", listed, "Bye.")
    agent = TextConventionAgent(model, "Talk.")
    assert await drive(talk, agent, DriveLimits()) is TerminalReason.ENVIRONMENT_ENDED
    assert talk.heard == ["Hello.", "Well.", "Bye."]
    assert model.asked[1].messages[-1] == {"role": "user", "content": "One."}
    assert "seen" in model.asked[2].messages[-1]["content"]
    assert '"open"' in model.asked[4].messages[-1]["content"], "the list is that of now"
    assert [turn.responded for turn in agent.turns] == [True, None, True, None, True]
    assert agent.final_answer == "Bye."


async def test_tools_that_appear_are_offered_to_the_model() -> None:
    talk, model = Talk("One.", "Two.", "Three."), Script("a", "b", "c", "d")
    await drive(talk, ChatAgent(model, "Talk."), DriveLimits())
    before, after = function_tools((LOOK, RESPOND)), function_tools((LOOK, RESPOND, OPEN))
    assert [request.tools for request in model.asked] == [before, before, after, after]


async def test_without_a_counterpart_plain_text_is_the_answer() -> None:
    class Alone(Talk):
        tools = (LOOK, Tool(name="respond"))  # takes no message

    alone = Alone()
    for agent in (ChatAgent(Script("Done."), "Do."), TextConventionAgent(Script("Done."), "Do.")):
        assert await drive(alone, agent, DriveLimits()) is TerminalReason.DONE
        assert agent.final_answer == "Done."
    assert alone.calls == []


@pytest.mark.parametrize(
    ("limits", "reason"),
    [(AgentLimits(max_steps=3), TerminalReason.MAX_STEPS), (AgentLimits(max_turns=3), TerminalReason.MAX_TURNS)],
)
async def test_talk_without_end_runs_into_a_limit(limits: AgentLimits, reason: TerminalReason) -> None:
    for kind in (ChatAgent, TextConventionAgent):
        talk = Talk(*"abcdefghij")
        agent = kind(Script(*"0123456789"), "Talk.", limits=limits)
        assert await drive(talk, agent, DriveLimits()) is reason
        assert talk.heard == ["0", "1", "2"]
        assert agent.final_answer is None


async def test_players_without_a_model_end_with_the_environment() -> None:
    solution = [CallToolAction(tool_name="respond", arguments={"message": text}) for text in ("Hi.", "Bye.")]
    right = NoisyAgent(solution, "Bye.", ErrorRates(), seed=0, episode="e")
    assert await drive(Talk("Yes?"), right, DriveLimits()) is TerminalReason.ENVIRONMENT_ENDED
    assert right.final_answer == "Bye."
    short = NoisyAgent(solution, "Bye.", ErrorRates(), seed=0, episode="e")
    assert await drive(Talk(), short, DriveLimits()) is TerminalReason.ENVIRONMENT_ENDED
    assert short.final_answer is None, "it has not said all of the solution"
    for seed in range(10):
        talk = Talk("Yes?")
        reason = await drive(talk, RandomAgent(seed, "e", min_steps=9, max_steps=9), DriveLimits())
        assert reason is (TerminalReason.ENVIRONMENT_ENDED if talk.done else TerminalReason.DONE)


async def test_an_agent_outside_is_told_of_the_last_result_and_of_the_end() -> None:
    agent, talk = ExternalAgent(deadline_s=60), Talk()
    driving = asyncio.create_task(drive(talk, agent, DriveLimits()))
    assert [tool.name for tool in await agent.tools()] == ["look", "respond"]
    assert (await agent.call("look", {})).text == "seen"
    assert (await agent.call("respond", {"message": "Bye."})).text == "It is over."
    assert await driving is TerminalReason.ENVIRONMENT_ENDED
    assert agent.ending is not None
    assert agent.ending.reason is EndReason.ENVIRONMENT_ENDED
