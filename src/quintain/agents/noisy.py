"""A player of reference solutions that errs at known rates, to have every kind of attempt without a model."""

import random
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from quintain.contracts.tools import CallToolAction, Tool
from quintain.contracts.turns import Ending, EndReason, TurnRecord

JsonObject = dict[str, Any]


class MistakeKind(StrEnum):
    """What can go wrong."""

    WRONG_TOOL = "wrong_tool"
    WRONG_ARGUMENT = "wrong_argument"
    EARLY_STOP = "early_stop"
    LOOP = "loop"


class ErrorRates(BaseModel):
    """How likely each mistake is at each call of the solution; together at most 1."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    wrong_tool: float = Field(default=0.0, ge=0, le=1, description="Calls another tool, or one that does not exist")
    wrong_argument: float = Field(default=0.0, ge=0, le=1, description="An argument is changed, left out, or added")
    early_stop: float = Field(default=0.0, ge=0, le=1, description="Stops without an answer")
    loop: float = Field(default=0.0, ge=0, le=1, description="Repeats the call, then is cut off")
    recovery: float = Field(default=0.0, ge=0, le=1, description="Of wrong calls: the right one is made after it")
    loop_calls: int = Field(default=8, ge=2, le=1000, description="How often a call that is looped on is made")

    @model_validator(mode="after")
    def _at_most_one(self) -> Self:
        total = self.wrong_tool + self.wrong_argument + self.early_stop + self.loop
        if total > 1 + 1e-9:
            raise ValueError(f"the rates add up to {total:g}; together they are at most 1")
        return self


class Mistake(BaseModel):
    """One mistake. `call` is the number of the solution's call that it was made at, from 0."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    call: int
    kind: MistakeKind


class NoisyAgent:
    """Makes the calls of a solution, with mistakes drawn by (seed, episode, number of the call) and nothing else."""

    def __init__(
        self,
        calls: Iterable[CallToolAction],
        final_answer: str | None,
        rates: ErrorRates,
        *,
        seed: int,
        episode: str,
    ) -> None:
        """`episode` tells episodes apart, such as an episode id with an attempt."""
        self.final_answer: str | None = None
        self.mistakes: list[Mistake] = []
        self.turns: Sequence[TurnRecord] = ()
        self.ending: Ending | None = None
        self._calls = tuple(calls)
        self._answer = final_answer
        self._rates = rates
        self._key = f"{seed}:{episode}"
        self._at = 0
        self._queue: list[CallToolAction] = []
        self._then: Ending | None = None

    async def act(self, tools: Sequence[Tool], last: Any) -> CallToolAction | None:
        """The next call, right or wrong; None at the end."""
        if not self._queue and self._then is None:
            self._plan(tools)
        if self._queue:
            return self._queue.pop(0)
        self.ending = self._then
        if self.ending is not None and self.ending.reason is EndReason.FINISHED:
            self.final_answer = self._answer
        return None

    def environment_ended(self, last: Any) -> None:
        """Its last call ended the episode: it has its answer where that was the last of the solution."""
        self.ending = Ending(reason=EndReason.ENVIRONMENT_ENDED)
        if self._at == len(self._calls) and not self._queue and self._then is None:
            self.final_answer = self._answer

    def _plan(self, tools: Sequence[Tool]) -> None:
        """What becomes of the solution's next call."""
        if self._at == len(self._calls):
            self._then = Ending(reason=EndReason.FINISHED)
            return
        call, number = self._calls[self._at], self._at
        self._at += 1
        dice = random.Random(f"{self._key}:{number}")
        kind = self._drawn(dice.random())
        if kind is None:
            self._queue = [call]
            return
        self.mistakes.append(Mistake(call=number, kind=kind))
        if kind is MistakeKind.EARLY_STOP:
            self._then = Ending(reason=EndReason.EARLY_STOP)
        elif kind is MistakeKind.LOOP:
            self._queue = [call] * self._rates.loop_calls
            self._then = Ending(reason=EndReason.MAX_STEPS, detail="it made the same call over and over")
        else:
            recovers = dice.random() < self._rates.recovery
            wrong = _other_tool(call, tools, dice) if kind is MistakeKind.WRONG_TOOL else _other_arguments(call, dice)
            self._queue = [wrong, call] if recovers else [wrong]

    def _drawn(self, draw: float) -> MistakeKind | None:
        for kind in MistakeKind:
            rate: float = getattr(self._rates, kind.value)
            if draw < rate:
                return kind
            draw -= rate
        return None


def _other_tool(call: CallToolAction, tools: Sequence[Tool], dice: random.Random) -> CallToolAction:
    names = [tool.name for tool in tools if tool.name != call.tool_name]
    invented = not names or dice.random() < 0.25
    name = f"{call.tool_name}_{dice.choice(('now', 'all', 'v2'))}" if invented else dice.choice(names)
    return CallToolAction(tool_name=name, arguments=call.arguments)


def _other_arguments(call: CallToolAction, dice: random.Random) -> CallToolAction:
    given = dict(call.arguments)
    if not given:
        given["unexpected"] = dice.randrange(100)
    else:
        name = dice.choice(sorted(given))
        if dice.random() < 0.25:
            del given[name]
        else:
            given[name] = _other(given[name], dice)
    return CallToolAction(tool_name=call.tool_name, arguments=given)


def _other(value: Any, dice: random.Random) -> Any:
    """A value that is not the one given."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + dice.choice((-1, 1, 10, 1000))
    if isinstance(value, str):
        return dice.choice((value + "x", value[::-1] if value != value[::-1] else value + "?", value + " "))
    if isinstance(value, list):
        return value[1:] if value else [dice.randrange(100)]
    if isinstance(value, dict) and value:
        name = dice.choice(sorted(value))
        return {**value, name: _other(value[name], dice)}
    return f"wrong_{dice.randrange(100)}"
