"""The random agent: reproducible, within its tools' schemas, never ending."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from quintain.agents import RandomAgent
from quintain.contracts.tools import CallToolAction, Tool

TOOLS = (
    Tool(name="list"),
    Tool(
        name="add",
        input_schema={
            "type": "object",
            "required": ["n", "to"],
            "properties": {
                "n": {"type": "integer", "minimum": 1, "maximum": 5},
                "to": {"type": "object", "required": ["kind"], "properties": {"kind": {"enum": ["a", "b"]}}},
            },
        },
    ),
)


async def played(seed: int, episode: str, **bounds: int) -> list[CallToolAction]:
    agent = RandomAgent(seed, episode, **bounds)
    made = []
    while (action := await agent.act(TOOLS, None)) is not None:
        made.append(action)
    assert agent.ending is not None
    assert agent.final_answer is None
    return made


@given(st.integers(), st.text(), st.integers(0, 5), st.integers(0, 5))
async def test_it_makes_so_many_calls_that_fit_and_the_same_again(
    seed: int, episode: str, least: int, more: int
) -> None:
    made = await played(seed, episode, min_steps=least, max_steps=least + more)
    assert least <= len(made) <= least + more
    schemas = {tool.name: tool.input_schema for tool in TOOLS}
    for one in made:
        Draft202012Validator(schemas[one.tool_name]).validate(one.arguments)
    assert await played(seed, episode, min_steps=least, max_steps=least + more) == made


async def test_episodes_differ() -> None:
    assert len({str(await played(1, f"episode {number}")) for number in range(20)}) > 15


async def test_without_tools_it_does_nothing() -> None:
    assert await RandomAgent(1, "e").act((), None) is None


def test_no_range_is_refused() -> None:
    with pytest.raises(ValueError, match="no range"):
        RandomAgent(1, "e", min_steps=5, max_steps=2)
