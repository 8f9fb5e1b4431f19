"""A stored episode verified again: its kept states, with the verifier that its task has now.

The verdict goes to the ledger under its own verifier digest, beside what is there. The attempt's first certain verdict
stays its reward. The states are opened in the verifier's sandbox alone.
"""

import asyncio
import time
from dataclasses import replace
from enum import StrEnum
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field

from quintain.contracts.record import EpisodeRecord, StepRecord
from quintain.contracts.reward import AWM
from quintain.episodes.base import EpisodeRequest, ResolvedTask, Rooms, resolve
from quintain.episodes.comparing import redacted_arguments
from quintain.episodes.recorded import Recorded, argument, scored_step
from quintain.episodes.scoring import Scoring
from quintain.errors import LedgerError, Owner, QuintainError, UnknownTaskError
from quintain.records import ScoreKey, Submission
from quintain.verifiers.base import Verdict, VerdictMode

_NEVER_SCORED: Final = (Owner.INFRASTRUCTURE, Owner.ENVIRONMENT)


class Outcome(StrEnum):
    """What came of verifying a record again."""

    SCORED = "scored"
    """There is a certain verdict under a verifier digest that had none."""
    UNCHANGED = "unchanged"
    """This verifier has scored the attempt already; nothing was done."""
    UNCERTAIN = "uncertain"
    """The verifier gave no certain verdict; the ledger's log has it."""
    SKIPPED = "skipped"
    """It cannot be verified; `why` says why."""


class Reverified(BaseModel):
    """One record, verified again."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    record: str
    scenario: str
    task_idx: int | None
    outcome: Outcome
    why: str | None = None
    old: str | None = Field(default=None, description="The verdict that the attempt was paid for")
    old_word: str | None = Field(default=None, description="The verifier's own word for it")
    old_digest: str | None = None
    new: str | None = None
    new_word: str | None = None
    new_digest: str | None = None
    reward: float | None = Field(default=None, description="What the attempt is paid, by the ledger, after all")


class Reverifier:
    """Verifies stored records again over rooms whose ledger is theirs."""

    def __init__(self, rooms: Rooms, mode: VerdictMode = "code") -> None:
        self._rooms = replace(rooms, run=f"reverify:{rooms.run}")
        self._mode = mode

    async def reverify(self, recorded: Recorded) -> Reverified:
        """Verify a record again; what stands in the way of that is told in what is returned.

        Raises:
            LedgerError: the ledger cannot be read or written.
        """
        record = recorded.record
        step = scored_step(record)
        told: dict[str, Any] = {
            "record": recorded.name,
            "scenario": record.scenario,
            "task_idx": record.task_idx,
            "old": None if step is None else step.reward_type,
            "old_word": None if step is None else (step.verify_result or {}).get("result"),
            "old_digest": record.verifier_digest,
        }
        try:
            if why := _hopeless(record, step):
                raise UnknownTaskError(why)
            task = await asyncio.to_thread(self._resolved, record)
            key = self._key(record, task, step)
            told["new_digest"] = key.verifier_digest
            if (held := await self._rooms.ledger.score(key)) is not None:
                return Reverified(
                    **told,
                    new=held.reward_type,
                    new_word=held.word,
                    outcome=Outcome.UNCHANGED,
                    why="this verifier has scored the attempt already",
                    reward=await self._reward(key),
                )
            verdict = await self._verdict(recorded, task, step)
            return await self._submitted(record, task, step, key, verdict, told)
        except LedgerError:
            raise
        except (QuintainError, OSError) as error:
            return Reverified(**told, outcome=Outcome.SKIPPED, why=str(error))

    def _resolved(self, record: EpisodeRecord) -> ResolvedTask:
        """The record's task as its source has it now."""
        if record.task_idx is None:
            raise UnknownTaskError("it has no task of the source, and so no verifier")
        request = EpisodeRequest(
            scenario=record.scenario, task_idx=record.task_idx, seed=record.seed, model_digest=record.model_digest
        )
        task = resolve(self._rooms.source, request)
        if task.task_digest != record.task_payload_digest:
            raise UnknownTaskError("the task source has another scenario or task under this name")
        return task

    def _key(self, record: EpisodeRecord, task: ResolvedTask, step: StepRecord | None) -> ScoreKey:
        about = task.about(_before(record, step), None)
        return ScoreKey(
            episode_id=record.episode_id or "",
            model_digest=record.model_digest,
            attempt=record.attempt,
            verifier_digest=self._rooms.verifier.digest(self._mode, task.verifiers, about),
        )

    async def _verdict(self, recorded: Recorded, task: ResolvedTask, step: StepRecord | None) -> Verdict:
        record, states = recorded.record, recorded.record.states
        assert states is not None
        initial, final = await asyncio.to_thread(
            lambda: (recorded.files(states.initial or ()), recorded.files(states.scored or states.final or ()))
        )
        asked = step or _last_verification(record)
        answer = None if asked is None else argument(asked, "final_answer")
        about = task.about(_before(record, step), None)
        return await self._rooms.verifier.score(self._mode, task.verifiers, initial, final, answer, about)

    async def _submitted(
        self,
        record: EpisodeRecord,
        task: ResolvedTask,
        step: StepRecord | None,
        key: ScoreKey,
        verdict: Verdict,
        told: dict[str, Any],
    ) -> Reverified:
        """Bring the verdict to the ledger. Without the record's reward contract there is no reward to it."""
        if record.reward_contract_digest == AWM.digest:
            scoring = Scoring(self._rooms.ledger, AWM, self._rooms.run)
            scored = await scoring.submit(key, verdict, _before(record, step), task.policy, None)
            verdict = scored.verdict
        else:
            await self._rooms.ledger.submit(Submission.of(key, verdict, submitted_at=time.time(), run=self._rooms.run))
        if verdict.certain:
            told |= {"new": verdict.reward_type, "new_word": verdict.result}
        outcome = Outcome.SCORED if verdict.certain else Outcome.UNCERTAIN
        return Reverified(**told, outcome=outcome, why=verdict.reason, reward=await self._reward(key))

    async def _reward(self, key: ScoreKey) -> float | None:
        paid = await self._rooms.ledger.episode_score(key.episode_id, key.model_digest, key.attempt)
        return None if paid is None else paid.reward


def _hopeless(record: EpisodeRecord, step: StepRecord | None) -> str | None:
    """Why a record cannot be verified again, whatever verifier there is; None if it may."""
    states, asked = record.states, step or _last_verification(record)
    if record.episode_id is None:
        return "its episode failed before it had an identity"
    if record.failure_owner in _NEVER_SCORED:
        return f"its episode had failed by the {record.failure_owner}, so no verdict on it counts"
    if states is None:
        return "its states were not kept"
    if states.initial is None or (states.scored or states.final) is None:
        return f"a state was not kept: {states.problem or 'nobody says why'}"
    if asked is not None and "arguments" in (asked.omitted or {}):
        return "its final answer is too large to be in the record"
    if asked is not None and redacted_arguments(asked):
        return "its final answer was redacted"
    return None


def _last_verification(record: EpisodeRecord) -> StepRecord | None:
    return next((step for step in reversed(record.steps) if step.action == "verify"), None)


def _before(record: EpisodeRecord, step: StepRecord | None) -> tuple[StepRecord, ...]:
    """What was done before the verdict that is the reward; all there is where none is."""
    return record.steps if step is None else tuple(one for one in record.steps if one.index < step.index)
