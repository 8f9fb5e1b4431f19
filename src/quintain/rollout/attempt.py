"""One attempt, from work item to terminal record: failures are attributed, and tried again where that is safe."""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from quintain.contracts.lifecycle import ENDS, Stage
from quintain.contracts.record import EpisodeRecord
from quintain.contracts.terminal import MAX_MESSAGE_CHARS, Failure, TerminalReason
from quintain.contracts.tools import CallToolAction, Tool
from quintain.contracts.turns import Ending, TurnRecord
from quintain.environments.base import ToolOutcome
from quintain.episodes import Agent, Episode, EpisodeRequest, Rooms, Scored
from quintain.episodes.driving import DriveLimits, WallTime, drive, tell_end
from quintain.errors import Delivery, EndpointError, Owner, QuintainError
from quintain.rollout.attribution import BUG, TABLE, Attribution, Retry, of_error, of_verdict
from quintain.rollout.backpressure import Gate
from quintain.rollout.casting import Casting
from quintain.rollout.plan import RolloutPlan, WorkItem

Told = Callable[[WorkItem, Failure], object]


class AgentFailed(Exception):
    """An agent's program raised what is no error of the platform's; its cause is what it raised."""


@dataclass
class _Try:
    """One beginning of an attempt."""

    episode: Episode
    agent: Agent | None = None
    error: BaseException | None = None
    """What ended it, where it did not come to its own end."""
    reason: TerminalReason = TerminalReason.DONE

    @property
    def acted(self) -> bool:
        """Whether its agent has made a call."""
        return any(step.action == "call_tool" for step in self.episode.record().steps)


@dataclass(frozen=True)
class Player:
    """Plays the attempts of a plan."""

    plan: RolloutPlan
    rooms: Rooms
    casting: Casting
    gate: Gate
    told: Told = field(default=lambda *_: None)
    """Called with each failure that is tried again."""

    async def play(self, item: WorkItem, interrupted: Sequence[float] = ()) -> EpisodeRecord:
        """The attempt's terminal record. Nothing that goes wrong with it is raised.

        Args:
            interrupted: when earlier processes began it that were ended before it was scored (seconds since 1970).

        Raises:
            CancelledError: it was cancelled. Nothing is left of it, and it has no record.
        """
        retried = [_interruption(at) for at in interrupted]
        while True:
            one = _Try(Episode(self.rooms, request_of(self.plan, item)))
            await self._try(one, item, retried)
            if one.error is None:
                break
            failure = failure_of(one.error, one.episode)
            begun = len(retried) - len(
                interrupted
            )  # a verdict is asked for again only where an agent has acted, or is done
            if begun >= self.plan.retries.starts or not may_begin_again(one.error, one.acted):
                return self._recorded(one, item, retried, failure)
            await self._again(item, failure, retried, begun)
        return self._recorded(one, item, retried, remaining(one.episode))

    async def _try(self, one: _Try, item: WorkItem, retried: list[Failure]) -> None:
        """Begin, drive, verify and end one episode; what goes wrong is noted in it."""
        episode = one.episode
        try:
            await episode.start()
            await self._play(one, item, retried)
        except asyncio.CancelledError:
            await asyncio.shield(episode.abort(TerminalReason.CANCELLED))
            raise
        except Exception as error:
            one.error, one.reason = error, _reason(error)
            owner = of_error(error).owner or Owner.INFRASTRUCTURE
            if one.agent is not None and not episode.lifecycle.ended:
                episode.tell_turns(getattr(one.agent, "turns", None))
            await episode.abort(one.reason, owner)  # one that did not start has ended already

    async def _play(self, one: _Try, item: WorkItem, retried: list[Failure]) -> None:
        episode, limits = one.episode, self.plan.limits
        wall = WallTime(limits.wall_s)
        told = episode.identity
        agent = self.casting.agent(item, episode.task.task or "", f"{told['episode_id']}:{told['attempt']}", wall)
        one.agent = agent
        driven = DriveLimits(max_steps=limits.max_steps, wall=wall, call_timeout_s=limits.call_timeout_s)
        one.reason = await drive(episode, _Guarded(agent), driven)
        episode.tell_turns(getattr(agent, "turns", None))
        if one.reason is not TerminalReason.SANDBOX_LOST and episode.verifiable(self.plan.verifier):
            with self.gate.verifying():
                await self._verified(episode, agent.final_answer, item, retried)
        await episode.finish(reason=one.reason)

    async def _verified(
        self, episode: Episode, final_answer: str | None, item: WorkItem, retried: list[Failure]
    ) -> Scored:
        """The verdict; one that the infrastructure made uncertain is asked for again, of the same state."""
        again = 0
        while True:
            scored = await episode.verify(self.plan.verifier, final_answer)
            owner = scored.owner
            if owner is None or of_verdict(owner).retry is not Retry.VERIFY:
                return scored
            if again >= self.plan.retries.verifications:
                return scored
            why = scored.verdict.reason or "no reason was given"
            failure = _failure(of_verdict(owner), Stage.VERIFYING, why)
            await self._again(item, failure, retried, again)
            again += 1

    async def _again(self, item: WorkItem, failure: Failure, retried: list[Failure], before: int) -> None:
        retried.append(failure)
        self.told(item, failure)
        await asyncio.sleep(self.plan.retries.wait_s * 2.0**before)

    def _recorded(
        self, one: _Try, item: WorkItem, retried: Sequence[Failure], failure: Failure | None
    ) -> EpisodeRecord:
        return stamped(one.episode.record(), item, failure, retried)


