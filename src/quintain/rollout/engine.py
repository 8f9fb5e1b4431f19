"""The rollout engine: agents against episodes, some at a time, until every attempt of a plan has its one record."""

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from quintain.contracts.lifecycle import Stage
from quintain.contracts.record import EpisodeRecord
from quintain.contracts.terminal import Failure, TerminalReason
from quintain.episodes import Rooms
from quintain.episodes.base import descriptor, resolve
from quintain.errors import LedgerError, Owner, QuintainError, SpoolUnavailable
from quintain.records import Submission
from quintain.records.recorder import RecordSink
from quintain.rollout.attempt import Player, request_of, stamped
from quintain.rollout.attribution import TABLE
from quintain.rollout.backpressure import Gate, Pressure
from quintain.rollout.casting import Casting
from quintain.rollout.events import RunEvent
from quintain.rollout.outcome import Outcome, outcome_of
from quintain.rollout.plan import RolloutPlan, WorkItem

Tell = Callable[..., object]
_T = TypeVar("_T")

APPEND_PATIENCE_S: Final = 300.0
"""How long a record that cannot be kept is offered again before the run gives up."""

_MAX_WAIT_S: Final = 5.0


@dataclass(frozen=True)
class Rollout:
    """One run of a plan. `run` may be called once."""

    plan: RolloutPlan
    rooms: Rooms
    casting: Casting
    sink: RecordSink
    tell: Tell = field(default=lambda *_, **__: None)
    """Called with a `RunEvent` and its fields."""
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    """Attempts that have a terminal record, by item; those that are played are added."""
    interrupted: bool = False
    """Whether an earlier process may have been killed between a verdict and its record."""
    begun: Mapping[str, Sequence[float]] = field(default_factory=dict)
    """When earlier processes began attempts that have no record, by item (seconds since 1970)."""
    append_patience_s: float = APPEND_PATIENCE_S

    async def run(self) -> list[Outcome]:
        """Play every attempt that has no record yet; what came of all, in the order of the plan.

        Raises:
            SpoolUnavailable: records cannot be kept. Attempts that have none are played the next time.
            CancelledError: it was cancelled; running attempts leave nothing, and are played the next time.
        """
        outcomes = self.outcomes
        gate = Gate(
            self.plan.concurrency, self.plan.max_unverified, self.sink, self.rooms.admission, self._told_pressure
        )
        player = Player(self.plan, self.rooms, self.casting, gate, self._told_retry)
        self.tell(RunEvent.BEGUN, plan=self.plan.digest, run=self.rooms.run, items=self.plan.size, done=len(outcomes))
        try:
            async with asyncio.TaskGroup() as group:
                for item in self.plan.items():
                    if item.name not in outcomes:
                        await gate.enter()
                        group.create_task(self._attempt(item, player, gate))
        except BaseExceptionGroup as failed:
            raise failed.exceptions[0] from None
        return in_order(self.plan, outcomes)

    async def _attempt(self, item: WorkItem, player: Player, gate: Gate) -> None:
        """One attempt to its record, and the record to its sink."""
        try:
            self.tell(RunEvent.STARTED, item=item.name)
            record = await self._scored_before(item) if self.interrupted else None
            if record is None:
                record = await player.play(item, self.begun.get(item.name, ()))
            await self._keep(record)
        finally:
            gate.leave()

    async def _keep(self, record: EpisodeRecord) -> None:
        """Keep a record; again, where that fails, for as long as there is patience."""
        until, wait = time.monotonic() + self.append_patience_s, 0.1
        while (refused := await _to_its_end(self._append(record))) is not None:
            if time.monotonic() + wait > until:
                raise refused
            await asyncio.sleep(wait)
            wait = min(wait * 2, _MAX_WAIT_S)

    async def _append(self, record: EpisodeRecord) -> SpoolUnavailable | None:
        """Keep a record, and say so; why it was refused, if it was."""
        try:
            digest = await self.sink.add(record)
        except SpoolUnavailable as error:
            return error
        outcome = outcome_of(record, digest)
        self.outcomes[outcome.item] = outcome
        told = outcome.model_dump(mode="json")
        self.tell(RunEvent.FINISHED, outcome=told, done=len(self.outcomes), items=self.plan.size)
        return None

    async def _scored_before(self, item: WorkItem) -> EpisodeRecord | None:
        """The record of an attempt that was scored by a process that was killed before it could record it.

        The score stays what it is in the ledger. To play the attempt again would pair that score with actions that did
        not earn it, so the record says that the infrastructure ended it, and it has no reward to train on.
        """
        try:
            score, like = await self._score_of(item)
        except LedgerError:
            raise
        except QuintainError:
            return None  # it cannot be resolved; playing it will say so
        if score is None:
            return None
        from quintain.records.lost import lost_record  # it brings SQLAlchemy

        why = "the process was killed after the attempt was scored and before its record was kept"
        row = TABLE[TerminalReason.RECORD_LOST]
        failure = Failure(
            cause=row.cause,
            owner=Owner.INFRASTRUCTURE,
            component=row.component,
            stage=Stage.VERIFYING,
            message=why,
            at=score.submitted_at,
        )
        return stamped(lost_record(score, like), item, failure)

    async def _score_of(self, item: WorkItem) -> tuple[Submission | None, dict[str, Any]]:
        request, rooms = request_of(self.plan, item), self.rooms
        task = await asyncio.to_thread(resolve, rooms.source, request)
        named = descriptor(rooms.kind(task.kind).episode_class, task, request.seed)
        score = await rooms.ledger.episode_score(named.episode_id, request.model_digest, item.attempt)
        like = {
            "environment_class_id": named.environment_class_id,
            "scenario": task.scenario,
            "task_idx": task.task_idx,
            "seed": request.seed,
        }
        return score, like

    def _told_retry(self, item: WorkItem, failure: Failure) -> None:
        self.tell(RunEvent.RETRIED, item=item.name, failure=failure.model_dump(mode="json"))

    def _told_pressure(self, pressure: Pressure | None) -> None:
        self.tell(RunEvent.PRESSURE, pressure=pressure)


def in_order(plan: RolloutPlan, outcomes: Mapping[str, Outcome]) -> list[Outcome]:
    """Outcomes in the order of a plan, as far as there are any."""
    names: Iterable[str] = (item.name for item in plan.items())
    return [outcomes[name] for name in names if name in outcomes]


async def _to_its_end(work: Coroutine[Any, Any, _T]) -> _T:
    """Do what must not be left half done: a cancellation counts when it is done."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise
