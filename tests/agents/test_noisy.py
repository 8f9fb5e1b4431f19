"""The player that errs: which mistake, at which call, decided by seed and episode alone."""

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from quintain.agents import ErrorRates, NoisyAgent, Observation, ReportingAgent
from quintain.agents.noisy import MistakeKind
from quintain.contracts.tools import CallToolAction, Tool
from quintain.contracts.turns import EndReason

TOOLS = tuple(Tool(name=name) for name in ("add", "list", "remove"))
CALLS = tuple(
    CallToolAction(tool_name=("add", "remove")[number % 2], arguments={"n": number, "tags": ["x"], "note": "aba"})
    for number in range(6)
)


async def played(
    rates: ErrorRates, seed: int = 0, episode: str = "e", answers: bool = True
) -> tuple[NoisyAgent, list[Any]]:
    agent = NoisyAgent(CALLS, "Done.", rates, seed=seed, episode=episode)
    made, last = [], None
    while (action := await agent.act(TOOLS, last)) is not None:
        made.append(action)
        last = Observation(text="fine") if answers else Observation(text="bad", failed=True)
    return agent, made


async def test_without_mistakes_it_is_the_reference() -> None:
    agent, made = await played(ErrorRates())
    assert made == list(CALLS)
    assert (agent.final_answer, agent.mistakes) == ("Done.", [])
    assert isinstance(agent, ReportingAgent)


@pytest.mark.parametrize("kind", list(MistakeKind))
async def test_each_kind_of_mistake_is_what_its_name_says(kind: MistakeKind) -> None:
    agent, made = await played(ErrorRates(**{kind.value: 1.0}))
    assert agent.ending is not None
    assert agent.mistakes[0].kind is kind
    if kind is MistakeKind.EARLY_STOP:
        assert (made, agent.final_answer, agent.ending.reason) == ([], None, EndReason.EARLY_STOP)
    elif kind is MistakeKind.LOOP:
        assert made == [CALLS[0]] * 8
        assert (agent.final_answer, agent.ending.truncated) == (None, True)
    elif kind is MistakeKind.WRONG_TOOL:
        assert all(one.tool_name != right.tool_name for one, right in zip(made, CALLS, strict=True))
        assert agent.final_answer == "Done."
    else:
        assert all(one.arguments != right.arguments for one, right in zip(made, CALLS, strict=True))
        assert [one.tool_name for one in made] == [right.tool_name for right in CALLS]


async def test_it_recovers_when_it_is_told_to() -> None:
    _, made = await played(ErrorRates(wrong_argument=1.0, recovery=1.0))
    assert made[1::2] == list(CALLS)
    assert all(wrong != right for wrong, right in zip(made[::2], made[1::2], strict=True))


SOME = ErrorRates(wrong_tool=0.1, wrong_argument=0.1, early_stop=0.05, loop=0.05, recovery=0.5)


@given(st.integers(), st.text())
async def test_seed_and_episode_decide_and_nothing_that_came_back(seed: int, episode: str) -> None:
    one, made = await played(SOME, seed, episode)
    other, again = await played(SOME, seed, episode, answers=False)
    assert (made, one.mistakes, one.ending, one.final_answer) == (
        again,
        other.mistakes,
        other.ending,
        other.final_answer,
    )


async def test_the_rates_are_kept() -> None:
    found: Counter[MistakeKind] = Counter()
    calls = 0
    for number in range(400):
        agent, _ = await played(SOME, 1, f"episode {number}")
        found.update(one.kind for one in agent.mistakes)
        calls += max((one.call + 1 for one in agent.mistakes if one.kind in ("loop", "early_stop")), default=len(CALLS))
    for kind in MistakeKind:
        assert found[kind] / calls == pytest.approx(getattr(SOME, kind.value), abs=0.03)


def test_rates_over_one_are_refused() -> None:
    with pytest.raises(ValidationError, match="together they are at most 1"):
        ErrorRates(wrong_tool=0.7, loop=0.7)