def stamped(
    record: EpisodeRecord, item: WorkItem, failure: Failure | None, retried: Sequence[Failure] = ()
) -> EpisodeRecord:
    """A record with what the rollout knows of it."""
    return record.model_copy(
        update={
            "attempt": item.attempt,
            "rollout_plan": item.plan,
            "rollout_item": item.name,
            "failure": failure,
            "retried": tuple(retried) or None,
        }
    )


def request_of(plan: RolloutPlan, item: WorkItem) -> EpisodeRequest:
    """The episode that an item asks for."""
    return EpisodeRequest(
        scenario=item.task.scenario,
        task_idx=item.task.task_idx,
        seed=item.task.seed,
        model_digest=item.agent.model,
        attempt=item.attempt,
        verify=plan.verify,
    )


def may_begin_again(error: BaseException, acted: bool) -> bool:
    """Whether an attempt that ended with an error may begin again, with nothing done that could count twice."""
    return not acted and of_error(error).retry in (Retry.START, Retry.REQUEST)


def failure_of(error: BaseException, episode: Episode) -> Failure:
    """An error that ended an attempt, as evidence."""
    if isinstance(error, AgentFailed):
        row, error = TABLE[TerminalReason.AGENT_FAILED], error.__cause__ or error
    else:
        row = of_error(error)
    cause = type(error).__name__ if row.cause == BUG else row.cause
    delivery = getattr(error, "delivery", None)
    return _failure(
        row,
        _stage_hit(episode),
        f"{type(error).__name__}: {error}",
        cause=cause,
        delivery=delivery if isinstance(delivery, Delivery) else None,
    )


def called_off(episode: Episode, reason: TerminalReason) -> Failure | None:
    """The failure of an episode that was ended from outside; None where that is none, or came after its score."""
    row = TABLE[reason]
    if row.owner is None or episode.failure_owner is None:
        return None
    return _failure(row, _stage_hit(episode), f"the episode was ended from outside: {reason}")


def remaining(episode: Episode) -> Failure | None:
    """The failure of an episode that came to its end but has no reward for somebody's fault."""
    owner = episode.failure_owner
    if owner is None:
        return None
    steps = episode.record().steps
    calls = [step for step in steps if step.action == "call_tool"]
    lost = [step.error for step in calls if step.failure_owner is Owner.INFRASTRUCTURE]
    if lost and owner is Owner.INFRASTRUCTURE:
        return _failure(TABLE[TerminalReason.SANDBOX_LOST], Stage.RUNNING, lost[-1] or "the sandbox was lost")
    verdicts = [step.error for step in steps if step.action == "verify"]
    return _failure(of_verdict(owner), Stage.VERIFYING, (verdicts and verdicts[-1]) or "the verdict was uncertain")


def _failure(row: Attribution, stage: Stage, message: str, **more: Any) -> Failure:
    told = {
        "cause": row.cause,
        "owner": row.owner or Owner.INFRASTRUCTURE,
        "component": row.component,
        "stage": stage,
        "message": message[:MAX_MESSAGE_CHARS],
        "at": time.time(),
    }
    return Failure.model_validate(told | more)


def _interruption(at: float) -> Failure:
    why = "the process was ended while it played this attempt, and nothing of it was scored"
    return _failure(TABLE[TerminalReason.CANCELLED], Stage.ACCEPTED, why, at=at)


def _stage_hit(episode: Episode) -> Stage:
    """The last stage before the end."""
    stages = [stamp.stage for stamp in episode.lifecycle.stamps if stamp.stage not in ENDS]
    return next(stage for stage in reversed(stages) if stage not in (Stage.CLEANING, Stage.DELETED))


def _reason(error: BaseException) -> TerminalReason:
    if isinstance(error, AgentFailed):
        return TerminalReason.AGENT_FAILED
    return TerminalReason.ENDPOINT_FAILED if isinstance(error, EndpointError) else TerminalReason.PLATFORM_FAILED


class _Guarded:
    """An agent whose program's own errors cannot be taken for the platform's."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent

    @property
    def final_answer(self) -> str | None:
        return self._agent.final_answer

    @property
    def turns(self) -> Sequence[TurnRecord] | None:
        return getattr(self._agent, "turns", None)

    @property
    def ending(self) -> Ending | None:
        return getattr(self._agent, "ending", None)

    async def act(self, tools: Sequence[Tool], last: ToolOutcome | None) -> CallToolAction | None:
        try:
            return await self._agent.act(tools, last)
        except QuintainError:
            raise
        except Exception as error:
            raise AgentFailed(str(error)) from error

    def environment_ended(self, last: ToolOutcome) -> None:
        tell_end(self._agent, last)
