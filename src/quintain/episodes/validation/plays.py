"""One play of a task, with everything kept that a second one is compared with."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from quintain.agents import ReferenceAgent
from quintain.contracts.record import EpisodeRecord
from quintain.contracts.terminal import TerminalReason
from quintain.contracts.tools import CallToolAction, Tool
from quintain.environments.base import Prepared, ToolOutcome, ToolStatus
from quintain.episodes.base import Agent, EpisodeRequest, Rooms
from quintain.episodes.driving import DriveLimits, drive
from quintain.episodes.episode import Episode
from quintain.episodes.trajectory import initial_name
from quintain.errors import Owner
from quintain.sandboxes.base import StateFile
from quintain.tasks.base import Solution
from quintain.verifiers.base import About

READ_TIMEOUT_S: Final = 10.0
"""How long a first read may take; one that takes longer is not compared."""


@dataclass(frozen=True)
class Bench:
    """What the plays of one scenario share. `folder` is where their states are kept, and goes when it is validated."""

    rooms: Rooms
    scenario: str
    prepared: Prepared
    folder: Path
    model: str
    """Names the validation in the ledger: no two of them share a score."""
    seed: int = 0
    repeats: int = 3
    """How often each verifier is run anew on the same states."""
    read_timeout_s: float = READ_TIMEOUT_S


@dataclass(frozen=True)
class Play:
    """What was observed, what was recorded, and the final state."""

    first: bytes
    """What the reset answers and the tools, as JSON."""
    observations: tuple[bytes | None, ...]
    """What each call answered, as JSON; None for one that was cut off by its time, which repeats only by chance."""
    record: EpisodeRecord
    initial: Sequence[StateFile]
    final: Sequence[StateFile]
    final_answer: str | None
    about: About
    """What its verifier was told beside the states."""

    @property
    def obstacle(self) -> str | None:
        """How the platform failed in it; None if it did not."""
        return obstacle_of(self.record)

    def trouble(self, owner: Owner) -> str:
        """What the first step said that failed by this owner's fault."""
        return trouble_of(self.record, owner)


@dataclass(frozen=True)
class Tried:
    """What an attempt came to that may be anything. Its final state is kept only where it was scored complete."""

    record: EpisodeRecord
    final: Sequence[StateFile]
    final_answer: str | None
    calls: Sequence[CallToolAction]


def obstacle_of(record: EpisodeRecord) -> str | None:
    """How the platform failed in an episode; None if it did not."""
    return trouble_of(record, Owner.INFRASTRUCTURE) if record.failure_owner is Owner.INFRASTRUCTURE else None


def trouble_of(record: EpisodeRecord, owner: Owner) -> str:
    """What the first step said that failed by this owner's fault."""
    failed = [step for step in record.steps if step.failure_owner is owner]
    return next((text for step in failed for text in (step.error, step.warning) if text), f"the {owner} failed")


async def play(bench: Bench, task_idx: int, solution: Solution | None, name: str) -> Play:
    """Play a task's solution, or nothing, score it, and keep its final state under a name that is not taken.

    Raises:
        QuintainError: it could not be played.
        OSError: its state could not be kept.
    """
    known = Solution(calls=(), final_answer="") if solution is None else solution
    agent = _Watched(ReferenceAgent(actions_of(known), None if solution is None else solution.final_answer))
    episode = _episode(bench, task_idx, name)
    keep = bench.folder / name
    keep.mkdir()
    record = await episode.play(agent, keep=keep)
    task = episode.task
    first = {
        "environment_class_id": record.environment_class_id,
        "episode_id": record.episode_id,
        "scenario": task.scenario,
        "task": task.task,
        "task_idx": task.task_idx,
        "verifiers": sorted(task.verifiers),
        "tools": [tool.model_dump(mode="json") for tool in agent.tools],
    }
    initial, final = _states(bench, keep)
    return Play(
        first=as_bytes(first),
        observations=tuple(observed(outcome) for outcome in agent.outcomes),
        record=record,
        initial=initial,
        final=final,
        final_answer=agent.final_answer,
        about=task.about([step for step in record.steps if step.action != "verify"], None),
    )


async def attempt(bench: Bench, task_idx: int, agent: Agent, name: str, max_steps: int) -> Tried:
    """Let any agent act, score it, and keep its final state if it was scored complete.

    Raises:
        QuintainError: it could not be played.
        OSError: its state could not be kept.
    """
    episode, watched = _episode(bench, task_idx, name), _Watched(agent)
    await episode.start()
    try:
        reason = await drive(episode, watched, DriveLimits(max_steps, call_timeout_s=bench.read_timeout_s))
        await episode.verify("code", agent.final_answer)
    except BaseException:
        await episode.abort(TerminalReason.AGENT_FAILED)
        raise
    if episode.record().reward_type != "complete":
        return Tried(await episode.finish(reason=reason), (), agent.final_answer, watched.actions)
    keep = bench.folder / name
    keep.mkdir()
    record = await episode.finish(keep, reason=reason)
    return Tried(record, _states(bench, keep)[1], agent.final_answer, watched.actions)


def actions_of(solution: Solution) -> list[CallToolAction]:
    """A solution's calls as an agent makes them."""
    return [CallToolAction(tool_name=call.name, arguments=call.arguments) for call in solution.calls]


def _episode(bench: Bench, task_idx: int, name: str) -> Episode:
    model = f"{bench.model}:{name}"
    return Episode(
        bench.rooms,
        EpisodeRequest(scenario=bench.scenario, task_idx=task_idx, seed=bench.seed, model_digest=model),
    )


def _states(bench: Bench, keep: Path) -> tuple[list[StateFile], list[StateFile]]:
    """The initial and the final state of an episode whose files were kept."""
    names = bench.prepared.state_names
    return (
        _kept(keep, names, lambda name: initial_name(bench.scenario, names[0], name)),
        _kept(keep, names, lambda name: name),
    )


def _kept(keep: Path, names: Sequence[str], called: Callable[[str], str]) -> list[StateFile]:
    return [StateFile(name, keep / called(name)) for name in names if (keep / called(name)).is_file()]


def observed(outcome: ToolOutcome) -> bytes | None:
    """What an agent sees of a call, as JSON; None where it was cut off by its time."""
    if outcome.status is ToolStatus.TIMEOUT:
        return None
    return as_bytes(outcome.model_dump(mode="json", include={"status", "text", "error", "http_status", "warning"}))


def as_bytes(value: Mapping[str, Any]) -> bytes:
    """JSON with its keys in order."""
    return json.dumps(value, sort_keys=True).encode()


def first_difference(one: bytes, other: bytes) -> str:
    """Where two texts part, in words, with a little of each from there on."""
    at = next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    begin = max(at - 20, 0)
    shown = [text[begin : at + 60].decode(errors="replace") for text in (one, other)]
    return f"byte {at}: {shown[0]!r}, then {shown[1]!r}"


@dataclass
class _Watched:
    """An agent, what it did and what it was shown."""

    agent: Agent
    tools: Sequence[Tool] = ()
    actions: list[CallToolAction] = field(default_factory=list)
    outcomes: list[ToolOutcome] = field(default_factory=list)

    @property
    def final_answer(self) -> str | None:
        return self.agent.final_answer

    async def act(self, tools: Sequence[Tool], last: ToolOutcome | None) -> CallToolAction | None:
        self.tools = tools
        if last is not None:
            self.outcomes.append(last)
        action = await self.agent.act(tools, last)
        if action is not None:
            self.actions.append(action)
        return action
