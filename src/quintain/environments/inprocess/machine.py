"""What a kind of environment in process is made of: a function from a state and a call to a state and an answer."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, Protocol

from quintain.contracts.tools import Tool
from quintain.contracts.untrusted import json_problem
from quintain.environments.base import ToolStatus
from quintain.environments.inprocess.findings import unknown
from quintain.environments.inprocess.schemas import depth_problem
from quintain.errors import ExpressionError, TemplateError

JsonObject = dict[str, Any]

STATE: Final = "state.json"
"""Name of the file that holds the state."""

OWN: Final = "_episode"
"""Key of what the platform keeps in it, beside the facts that the environment declares."""

MAX_STATE_BYTES: Final = 128 * 1024
"""Largest state, in bytes of its file."""

_INSTANT: Final = "%Y-%m-%dT%H:%M:%SZ"


@dataclass(frozen=True)
class State:
    """An episode's state. It is never changed, only replaced."""

    facts: JsonObject
    """What the environment declares, by name."""
    own: JsonObject
    """What the platform keeps: `seconds`, `calls` and `succeeded` by tool, `done`, and what the kind adds."""

    @property
    def done(self) -> bool:
        """Whether the environment has ended the episode."""
        return self.own["done"] is True

    @property
    def seconds(self) -> int:
        """How far the episode's clock has gone."""
        return int(self.own["seconds"])

    def having(self, facts: Mapping[str, Any] | None = None, **own: Any) -> "State":
        """The state with some facts, and some of what the platform keeps, replaced."""
        return State(self.facts if facts is None else {**self.facts, **facts}, {**self.own, **own})

    @property
    def file(self) -> bytes:
        """The state as its file: JSON with sorted keys, ASCII, without spaces. Equal states are equal bytes."""
        whole = {**self.facts, OWN: self.own}
        return json.dumps(whole, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def begun(facts: JsonObject, tools: Sequence[Tool], **own: Any) -> State:
    """The state that an episode begins with.

    Raises:
        TemplateError: it cannot be kept.
    """
    none = {tool.name: 0 for tool in tools}
    state = State(facts, {"seconds": 0, "calls": none, "succeeded": none, "done": False, **own})
    if problem := state_problem(state):
        raise TemplateError(f"the initial state cannot be kept: {problem}")
    return state


def varied(declared: JsonObject, start: JsonObject) -> JsonObject:
    """The declared facts with those replaced that a task's `start` names.

    Raises:
        TemplateError: it names one that is not declared.
    """
    if strange := sorted(start.keys() - declared.keys()):
        raise TemplateError(f"start: {unknown(strange[0], declared, 'fact of the state')}")
    return {**declared, **start}


def state_problem(state: State) -> str | None:
    """Why a state cannot be kept, or None."""
    if problem := json_problem(state.facts) or depth_problem(state.facts):
        return problem
    size = len(state.file)
    return None if size <= MAX_STATE_BYTES else f"it has {size} bytes, over {MAX_STATE_BYTES}"


@dataclass(frozen=True)
class Call:
    """An accepted call of a tool that there is."""

    name: str
    arguments: JsonObject
    seconds: int
    """How far the episode's clock has gone: its first call comes at 1."""
    seed: int


@dataclass(frozen=True)
class Turn:
    """What a call comes to. `state` counts unless the environment fails in it."""

    state: State
    status: ToolStatus
    text: str
    latency_ms: int = 0
    """How long the answer really takes."""


class Machine(Protocol):
    """One environment, read and checked. It keeps nothing of an episode."""

    @property
    def tools(self) -> Sequence[Tool]:
        """Its tools, in its own order."""
        ...

    def begin(self, seed: int, start: JsonObject) -> State:
        """The initial state.

        Raises:
            TemplateError: it cannot start so.
        """
        ...

    def act(self, state: State, call: Call) -> Turn:
        """What comes of a call.

        Raises:
            ExpressionError: the environment's own expressions have no value for it.
        """
        ...


class Clock:
    """An episode's clock as expressions see it."""

    def __init__(self, epoch: str) -> None:
        """Raises TemplateError where the epoch is no instant of the form 2026-02-10T00:00:00Z."""
        try:
            self._epoch = datetime.strptime(epoch, _INSTANT)
        except (TypeError, ValueError):
            raise TemplateError(f"the epoch {epoch!r} is no instant; write it as 2026-02-10T00:00:00Z") from None

    def at(self, seconds: int) -> JsonObject:
        """`now`, as text, and `elapsed`, in seconds since the epoch."""
        return {"now": (self._epoch + timedelta(seconds=seconds)).strftime(_INSTANT), "elapsed": seconds}


def counted(state: State, call: Call, succeeded: bool) -> State:
    """The state after a call of one of its tools."""
    own, name = state.own, call.name
    calls = {**own["calls"], name: own["calls"][name] + 1}
    successes = {**own["succeeded"], name: own["succeeded"][name] + succeeded}
    return state.having(calls=calls, succeeded=successes, seconds=call.seconds)


def kept(before: State, after: State) -> State:
    """The state after a call, if it can be kept.

    Raises:
        ExpressionError: it cannot.
    """
    if after.facts is not before.facts and (problem := state_problem(after)):
        raise ExpressionError(f"the state after it cannot be kept: {problem}")
    return after
