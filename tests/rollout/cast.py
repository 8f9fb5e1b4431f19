"""What the engine's tests share: plans over the toy scenario, scripted agents, and a rollout with its sink."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from quintain.contracts.record import EpisodeRecord
from quintain.contracts.tools import CallToolAction, Tool
from quintain.contracts.turns import Ending, TurnRecord
from quintain.environments import ToolOutcome
from quintain.episodes import Agent
from quintain.episodes.driving import WallTime
from quintain.records.recorder import MemoryRecorder
from quintain.rollout import PlannedTask, RetryLimits, Rollout, RolloutPlan, RunEvent, WorkItem

COUNT, CRASH, ANSWER = 0, 1, 3
BUY = CallToolAction(tool_name="add_note", arguments={"text": "buy milk"})


def tool(name: str, **arguments: Any) -> CallToolAction:
    return CallToolAction(tool_name=name, arguments=arguments)


def plan(*tasks: int, attempts: int = 2, **more: Any) -> RolloutPlan:
    """Tasks of the toy scenario, by the verifier they have."""
    return RolloutPlan(
        tasks=tuple(PlannedTask(scenario="toy_notes_1", task_idx=task) for task in tasks or (COUNT,)),
        attempts=attempts,
        **{"retries": RetryLimits(wait_s=0.0), **more},
    )


async def until(condition: Callable[[], Any], seconds: float = 10.0) -> None:
    """Wait for a condition."""
    for _ in range(int(seconds / 0.01)):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it did not come to pass")


@dataclass
class Script:
    """An agent that makes given calls, then ends as told."""

    calls: Sequence[CallToolAction | Exception | Callable[[], Any]] = (BUY,)
    final_answer: str | None = None
    ending: Ending | None = None
    turns: Sequence[TurnRecord] = ()
    seen: list[ToolOutcome | None] = field(default_factory=list)

    async def act(self, tools: Sequence[Tool], last: ToolOutcome | None) -> CallToolAction | None:
        assert tools
        self.seen.append(last)
        if len(self.seen) > len(self.calls):
            return None
        call = self.calls[len(self.seen) - 1]
        if isinstance(call, Exception):
            raise call
        return call if isinstance(call, CallToolAction) else await call()


class Cast:
    """Gives every attempt an agent made by a function of its item."""

    def __init__(self, make: Callable[[WorkItem], Agent] = lambda _: Script()) -> None:
        self.make = make
        self.given: list[tuple[WorkItem, Agent]] = []
        self.walls: list[WallTime] = []

    def agent(self, item: WorkItem, task: str, episode: str, wall: WallTime) -> Agent:
        agent = self.make(item)
        self.given.append((item, agent))
        self.walls.append(wall)
        return agent


class Played:
    """A rollout over a toy world, with what it told and kept."""

    def __init__(self, world: Any, plan: RolloutPlan, cast: Cast | None = None, **more: Any) -> None:
        self.sink = more.pop("sink", None) or MemoryRecorder()
        self.events: list[tuple[str, dict[str, Any]]] = []
        self.cast = cast or Cast()
        rooms = more.pop("rooms", world.rooms)
        self.rollout = Rollout(plan, rooms, self.cast, self.sink, self.tell, **more)

    def tell(self, event: RunEvent, **fields: Any) -> None:
        self.events.append((event.value, fields))

    def told(self, event: RunEvent) -> list[dict[str, Any]]:
        return [fields for name, fields in self.events if name == event]

    @property
    def records(self) -> list[EpisodeRecord]:
        return [sealed.record() for sealed in self.sink.sealed]

    @property
    def record(self) -> EpisodeRecord:
        (record,) = self.records
        return record
