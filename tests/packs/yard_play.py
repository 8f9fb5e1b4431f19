"""Tasks of the pack `yard` played in process, and their verifiers asked without a sandbox."""

import json
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from quintain.agents.noisy import ErrorRates, NoisyAgent
from quintain.agents.random_calls import RandomAgent
from quintain.contracts.tools import CallToolAction, Tool
from quintain.environments.base import ToolOutcome
from quintain.environments.inprocess import InProcessKind, ReadyMachine
from quintain.environments.inprocess.machine import OWN
from quintain.tasks import PackSource
from quintain.tasks.shipped import PACKS
from quintain.verifiers.verifier_kind.code import run

JsonObject = dict[str, Any]
Calls = Sequence[tuple[str, JsonObject]]

SEEDS = range(5)
RATES = ErrorRates(wrong_tool=0.1, wrong_argument=0.2, early_stop=0.03, loop=0.03, recovery=0.4, loop_calls=3)
GUESSES = "Gallery, healthy, none: " + ", ".join(f"{number} or {number}.00" for number in range(3000))
"""What somebody answers who has looked at nothing, and names all that it could be."""


@lru_cache(maxsize=1)
def yard() -> PackSource:
    """The pack."""
    return PackSource.open(PACKS / "yard")


@dataclass(frozen=True)
class Played:
    """What an episode came to."""

    outcomes: list[ToolOutcome]
    first: JsonObject
    last: JsonObject
    changed: list[bool]
    """By call: whether it changed what the verifier looks at."""
    verdict: str


def looked_at(state: JsonObject) -> JsonObject:
    """The state's facts, and where a simulator is."""
    return {**{name: value for name, value in state.items() if name != OWN}, "at": state[OWN].get("at")}


async def prepared(kind: InProcessKind, scenario: str) -> ReadyMachine:
    """An environment of the pack, made ready."""
    source = yard()
    return await kind.prepare(source.payload_digest(scenario), lambda: source.payload(scenario))


async def play(
    ready: ReadyMachine, scenario: str, idx: int, seed: int, agent: Any, into: Path, *, watched: bool = False
) -> Played:
    """An agent plays a task; then the verifier is asked. Only what is watched tells which calls changed something."""
    source = yard()
    task = source.task(scenario, idx, seed)
    environment = ready.environment()
    await environment.reset(seed, task.start)

    async def state() -> JsonObject:
        (file,) = await environment.snapshot(into)
        return dict(json.loads(file.path.read_bytes()))

    first = last = await state()
    outcomes: list[ToolOutcome] = []
    changed: list[bool] = []
    while not environment.done and (action := await agent.act(environment.tools, None)) is not None:
        outcomes.append(await environment.call(action.tool_name, action.arguments, 30.0))
        if watched:
            before, last = last, await state()
            changed.append(looked_at(before) != looked_at(last))
    last = await state()
    await environment.close()
    verifier = source.verifier(scenario, idx, "code")
    assert verifier is not None
    inputs = {"initial_state": deepcopy(first), "final_state": deepcopy(last), "final_answer": agent.final_answer}
    value = run(verifier.code, verifier.function, inputs, {"trace": [], "variables": task.variables})
    return Played(outcomes, first, last, changed, value["result"])


class Script:
    """Makes the calls it was given."""

    def __init__(self, calls: Calls, answer: str | None) -> None:
        self.final_answer = answer
        self._left = list(calls)

    async def act(self, tools: Sequence[Tool], last: Any) -> CallToolAction | None:
        """The next call."""
        if not self._left:
            return None
        name, arguments = self._left.pop(0)
        return CallToolAction(tool_name=name, arguments=arguments)


def solution(scenario: str, idx: int, seed: int) -> tuple[list[tuple[str, JsonObject]], str]:
    """The reference solution's calls, and its answer."""
    found = yard().solution(scenario, idx, seed)
    assert found is not None
    return [(call.name, dict(call.arguments)) for call in found.calls], found.final_answer or ""


def noisy(scenario: str, idx: int, seed: int, number: int) -> NoisyAgent:
    """One that errs on its way through the solution."""
    calls, answer = solution(scenario, idx, seed)
    actions = [CallToolAction(tool_name=name, arguments=arguments) for name, arguments in calls]
    return NoisyAgent(actions, answer, RATES, seed=number, episode=f"{scenario}/{idx}/{seed}")


def at_random(scenario: str, idx: int, seed: int, number: int) -> RandomAgent:
    """One that knows nothing but the tools, and in the end names all that the answer could be."""
    agent = RandomAgent(number, f"{scenario}/{idx}/{seed}", max_steps=20)
    agent.final_answer = GUESSES
    return agent


async def check_solution(ready: ReadyMachine, scenario: str, idx: int, seed: int, into: Path) -> None:
    """The solution is complete, and nothing less is; nor is a right state with no answer where one is asked for."""
    calls, answer = solution(scenario, idx, seed)
    where = f"{scenario} {idx} seed {seed}"
    whole = await play(ready, scenario, idx, seed, Script(calls, answer), into, watched=True)
    told = [(call, one.text or one.error) for call, one in zip(calls, whole.outcomes, strict=False)]
    assert len(whole.outcomes) == len(calls), (where, told)
    assert whole.verdict == "complete", (where, told, answer, looked_at(whole.last))
    assert not [one for one in whole.outcomes if one.status in ("server_error", "invalid_args")], (where, told)
    nothing = await play(ready, scenario, idx, seed, Script([], ""), into)
    assert nothing.verdict != "complete", where
    said = await play(ready, scenario, idx, seed, Script([], answer), into)
    if not any(whole.changed):
        mute = await play(ready, scenario, idx, seed, Script(calls, "I have looked it up."), into)
        assert mute.verdict != "complete", where
    else:
        assert said.verdict != "complete", where
    for left_out in [number for number, changed in enumerate(whole.changed) if changed]:
        rest = [call for number, call in enumerate(calls) if number != left_out]
        part = await play(ready, scenario, idx, seed, Script(rest, answer), into)
        same = looked_at(part.last) == looked_at(whole.last)
        assert same == (part.verdict == "complete"), (where, calls[left_out])


async def check_noise(ready: ReadyMachine, scenario: str, idx: int, numbers: range, into: Path) -> None:
    """Agents that err are complete only where they have left what the solution leaves; random ones never are."""
    wanted = {}
    for number in numbers:
        seed = number % len(SEEDS)
        if seed not in wanted:
            calls, answer = solution(scenario, idx, seed)
            whole = await play(ready, scenario, idx, seed, Script(calls, answer), into)
            wanted[seed] = looked_at(whole.last)
        tried = await play(ready, scenario, idx, seed, noisy(scenario, idx, seed, number), into)
        if tried.verdict == "complete":
            assert looked_at(tried.last) == wanted[seed], (scenario, idx, seed, number)
        blind = await play(ready, scenario, idx, seed, at_random(scenario, idx, seed, number), into)
        assert blind.verdict != "complete", (scenario, idx, seed, number)
