"""Attempts that must not be paid: random calls, and the reference solution spoilt in one way or another.

Which attempt a number stands for depends on the number alone, so that a validation repeats.
"""

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from quintain.agents import ReferenceAgent
from quintain.agents.noisy import ErrorRates, NoisyAgent
from quintain.agents.random_calls import RandomAgent
from quintain.contracts.tools import CallToolAction
from quintain.episodes.base import Agent

NOTHING: Final = CallToolAction(tool_name="no_such_tool", arguments={})
"""A call of no tool: time passes and nothing is done."""

GUESSES: Final = f"All of it, yes, no, none, {', '.join(str(one) for one in range(3000))}"
"""What somebody answers who has found nothing, and hopes that what is wanted is among it."""

MAX_STEPS: Final = 20
"""Most calls of an agent that calls at random."""

_RATES: Final = ErrorRates(wrong_tool=0.15, wrong_argument=0.3, early_stop=0.05)
"""Each mistake takes the place of a call, so that the calls after it come when they do in the solution."""


class Spoiling(StrEnum):
    """How an attempt comes to be no solution."""

    DROPPED = "dropped"
    """One call is left out; the answer is the solution's."""
    RANDOM = "random"
    """Tools are called at random, and nothing is answered or, every second time, all that could be right."""
    NOISY = "noisy"
    """Calls have another tool or other arguments, or it stops early and does not answer."""
    CUT = "cut"
    """Only the first calls are made; the answer is the solution's."""
    SWAPPED = "swapped"
    """Two arguments have each other's values, of one call or of two; the answer is the solution's."""


@dataclass(frozen=True)
class Spoilt:
    """One attempt, and in words what it does. `dropped` is the number of the call that it leaves out."""

    agent: Agent
    told: str
    dropped: int | None = None


def spoilt(calls: Sequence[CallToolAction], answer: str | None, number: int, key: str) -> Spoilt:
    """The attempt of a number, from 0; consecutive numbers take turns at the ways, and then at the calls.

    Args:
        calls: of the reference solution.
        key: tells tasks and seeds apart.
    """
    ways = list(Spoiling)
    way, at = ways[number % len(ways)], number // len(ways)
    dice = random.Random(f"{key}/{number}")
    if way is Spoiling.SWAPPED and (exchanged := _exchanged(calls, dice)) is not None:
        return Spoilt(ReferenceAgent(exchanged, answer), "with arguments exchanged")
    if way is Spoiling.RANDOM or not calls:
        return Spoilt(_blind(number, key, GUESSES if at % 2 else None), "calls at random")
    at %= len(calls)
    if way is Spoiling.DROPPED:
        rest = [call for index, call in enumerate(calls) if index != at]
        return Spoilt(ReferenceAgent(rest, answer), f"{call_name(calls, at)} left out", dropped=at)
    if way is Spoiling.CUT:
        left = len(calls) - 1 - at
        return Spoilt(ReferenceAgent(calls[:left], answer), f"only the first {left} of {len(calls)} calls")
    return Spoilt(NoisyAgent(calls, answer, _RATES, seed=number, episode=key), "with mistakes")


def _blind(number: int, key: str, answer: str | None) -> Agent:
    agent = RandomAgent(number, key, max_steps=MAX_STEPS)
    agent.final_answer = answer
    return agent


def idle_at(calls: Sequence[CallToolAction], answer: str | None, at: int) -> Agent:
    """The solution, but for one call in whose place nothing is done: what comes after it comes when it did."""
    return ReferenceAgent([NOTHING if index == at else call for index, call in enumerate(calls)], answer)


def call_name(calls: Sequence[CallToolAction], at: int) -> str:
    """A call as messages name it."""
    return f"call {at + 1} ({calls[at].tool_name})"


def listed(calls: Sequence[CallToolAction], limit: int = 240) -> str:
    """Calls in words, cut at a number of characters."""
    text = "; ".join(f"{call.tool_name} {json.dumps(call.arguments)}" for call in calls) or "no call"
    return text if len(text) <= limit else f"{text[: limit - 3]}..."


def _exchanged(calls: Sequence[CallToolAction], dice: random.Random) -> list[CallToolAction] | None:
    """The calls with two unlike values of one type exchanged; None where there are no two."""
    places = [(index, name) for index, call in enumerate(calls) for name in sorted(call.arguments)]

    def value(place: tuple[int, str]) -> Any:
        return calls[place[0]].arguments[place[1]]

    pairs = [
        (one, other)
        for at, one in enumerate(places)
        for other in places[at + 1 :]
        if type(value(one)) is type(value(other)) and value(one) != value(other)
    ]
    if not pairs:
        return None
    one, other = dice.choice(pairs)
    given = [dict(call.arguments) for call in calls]
    given[one[0]][one[1]], given[other[0]][other[1]] = value(other), value(one)
    return [
        CallToolAction(tool_name=call.tool_name, arguments=arguments)
        for call, arguments in zip(calls, given, strict=True)
    ]
