"""The trainers room's contract: where episodes are played, and how a trainer that is not ours drives them."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from quintain.agents.base import Observation
from quintain.contracts.tools import Tool
from quintain.episodes import CALL_TIMEOUT_S
from quintain.errors import Owner, UnknownTaskError, UsageError
from quintain.rollout.plan import PlannedTask
from quintain.tasks.base import normalised
from quintain.verifiers.base import VerdictMode

JsonObject = dict[str, Any]


@dataclass(frozen=True)
class EpisodeSettings:
    """What all episodes of a trainer have in common."""

    verifier: VerdictMode = "code"
    reward_config: Mapping[str, float] | None = None
    """Replaces any of complete, incomplete, format_error."""
    call_timeout_s: float = CALL_TIMEOUT_S
    """How long one tool call may take."""


@dataclass(frozen=True)
class Score:
    """What an attempt came to. `reward` is None where it must not be trained on."""

    reward: float | None
    reward_type: str | None = None
    owner: Owner | None = None
    """Whose failure it is that there is no reward."""
    reason: str | None = None


class EpisodeSession(Protocol):
    """Plays one episode after another. Its methods are called one at a time."""

    @property
    def identity(self) -> JsonObject:
        """Ids, attempt and model of the episode, as it was reset."""
        ...

    async def begin(self, task: PlannedTask, model_digest: str) -> None:
        """Begin an episode, a new attempt of that model; one that runs is ended.

        Raises:
            UsageError: there is no such task, or it has no verifier of the mode.
            QuintainError: it could not be started, by no fault of the agent.
        """
        ...

    async def call(self, name: str, arguments: JsonObject) -> tuple[Observation, bool]:
        """Call a tool; what the agent sees of it, and whether the episode is lost."""
        ...

    async def score(self, final_answer: str | None, truncated: bool = False) -> Score:
        """Verify the episode, once, and end it."""
        ...

    async def close(self) -> None:
        """End what runs. Idempotent."""
        ...


class OpenPlatform(Protocol):
    """A platform that can be played on."""

    async def tasks(self) -> Mapping[str, Mapping[int, str]]:
        """The texts of all tasks that may be played, by scenario and number."""
        ...

    async def tools(self, task: PlannedTask) -> Sequence[Tool]:
        """The tools of a task's scenario.

        Raises:
            QuintainError: it does not start.
        """
        ...

    def session(self, settings: EpisodeSettings) -> EpisodeSession:
        """A new session; the platform closes it at the latest when it is closed itself."""
        ...


class Platform(Protocol):
    """Where episodes are played."""

    def opened(self) -> AbstractAsyncContextManager[OpenPlatform]:
        """The platform, until the context is left.

        Raises:
            UsageError: it cannot be opened as it was named.
        """
        ...


def planned(tasks: Mapping[str, Mapping[int, str]], asked: PlannedTask | str) -> Sequence[PlannedTask]:
    """The tasks that a trainer asks for: one with its seed, or `SCENARIO` (all of it) or `SCENARIO/TASK`, with seed 0.

    Raises:
        UsageError: it names nothing that may be played.
    """
    index: int | None
    if isinstance(asked, PlannedTask):
        name, index = asked.scenario, asked.task_idx
    elif isinstance(asked, str):
        name, slash, number = asked.rpartition("/")
        if not slash:
            name = number
        elif not number.isdecimal():
            raise UsageError(f"{asked!r} names no task; write SCENARIO/TASK, with the task's number")
        index = int(number) if slash else None
    else:
        raise UsageError(f"{asked!r} is no task; give SCENARIO, SCENARIO/TASK or a PlannedTask")
    scenario = tasks.get(normalised(name))
    if scenario is None:
        raise UnknownTaskError(f"there is no scenario {name!r} here; there are {', '.join(sorted(tasks)[:20])}")
    if index is not None and index not in scenario:
        raise UnknownTaskError(f"scenario {name} has no task {index} that may be played")
    seed = asked.seed if isinstance(asked, PlannedTask) else 0
    numbers = sorted(scenario) if index is None else [index]
    return [PlannedTask(scenario=normalised(name), task_idx=one, seed=seed) for one in numbers]
