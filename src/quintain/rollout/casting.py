"""Who plays which attempt: agents made of a plan's specifications, and the endpoints they share."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Protocol

from pydantic import SecretStr

from quintain.agents import (
    ChatAgent,
    NoisyAgent,
    PatientCompleter,
    RandomAgent,
    ReferenceAgent,
    TextConventionAgent,
)
from quintain.agents.base import AgentLimits
from quintain.agents.endpoint import ChatClient
from quintain.contracts.tools import CallToolAction
from quintain.episodes.base import Agent
from quintain.episodes.driving import WallTime
from quintain.errors import UnknownTaskError, UsageError
from quintain.rollout.concurrency import AdaptiveLimit, LimitedCompleter
from quintain.rollout.plan import ModelSpec, NoisySpec, RandomSpec, ReferenceSpec, RolloutPlan, WorkItem
from quintain.tasks.base import TaskSource

NO_STEP_LIMIT = 2**31
"""What stands for no limit where an agent needs one."""


class Casting(Protocol):
    """Gives each attempt its agent."""

    def agent(self, item: WorkItem, task: str, episode: str, wall: WallTime) -> Agent:
        """A new agent.

        Args:
            task: the task's text.
            episode: tells the attempt apart for whoever draws at random.
            wall: the attempt's clock, for agents that are held up by others.
        """
        ...


class PlanCasting:
    """Agents as a plan specifies them. Use `open`."""

    def __init__(
        self,
        plan: RolloutPlan,
        source: TaskSource,
        clients: Mapping[str, ChatClient],
        limits: Mapping[str, AdaptiveLimit],
    ) -> None:
        self.limits = limits
        """The adaptive limit of each endpoint, by its address."""
        self._plan = plan
        self._source = source
        self._clients = clients

    @classmethod
    @asynccontextmanager
    async def open(
        cls, plan: RolloutPlan, source: TaskSource, told: Callable[[str, int], object] = lambda *_: None
    ) -> AsyncIterator["PlanCasting"]:
        """Agents for a plan, their endpoints' connections closed at the end.

        Args:
            told: called with an endpoint's address and its new limit.

        Raises:
            UsageError: a key's variable is not set.
        """
        limits: dict[str, AdaptiveLimit] = {}
        async with AsyncExitStack() as stack:
            clients: dict[str, ChatClient] = {}
            for spec in plan.agents:
                if isinstance(spec, ModelSpec):
                    key = _key(spec)
                    settings = spec.endpoint if key is None else spec.endpoint.model_copy(update={"api_key": key})
                    clients[spec.called] = await stack.enter_async_context(ChatClient(settings))
                    address = str(spec.endpoint.base_url)
                    known = limits.get(address)
                    bound = spec.max_at_once if known is None else min(known.bound, spec.max_at_once)
                    limits[address] = AdaptiveLimit(bound, told=_telling(told, address))
            yield cls(plan, source, clients, limits)

    def agent(self, item: WorkItem, task: str, episode: str, wall: WallTime) -> Agent:
        """A new agent for one attempt.

        Raises:
            UnknownTaskError: it is to play a solution, and the task has none.
        """
        spec = item.agent
        if isinstance(spec, RandomSpec):
            return RandomAgent(spec.seed, episode, min_steps=spec.min_steps, max_steps=spec.max_steps)
        if isinstance(spec, ModelSpec):
            return self._model(spec, task, wall)
        calls, answer = solution(self._source, item)
        if isinstance(spec, NoisySpec):
            return NoisyAgent(calls, answer, spec.rates, seed=spec.seed, episode=episode)
        return ReferenceAgent(calls, answer)

    def _model(self, spec: ModelSpec, task: str, wall: WallTime) -> Agent:
        async def wait(seconds: float) -> None:
            with wall.held():
                await asyncio.sleep(seconds)

        plan = self._plan.limits
        limited = LimitedCompleter(self._clients[spec.called], self.limits[str(spec.endpoint.base_url)], wall.held)
        kind = ChatAgent if spec.kind == "chat" else TextConventionAgent
        return kind(
            PatientCompleter(limited, spec.retries, sleep=wait),
            task,
            limits=AgentLimits(
                max_steps=plan.max_steps or NO_STEP_LIMIT,
                max_turns=spec.max_turns,
                max_turn_tokens=spec.max_turn_tokens,
                max_total_tokens=plan.max_tokens,
                max_malformed=spec.max_malformed,
            ),
            system_prompt=spec.system_prompt,
            model_digest=spec.model,
        )


def solution(source: TaskSource, item: WorkItem) -> tuple[list[CallToolAction], str]:
    """A task's reference solution.

    Raises:
        UnknownTaskError: it has none.
    """
    known = source.solution(item.task.scenario, item.task.task_idx, item.task.seed)
    if known is None:
        where = f"{item.task.scenario}/{item.task.task_idx}"
        raise UnknownTaskError(f"{where} has no reference solution, which {item.agent.called} plays; leave it out")
    return [CallToolAction(tool_name=call.name, arguments=call.arguments) for call in known.calls], known.final_answer


def check(plan: RolloutPlan, source: TaskSource) -> None:
    """See that every task of a plan is there, once, and can be played by every agent. Reads files.

    Raises:
        UsageError: that is not so.
    """
    seen: set[tuple[str, int, int]] = set()
    for task in plan.tasks:
        found = source.task(task.scenario, task.task_idx)
        key = (found.scenario, task.task_idx, task.seed)
        if key in seen:
            raise UsageError(
                f"{task.scenario}/{task.task_idx} with seed {task.seed} is in the plan twice, spelt otherwise"
            )
        seen.add(key)
        for agent in plan.agents:
            if isinstance(agent, ReferenceSpec | NoisySpec):
                solution(source, WorkItem("", task, agent, 0))
    for agent in plan.agents:
        if isinstance(agent, ModelSpec):
            _key(agent)


def credentials(plan: RolloutPlan) -> list[str]:
    """The keys of a plan's endpoints, which no record may hold."""
    keys = [_key(agent) for agent in plan.agents if isinstance(agent, ModelSpec)]
    return [key.get_secret_value() for key in keys if key is not None]


def _key(spec: ModelSpec) -> SecretStr | None:
    if spec.api_key_env is None:
        return None
    value: Any = os.environ.get(spec.api_key_env)
    if not value:
        raise UsageError(f"the key of agent {spec.called} is to be in ${spec.api_key_env}, which is not set; set it")
    return SecretStr(value)


def _telling(told: Callable[[str, int], object], address: str) -> Callable[[int], object]:
    return lambda limit: told(address, limit)
