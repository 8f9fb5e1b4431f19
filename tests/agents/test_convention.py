"""The text convention: whatever a model writes is read, or told to be broken, and never raised."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from quintain.agents import AgentLimits, Observation, TextConventionAgent
from quintain.agents.convention import Broken, Call, ListTools, shipped_prompt, wanted
from quintain.agents.endpoint import ChatClient, ChatSettings
from quintain.agents.fake_endpoint import FakeEndpoint
from quintain.agents.fake_replies import Says, Solution, Solver, written
from quintain.agents.thoughts import spoken
from quintain.contracts.tools import Tool
from quintain.contracts.turns import EndReason

TOOLS = (Tool(name="add", description="Adds.", input_schema={"type": "object"}), Tool(name="list"))


def tagged(body: str) -> str:
    return f"<tool_call>{body}</tool_call>"


def called(name: str, arguments: Any) -> str:
    return tagged(json.dumps({"name": "call_tool", "arguments": {"tool_name": name, "arguments": arguments}}))


names = st.text(min_size=1, max_size=20).filter(lambda name: name not in ("list_tools", "call_tool"))
texts = st.text(st.characters(exclude_categories=["Cs"])) | st.sampled_from(
    ["</tool_call>", "<tool_call>", "<think>", '"}', "`"]
)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=10,
)
arguments = st.dictionaries(texts, values, max_size=4)
prose = st.text().filter(lambda text: "<" not in text)
spaces = st.text(" \n\t", max_size=3)


@given(st.lists(st.tuples(prose, names, arguments, spaces, st.booleans(), st.booleans()), max_size=4), prose)
def test_calls_written_by_the_convention_are_read_back(parts: list[Any], after: str) -> None:
    text, expected = "", []
    for before, name, given_arguments, space, fenced, as_text in parts:
        inner = json.dumps(given_arguments) if as_text else given_arguments
        body = json.dumps({"name": "call_tool", "arguments": {"tool_name": name, "arguments": inner}})
        text += before + tagged(f"\n```json\n{body}\n```\n" if fenced else space + body + space)
        expected.append(Call(name, given_arguments))
    assert wanted(text + after) == expected


pieces = st.sampled_from(
    ["<tool_call>", "</tool_call>", "<think>", "</think>", "{", "}", '"name"', ":", '"call_tool"', ",", "[", "```json",
     "\n", '{"name": "add", "arguments": {}}', '"arguments"', "NaN", "1e999", "\\"]
)  # fmt: skip


@given(st.text() | st.lists(pieces | texts).map("".join))
@example("<tool_call>" + "[" * 100_000)
@example("<tool_call>" * 1000)
@example("<think></think>" * 100_000 + "<tool_call>{}")
@example("<tool_call>" + "9" * 5000)
def test_any_text_is_calls_that_can_travel_or_broken_ones(text: str) -> None:
    for one in wanted(text):
        assert isinstance(one, ListTools | Call | Broken)
        if isinstance(one, Call):
            json.dumps(one.arguments, allow_nan=False).encode()
        if isinstance(one, Broken):
            assert 0 < len(one.problem) < 500
    if "<tool_call>" not in text:
        assert wanted(text) == []
    elif "think" not in text:
        assert wanted(text) != []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('<tool_call>{"name": "add", "arguments": {"n": 1}}</tool_call>', Call("add", {"n": 1})),
        ('<tool_call>\n{"name": "add", "arguments": {"n": 1}}', Call("add", {"n": 1})),
        ('<tool_call>{"name": "add", "arguments": {"n": 1}} and that is my call.', Call("add", {"n": 1})),
        ('<tool_call>{"name": "add", "parameters": {"n": 1}}</tool_call>', Call("add", {"n": 1})),
        ('<tool_call>{"name": "add"}</tool_call>', Call("add", {})),
        ('<tool_call>{"name": "add", "arguments": "{\\"n\\": 1}"}</tool_call>', Call("add", {"n": 1})),
        ('```\n<tool_call>\n{"name": "list_tools", "arguments": {}}\n</tool_call>\n```', ListTools()),
        ('<tool_call>{"name": "call_tool", "arguments": {"name": "add"}}</tool_call>', Call("add", {})),
        ('<think>maybe <tool_call>{"name": "x"}</tool_call></think>' + called("add", {}), Call("add", {})),
    ],
)
def test_what_models_write_is_understood(text: str, expected: Any) -> None:
    assert wanted(text) == [expected]


@pytest.mark.parametrize(
    "text",
    [
        "<tool_call></tool_call>",
        tagged("add(n=1)"),
        tagged('{"name": "add", "arguments": {"n": 1}'),
        tagged("{'name': 'add'}"),
        tagged('{"name": 7}'),
        tagged('{"name": "add", "arguments": [1]}'),
        tagged('{"name": "add", "arguments": "n=1"}'),
        tagged('{"name": "add", "arguments": {"n": NaN}}'),
        tagged('{"name": "call_tool", "arguments": {"arguments": {}}}'),
        tagged('{"name": "add"}{"name": "add"}'),
    ],
)
def test_what_cannot_be_read_is_broken_and_does_not_hide_the_next(text: str) -> None:
    first, second = wanted(text + "\nand " + called("list", {}))
    assert isinstance(first, Broken)
    assert second == Call("list", {})


def test_thoughts_are_not_said() -> None:
    assert spoken("<think>hm</think> Yes.") == "Yes."
    assert spoken("hm</think>Yes.") == "Yes."
    assert spoken("Yes. <think>cut o") == "Yes."
    assert wanted("<think>" + called("add", {})) == []
    told = called("add", {"text": "<think>a</think>"})
    assert (
        wanted(f"<think>one</think>{told}<think>two {called('x', {})}</think>{told}")
        == [Call("add", {"text": "<think>a</think>"})] * 2
    )


@asynccontextmanager
async def playing(*texts: str, **more: Any) -> AsyncIterator[tuple[TextConventionAgent, FakeEndpoint]]:
    async with (
        FakeEndpoint(script=[Says(text=text) for text in texts]) as fake,
        ChatClient(ChatSettings(base_url=fake.url, model="m", stream=True)) as client,
    ):
        yield TextConventionAgent(client, "Do it.", **more), fake


async def played(agent: TextConventionAgent) -> list[tuple[str, dict[str, Any]]]:
    calls: list[tuple[str, dict[str, Any]]] = []
    last = None
    while (action := await agent.act(TOOLS, last)) is not None:
        calls.append((action.tool_name, action.arguments))
        last = Observation(text=f"fine {len(calls)}", failed=len(calls) == 2)
    return calls


async def test_an_episode_by_the_convention() -> None:
    texts = [
        written("list_tools", {}), f"Two at once. {called('add', {'n': 1})} {called('list', '{}')}", tagged("oops"),
        "<think>that was it</think>The answer is 7.",
    ]  # fmt: skip
    async with playing(*texts) as (agent, fake):
        assert await played(agent) == [("add", {"n": 1}), ("list", {})]
    assert agent.final_answer == "The answer is 7."
    system, task, _, listed, _, results, _, error = fake.asked[-1].body["messages"]
    assert system == {"role": "system", "content": shipped_prompt()}
    assert task == {"role": "user", "content": "Do it."}
    tools = json.loads(listed["content"].removeprefix("<tool_response>\n").removesuffix("\n</tool_response>"))
    assert [tool["name"] for tool in tools] == ["add", "list"]
    first, second = "<tool_response>\nfine 1\n</tool_response>", "<tool_response>\nerror: fine 2\n</tool_response>"
    assert results["content"] == f"{first}\n{second}"
    assert "the call was not made" in error["content"]
    assert "tools" not in fake.asked[0].body
    assert [turn.prompt_messages for turn in agent.turns] == [2, 4, 6, 8]


async def test_a_model_that_only_writes_broken_calls_is_stopped() -> None:
    async with playing(*[tagged("oops")] * 9, limits=AgentLimits(max_malformed=3)) as (agent, fake):
        assert await played(agent) == []
    assert agent.ending is not None
    assert agent.ending.reason is EndReason.MALFORMED_CALLS
    assert len(fake.asked) == 4


async def test_a_model_that_only_lists_is_truncated() -> None:
    async with playing(*[written("list_tools", {})] * 9, limits=AgentLimits(max_turns=5)) as (agent, _):
        assert await played(agent) == []
    assert agent.ending is not None
    assert agent.ending.reason is EndReason.MAX_TURNS


async def test_the_prompt_can_be_replaced() -> None:
    async with playing("Done.", system_prompt="Another prompt.") as (agent, fake):
        await played(agent)
    assert fake.asked[0].body["messages"][0]["content"] == "Another prompt."


async def test_the_solver_solves_by_the_convention_too() -> None:
    calls = (("add", {"n": 1}), ("list", {}), ("add", {"n": 2}))
    async with (
        FakeEndpoint(Solver({"Do it.": Solution(calls=calls, final_answer="So.")})) as fake,
        ChatClient(ChatSettings(base_url=fake.url, model="m")) as client,
    ):
        agent = TextConventionAgent(client, "Do it.")
        assert await played(agent) == list(calls)
    assert agent.final_answer == "So."
