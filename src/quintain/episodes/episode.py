"""One episode's whole life: the table of contents of this package.

`Episode.play` reads as the rooms in their order. The server drives the same episode step by step as messages
arrive; either way it leaves the same record, score and lifecycle.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from quintain.contracts.lifecycle import Lifecycle, Stage
from quintain.contracts.record import EpisodeRecord, StepRecord
from quintain.contracts.terminal import CALLED_OFF, TerminalReason
from quintain.contracts.tools import Tool
from quintain.contracts.turns import TurnRecord
from quintain.contracts.verification import VerifyPolicy
from quintain.environments.base import Environment, Hibernation, Prepared, ToolOutcome, ToolStatus
from quintain.episodes.base import Agent, EpisodeRequest, ResolvedTask, Rooms, descriptor, resolve
from quintain.episodes.driving import DriveLimits, drive
from quintain.episodes.recording import Known, episode_record
from quintain.episodes.scoring import Scored, Scoring
from quintain.episodes.states import StateKeeper
from quintain.episodes.trajectory import MAX_STEPS, Trajectory, keep_state, keep_trajectory
from quintain.errors import (
    ArtifactError,
    LedgerError,
    LifecycleError,
    Owner,
    QuintainError,
    SandboxError,
    UnknownTaskError,
    UsageError,
)
from quintain.records import ScoreKey, Submission
from quintain.sandboxes.scratch import folder
from quintain.verifiers.base import About, Verdict, VerdictMode, uncertain
from quintain.verifiers.judged import verifiers_of

JsonObject = dict[str, Any]

CALL_TIMEOUT_S: Final = 30.0
"""How long a tool may take unless the step says otherwise."""

_LOG = logging.getLogger(__name__)
_UNLIMITED: Final = DriveLimits()


class Episode:
    """One attempt at one episode. Its methods are called one at a time, and it is used once."""

    def __init__(
        self,
        rooms: Rooms,
        request: EpisodeRequest,
        *,
        lifecycle: Lifecycle | None = None,
        ended: Callable[["Episode"], object] = lambda _: None,
    ) -> None:
        """`ended` is called once, with the episode, when it has ended in whichever way: its record is whole then."""
        self.request = request
        self.lifecycle = lifecycle or Lifecycle()
        self.error: BaseException | None = None
        """What kept it from starting, if anything did."""
        self._rooms = rooms
        self._told_ended = ended
        self._known = Known(attempt=request.attempt)
        self._prepared: Prepared | None = None
        self._environment: Environment | None = None
        self._trajectory = Trajectory()
        self._scoring = Scoring(rooms.ledger, request.contract, rooms.run)
        self._states = StateKeeper(rooms.states, rooms.scratch)

    async def play(
        self, agent: Agent, mode: VerdictMode = "code", keep: Path | None = None, limits: DriveLimits = _UNLIMITED
    ) -> EpisodeRecord:
        """The episode from beginning to end: an agent acts until it is finished, then the verifier scores it."""
        await self.start()  # tasks, contracts, artifacts, sandboxes, environments
        try:
            reason = await drive(self, agent, limits)  # agents, environments
            self.tell_turns(getattr(agent, "turns", None))
            if self.verifiable(mode):
                await self.verify(mode, agent.final_answer)  # verifiers
        except BaseException:
            await self.abort(TerminalReason.AGENT_FAILED)
            raise
        return await self.finish(keep, reason=reason)  # records; nothing is left of the sandbox

    async def start(self) -> None:
        """Resolve the task, make its template ready, claim an instance. On an error nothing is left behind.

        Raises:
            UsageError: the task source does not hold what the request names, or its rows are unusable.
            TemplateError: the scenario does not load.
            SandboxError: no instance could be started, or not in time.
            LifecycleError: it was started before; it goes on as it was.
        """
        self.lifecycle.enter(Stage.RESOLVING)
        limit = self._rooms.start_timeout_s
        try:
            async with asyncio.timeout(limit):
                await self._start()
        except TimeoutError as error:
            self._known.failure_owner = Owner.INFRASTRUCTURE
            self.error = SandboxError(f"the episode did not start within {limit:g} s; try again or allow more time")
            await self._end(Stage.TIMED_OUT, TerminalReason.START_TIMEOUT)
            raise self.error from error
        except asyncio.CancelledError:
            await self._end(Stage.CANCELLED, TerminalReason.CANCELLED_AT_START)
            raise
        except Exception as error:
            self.error = error
            self._known.failure_owner = error.owner if isinstance(error, QuintainError) else Owner.INFRASTRUCTURE
            usage = isinstance(error, UsageError)
            await self._end(Stage.FAILED, TerminalReason.BAD_REQUEST if usage else TerminalReason.START_FAILED)
            raise

    async def _start(self) -> None:
        rooms, life = self._rooms, self.lifecycle
        self._known.task = task = await asyncio.to_thread(resolve, rooms.source, self.request)
        self._known.descriptor = named = descriptor(rooms.kind(task.kind).episode_class, task, self.request.seed)
        numbered = asyncio.create_task(self._numbered(named.episode_id))
        try:
            await self._claim(task)
            self._known.attempt = await numbered
        finally:
            numbered.cancel()
        life.enter(Stage.RUNNING)

    async def _numbered(self, episode_id: str) -> int:
        """The attempt's number, on record before the episode runs."""
        ledger, model, given = self._rooms.ledger, self.request.model_digest, self.request.attempt
        if given is None:
            return await ledger.next_attempt(episode_id, model)
        await ledger.claim_attempt(episode_id, model, given)
        return given

    async def _claim(self, task: ResolvedTask) -> None:
        rooms, life = self._rooms, self.lifecycle
        kind = rooms.kind(task.kind)
        prepared = await kind.prepare(task.payload_digest, lambda: rooms.source.payload(task.scenario))
        self._prepared = prepared
        life.enter(Stage.ARTIFACT_READY, Stage.QUEUED)
        async with rooms.admission:
            life.enter(Stage.ADMITTED)
            self._environment = environment = prepared.environment()
            await environment.reset(self.request.seed, task.start)
        # the provider hands an instance over when its first command, the kind's begin, has succeeded
        life.enter(Stage.ALLOCATED, Stage.INJECTED, Stage.FIRST_COMMAND_OK)
        self._known.start_kind = environment.start_kind
        self._known.segments = dict(environment.segments)
        self._known.segments |= {f"template_{name}": ms for name, ms in prepared.build_ms.items()}

    @property
    def task(self) -> ResolvedTask:
        """What the episode is about.

        Raises:
            LifecycleError: the episode was not resolved.
        """
        if self._known.task is None:
            raise LifecycleError(f"an episode in stage {self.lifecycle.stage} has no task yet; start it first")
        return self._known.task

    @property
    def tools(self) -> Sequence[Tool]:
        """The environment's tools."""
        return self._running().tools

    @property
    def done(self) -> bool:
        """Whether the environment has ended the episode itself: it can be verified, but takes no call."""
        return self._environment is not None and self._environment.done

    @property
    def state_file(self) -> str:
        """Name of the file that holds the environment's state.

        Raises:
            LifecycleError: the episode was not started.
        """
        if self._prepared is None:
            raise LifecycleError(f"an episode in stage {self.lifecycle.stage} has no state yet; start it first")
        return self._prepared.state

    @property
    def score(self) -> Submission | None:
        """The attempt's first certain verdict as the ledger holds it; nothing done later can change it."""
        return self._scoring.score

    @property
    def failure_owner(self) -> Owner | None:
        """Whose failure makes the reward unusable; None while there is no such failure."""
        if self._known.failure_owner is None and self.score is None and self._scoring.last is not None:
            return self._scoring.last.owner
        return self._known.failure_owner

    def verifiable(self, mode: VerdictMode) -> bool:
        """Whether the task has a verifier for a mode."""
        try:
            return bool(verifiers_of(mode, self.task.verifiers))
        except UnknownTaskError:
            return False

    @property
    def last_step(self) -> StepRecord | None:
        """The latest step of the trajectory."""
        return self._trajectory.last

    def list_tools(self) -> Sequence[Tool]:
        """The environment's tools, as a step of the trajectory."""
        tools = self.tools
        if not self._trajectory.full:
            self._trajectory.listed()
        return tools

    async def call(self, name: str, arguments: JsonObject, timeout_s: float = CALL_TIMEOUT_S) -> ToolOutcome:
        """Call a tool; whatever becomes of it is in the outcome."""
        if self._trajectory.full:
            error = f"the episode has had its {MAX_STEPS} steps; verify it, or end it and begin another"
            return ToolOutcome(status=ToolStatus.TOOL_ERROR, error=error, owner=Owner.AGENT)
        outcome = await self._running().call(name, arguments, timeout_s)
        if outcome.owner is Owner.INFRASTRUCTURE:
            self._blame(Owner.INFRASTRUCTURE)
        elif outcome.owner is Owner.ENVIRONMENT:
            self._known.environment_failures += 1
        self._trajectory.called(name, arguments, outcome, self.request.contract.rewards.value(outcome.status))
        return outcome

    @property
    def hibernated(self) -> bool:
        """Whether it is only files now, with no process."""
        return self._environment is not None and self._environment.hibernated

    async def hibernate(self, unwanted: Callable[[], bool] = lambda: False) -> Hibernation:
        """Give the process back until the next call, if the files are all there is of the episode.

        Raises:
            SandboxError, OSError: the files could not be copied out; the episode goes on as it was.
        """
        hibernation = await self._running().hibernate(unwanted)
        self._known.hibernations += hibernation.done
        return hibernation

    async def verify(self, mode: VerdictMode, final_answer: str | None = None) -> Scored:
        """Score the state as it is now; once a mode has a certain verdict, the policy says what happens.

        The first certain verdict, in whichever mode, is the attempt's reward. Verifying does not end the episode.

        Raises:
            UnknownTaskError: the task has no verifier for the mode.
        """
        started = time.perf_counter()
        about = self.task.about(self._trajectory.steps, self.request.judge)
        digest = self._rooms.verifier.digest(mode, self.task.verifiers, about)
        scored = self._scoring.first(mode)
        if scored is None or self.request.verify is VerifyPolicy.OPEN:
            self.lifecycle.enter(Stage.VERIFYING)
            scored = await self._scored(mode, self._key(digest), about, final_answer)
            self.lifecycle.enter(Stage.RUNNING)
        self._trajectory.verified(
            scored, final_answer, self.wire_reward(scored), (time.perf_counter() - started) * 1000
        )
        return scored

    def wire_reward(self, scored: Scored) -> float:
        """The number that OpenEnv's wire has for a verdict: the reward, or what AWM's map pays where there is none."""
        value = scored.reward.value
        return self.request.contract.rewards.value(scored.verdict.reward_type) if value is None else value

    async def _scored(self, mode: VerdictMode, key: ScoreKey, about: About, final_answer: str | None) -> Scored:
        try:
            held = None if self.request.attempt is None else await self._scoring.held(mode, key)
        except LedgerError:
            held = None  # the submission says so too
        if held is not None and self.request.verify is not VerifyPolicy.OPEN:
            return held
        verdict = await self._verdict(mode, key.verifier_digest, about, final_answer)
        return await self._scoring.submit(
            key, verdict, self._trajectory.steps, self.task.policy, self._known.failure_owner
        )

    async def _verdict(self, mode: VerdictMode, digest: str, about: About, final_answer: str | None) -> Verdict:
        environment, verifiers = self._running(), self.task.verifiers
        try:
            with folder(self._rooms.scratch, "quintain_verify_") as copies:
                final = await environment.snapshot(copies)
                runner = self._rooms.verifier
                verdict = await runner.score(mode, verifiers, environment.initial, final, final_answer, about)
                if verdict.certain and self.score is None:
                    await self._states.scored(final, self._trajectory.calls)
                return verdict
        except (SandboxError, ArtifactError, OSError) as error:
            owner = error.owner if isinstance(error, QuintainError) else Owner.INFRASTRUCTURE
            return uncertain(mode, digest, f"the states could not be read: {error}", owner=owner)

    def _key(self, verifier_digest: str) -> ScoreKey:
        if self._known.descriptor is None or self._known.attempt is None:
            raise LifecycleError(f"an episode in stage {self.lifecycle.stage} cannot be scored; start it first")
        return ScoreKey(
            episode_id=self._known.descriptor.episode_id,
            model_digest=self.request.model_digest,
            attempt=self._known.attempt,
            verifier_digest=verifier_digest,
        )

    def tell_turns(self, turns: Sequence[TurnRecord] | None) -> None:
        """What the agent tells of its turns, for the record; None where it tells nothing."""
        self._known.turns = None if turns is None else self._trajectory.kept(turns)

    async def finish(
        self, keep: Path | None = None, steps_taken: int | None = None, reason: TerminalReason = TerminalReason.DONE
    ) -> EpisodeRecord:
        """End the episode, remove everything of it, return its record.

        Args:
            keep: an empty directory in which its databases, code, log and trajectory are kept.
            steps_taken: how many steps the driver counted, for the kept trajectory; default those recorded here.
            reason: why there was no further step.

        Raises:
            SandboxError, ArtifactError, OSError: the files could not be kept; the episode has ended all the same.
        """
        environment = self._running()
        if keep is not None:
            try:
                await environment.snapshot(keep)
                code, log = "" if self._prepared is None else self._prepared.code, self._trajectory.log
                await keep_state(keep, self.task.scenario, environment.initial, code, log)
            except (QuintainError, OSError):
                self._blame(Owner.INFRASTRUCTURE)
                await self._end(Stage.FAILED, TerminalReason.KEEP_FAILED)
                raise
        await self._end(Stage.COMPLETED if self._known.failure_owner is None else Stage.FAILED, reason)
        record = self.record()
        if keep is not None:
            await keep_trajectory(keep, record, len(record.steps) if steps_taken is None else steps_taken)
        return record

    async def abort(self, reason: TerminalReason, owner: Owner | None = None) -> EpisodeRecord:
        """End it without completing it; `owner` is whose failure that is, if it is one. The first end counts."""
        if not self.lifecycle.ended:
            if owner is not None:
                self._blame(owner)
            called_off = owner is None or reason in CALLED_OFF
            await self._end(Stage.CANCELLED if called_off else Stage.FAILED, reason)
        return self.record()

    def record(self) -> EpisodeRecord:
        """What is known of the episode now; complete once it has ended."""
        return episode_record(
            self._rooms,
            self.request,
            self._known,
            lifecycle=self.lifecycle,
            scoring=self._scoring,
            steps=self._trajectory.steps,
            failure_owner=self.failure_owner,
        )

    @property
    def identity(self) -> Mapping[str, Any]:
        """Ids, attempt and model of a started episode, as an observation's metadata carries them."""
        return self._known.identity(self.request.model_digest, self.lifecycle)

    def _blame(self, owner: Owner) -> None:
        # a score that was certain before the failure stays what it is
        if self.score is None:
            self._known.failure_owner = owner

    def _running(self) -> Environment:
        if self._environment is None or self.lifecycle.ended:
            raise LifecycleError(f"an episode in stage {self.lifecycle.stage} has no environment; start a new episode")
        return self._environment

    async def _end(self, stage: Stage, reason: TerminalReason) -> None:
        by_environment = reason is TerminalReason.DONE and self.done
        self._known.terminal_reason = TerminalReason.ENVIRONMENT_ENDED if by_environment else reason
        try:
            if self._environment is not None and self.lifecycle.stage in (Stage.RUNNING, Stage.VERIFYING):
                await self._states.ended(self._environment, self._trajectory.calls)
                self._known.states = self._states.kept
        finally:
            self.lifecycle.enter(stage, Stage.CLEANING)
            await asyncio.shield(self._clean())  # whoever waits for it may be cancelled

    async def _clean(self) -> None:
        try:
            if self._environment is not None:
                await self._environment.close()
            self.lifecycle.enter(Stage.DELETED)
        except SandboxError as error:
            # the stage stays at cleaning: what could not be removed is reported, not forgotten
            _LOG.error("episode of %s could not be cleaned up: %s", self.request.scenario, error)
        finally:
            self._told_ended(self)
