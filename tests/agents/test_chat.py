"""The agent with native calls, its model behind a real endpoint on loopback."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from quintain.agents import AgentLimits, ChatAgent, Observation, PatientCompleter, ReportingAgent, Retries
from quintain.agents.base import UNANSWERED, Completer
from quintain.agents.endpoint import ChatClient, ChatSettings
from quintain.agents.fake_endpoint import FakeEndpoint
from quintain.agents.fake_replies import Drops, Fails, Refuses, Reply, Says
from quintain.contracts.tools import CallToolAction, Tool
from quintain.contracts.turns import EndReason, TurnRecord
from quintain.errors import Delivery, EndpointUnavailable, Owner, RateLimited

TOOLS = (
    Tool(name="add", description="Adds.", input_schema={"type": "object", "properties": {"n": {"type": "integer"}}}),
    Tool(name="list"),
)


class Bench:
    """An agent, its endpoint, and what came of its calls."""

    def __init__(self, agent: ChatAgent, fake: FakeEndpoint) -> None:
        self.agent = agent
        self.fake = fake
        self.calls: list[tuple[str, dict[str, Any]]] = []

    async def play(self, answers: Sequence[Any] = ()) -> None:
        """Let the agent act to its end; calls are answered in turn, the rest with `fine N`."""
        last: Any = None
        while (action := await self.agent.act(TOOLS, last)) is not None:
            assert isinstance(action, CallToolAction)
            self.calls.append((action.tool_name, action.arguments))
            number = len(self.calls)
            last = answers[number - 1] if number <= len(answers) else Observation(text=f"fine {number}")

    @property
    def prompt(self) -> list[dict[str, Any]]:
        """The messages of the last request."""
        messages: list[dict[str, Any]] = self.fake.asked[-1].body["messages"]
        return messages


@asynccontextmanager
async def bench(*script: Reply, limits: AgentLimits | None = None, **more: Any) -> AsyncIterator[Bench]:
    fakes = {name: more.pop(name) for name in ("context_tokens",) if name in more}
    retries: Retries | None = more.pop("retries", None)
    async with (
        FakeEndpoint(script=script, **fakes) as fake,
        ChatClient(ChatSettings.read(base_url=fake.url, model="m", **more)) as client,
    ):
        completer: Completer = client if retries is None else PatientCompleter(client, retries)
        yield Bench(ChatAgent(completer, "Do it.", limits=limits, system_prompt="Be brief."), fake)


@pytest.mark.parametrize("stream", [False, True])
async def test_calls_are_made_in_order_and_answered_before_the_model_is_asked_again(stream: bool) -> None:
    both = (("add", {"n": 1}), ("list", {}))
    async with bench(Says(calls=both), Says(calls=(("add", {"n": 2}),)), Says(text="All done."), stream=stream) as one:
        await one.play()
    assert one.calls == [("add", {"n": 1}), ("list", {}), ("add", {"n": 2})]
    assert one.agent.final_answer == "All done."
    assert one.agent.ending is not None
    assert (one.agent.ending.reason, one.agent.ending.truncated) == (EndReason.FINISHED, False)
    assert isinstance(one.agent, ReportingAgent)
    told = [(one["role"], one.get("tool_call_id"), one["content"]) for one in one.prompt]
    assert told == [
        ("system", None, "Be brief."), ("user", None, "Do it."), ("assistant", None, None),
        ("tool", "call_0", "fine 1"), ("tool", "call_1", "fine 2"), ("assistant", None, None),
        ("tool", "call_0", "fine 3"),
    ]  # fmt: skip
    tools = one.fake.asked[0].body["tools"]
    assert [tool["function"]["name"] for tool in tools] == ["add", "list"]
    assert tools[1]["function"]["parameters"]["type"] == "object"


async def test_the_turns_are_the_whole_conversation_and_nothing_twice() -> None:
    script = [Says(calls=(("add", {"n": 1}),)), Fails(status=500), Says(calls=(("list", {}),)), Says(text="Done.")]
    async with bench(*script, retries=Retries(first_wait_s=0), logprobs=True, token_ids=True) as one:
        await one.play()
    turns = one.agent.turns
    rebuilt = [message for turn in turns for message in (*turn.messages, turn.reply)]
    assert rebuilt[:-1] == one.prompt
    assert [turn.prompt_messages for turn in turns] == [2, 4, 6]
    assert [len(turn.retried) for turn in turns] == [0, 1, 0]
    failed = turns[1].retried[0]
    assert (failed.error, failed.status, failed.delivery) == ("EndpointUnavailable", 500, Delivery.DELIVERED)
    for turn in turns:
        assert turn.usage.completion_tokens == len(turn.tokens.logprobs or ()) == len(turn.tokens.token_ids or ())
        assert turn.latency_ms > 0
        assert TurnRecord.model_validate_json(turn.model_dump_json()) == turn


async def test_a_turn_that_failed_may_be_taken_again_and_nothing_is_said_twice() -> None:
    async with bench(Says(calls=(("list", {}),)), Drops(), Fails(status=429, retry_after="2"), Says(text="Ok.")) as one:
        assert await one.agent.act(TOOLS, None) is not None
        with pytest.raises(EndpointUnavailable):
            await one.agent.act(TOOLS, Observation(text="seen"))
        with pytest.raises(RateLimited):
            await one.agent.act(TOOLS, Observation(text="seen"))
        assert await one.agent.act(TOOLS, Observation(text="seen")) is None
    assert [message["content"] for message in one.prompt if message["role"] == "tool"] == ["seen"]
    deliveries = [turn.delivery for turn in one.agent.turns]
    assert deliveries == [
        Delivery.DELIVERED, Delivery.POSSIBLY_DELIVERED, Delivery.DELIVERED, Delivery.DELIVERED
    ]  # fmt: skip
    assert [turn.error is None for turn in one.agent.turns] == [True, False, False, True]
    assert [len(turn.messages) for turn in one.agent.turns] == [2, 1, 0, 0]
    assert [message for turn in one.agent.turns for message in (*turn.messages, turn.reply) if message][
        :-1
    ] == one.prompt


async def test_unreadable_arguments_go_back_to_the_model_a_bounded_number_of_times() -> None:
    broken = [Says(calls=(("add", '{"n": '), ("list", {}))), Says(calls=(("add", "[1]"),)), Says(text="Fine.")]
    async with bench(*broken) as one:
        await one.play()
    assert one.calls == [("list", {})]
    answers = [message["content"] for message in one.prompt if message["role"] == "tool"]
    assert "the arguments are not JSON" in answers[0]
    assert answers[1] == "fine 1"
    assert "a list; send one JSON object" in answers[2]
    assert one.agent.final_answer == "Fine."


async def test_a_model_that_never_writes_json_is_stopped() -> None:
    async with bench(*[Says(calls=(("add", "{"),))] * 9, limits=AgentLimits(max_malformed=2)) as one:
        await one.play()
    assert len(one.fake.asked) == 3
    assert one.agent.ending is not None
    assert (one.agent.ending.reason, one.agent.ending.truncated) == (EndReason.MALFORMED_CALLS, False)
    assert one.agent.final_answer is None


@pytest.mark.parametrize("arguments", ['{"n": NaN}', '{"n": "\\ud800"}', '{"a":' * 90 + "1" + "}" * 90, "[" * 99_999])
async def test_arguments_that_cannot_travel_are_not_sent(arguments: str) -> None:
    async with bench(Says(calls=(("add", arguments),)), Says(text="Fine.")) as one:
        await one.play()
    assert one.calls == []
    assert one.agent.final_answer == "Fine."


async def test_thoughts_that_an_endpoint_leaves_in_the_text_are_no_part_of_the_answer() -> None:
    async with bench(Says(text="<think>Is it 6? No.</think>It is 7.")) as one:
        await one.play()
    assert one.agent.final_answer == "It is 7."


async def test_a_refusal_ends_it_without_an_answer() -> None:
    async with bench(Refuses()) as one:
        await one.play()
    assert one.agent.ending is not None
    assert (one.agent.ending.reason, one.agent.ending.truncated) == (EndReason.REFUSED, False)
    assert one.agent.final_answer is None
    assert one.agent.turns[0].refusal == Refuses().text


FOREVER = [Says(calls=(("list", {}), ("list", {})))] * 50


@pytest.mark.parametrize(
    ("limits", "reason", "steps"),
    [
        (AgentLimits(max_steps=3), EndReason.MAX_STEPS, 3),
        (AgentLimits(max_turns=2), EndReason.MAX_TURNS, 4),
        (AgentLimits(max_total_tokens=13), EndReason.MAX_TOTAL_TOKENS, 6),
    ],
)
async def test_limits_truncate(limits: AgentLimits, reason: EndReason, steps: int) -> None:
    async with bench(*FOREVER, limits=limits) as one:
        await one.play()
    assert len(one.calls) == steps
    assert one.agent.ending is not None
    assert (one.agent.ending.reason, one.agent.ending.truncated) == (reason, True)
    assert one.agent.final_answer is None
    assert await one.agent.act(TOOLS, None) is None


async def test_a_prompt_too_long_for_the_model_truncates_and_is_in_the_turns() -> None:
    async with bench(*FOREVER, context_tokens=400) as one:
        await one.play()
    assert one.agent.ending is not None
    assert (one.agent.ending.reason, one.agent.ending.truncated) == (EndReason.CONTEXT_OVERFLOW, True)
    assert len(one.calls) > 2
    error = one.agent.turns[-1].error
    assert error is not None
    assert error.error == "ContextOverflow"


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (Says(text="word " * 200), EndReason.MAX_TURN_TOKENS),
        (Says(text="a few words", finish_reason="length"), EndReason.CONTEXT_OVERFLOW),
        (Says(text="a few words", finish_reason="content_filter"), EndReason.CONTENT_FILTER),
    ],
)
async def test_an_answer_that_was_cut_off_is_no_final_answer(reply: Reply, reason: EndReason) -> None:
    async with bench(reply, limits=AgentLimits(max_turn_tokens=50)) as one:
        await one.play()
    assert one.agent.ending is not None
    assert one.agent.ending.reason is reason
    assert one.agent.final_answer is None


async def test_the_model_sees_texts_and_never_whose_failure_it_was() -> None:
    outcomes = [
        SimpleNamespace(status="ok", text="good", error=None, owner=None, log="secret"),
        SimpleNamespace(status="tool_error", text=None, error="no such id", owner=Owner.AGENT, log="secret"),
        SimpleNamespace(status="server_error", text=None, error="lost pid 7", owner=Owner.INFRASTRUCTURE, log="secret"),
        Observation(text="x" * 500 + "y" * 500),
    ]
    async with bench(*FOREVER[:2], Says(text="Ok."), limits=AgentLimits(max_observation_chars=100)) as one:
        await one.play(outcomes)
    answers = [message["content"] for message in one.prompt if message["role"] == "tool"]
    assert answers[:3] == ["good", "error: no such id", f"error: {UNANSWERED}"]
    assert answers[3] == "x" * 50 + "\n[900 characters left out]\n" + "y" * 50
    assert "secret" not in json.dumps(one.prompt)


async def test_an_exchange_that_is_cancelled_was_possibly_delivered_and_may_be_taken_again() -> None:
    async with bench(Says(text="Late.", delay_s=30), Says(text="Done.")) as one:
        acting = asyncio.create_task(one.agent.act(TOOLS, None))
        await asyncio.wait_for(one.fake.arrived.wait(), 10)
        acting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await acting
        assert await one.agent.act(TOOLS, None) is None
    assert [turn.delivery for turn in one.agent.turns] == [Delivery.POSSIBLY_DELIVERED, Delivery.DELIVERED]
    assert one.agent.final_answer == "Done."
