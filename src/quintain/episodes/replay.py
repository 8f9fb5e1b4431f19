"""An episode played again from its record: the same actions on the same descriptor, and the first difference told.

Records are redacted, so what is played now is redacted before it is compared. What cannot repeat (a call that was cut
off by its time, one whose arguments are not in the record) is never called different: where something differs behind
it, the replay is inconclusive.
"""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final
from uuid import uuid4

from pydantic import BaseModel, ConfigDict, Field

from quintain.artifacts import LocalArtifactStore
from quintain.contracts.record import EpisodeRecord, StepRecord
from quintain.contracts.reward import AWM
from quintain.contracts.terminal import TerminalReason
from quintain.environments.base import ToolStatus
from quintain.episodes.base import EpisodeRequest, ResolvedTask, Rooms, descriptor, resolve
from quintain.episodes.comparing import Difference, StepComparer, redacted_arguments
from quintain.episodes.episode import CALL_TIMEOUT_S, Episode
from quintain.episodes.recorded import Recorded, argument, scored_step
from quintain.episodes.validation.states import difference as state_difference
from quintain.errors import ArtifactError, Owner, QuintainError, RecordUnreadable, SandboxError, VerifierError
from quintain.records import MemoryLedger
from quintain.records.redaction import Redactor
from quintain.records.states import own_name, state_files
from quintain.sandboxes.base import StateFile

_MIN_TIMEOUT_S: Final = 0.05
_REFUSED: Final = {"": float("nan")}  # arguments that JSON does not have, as those were that are not in the record


class Status(StrEnum):
    """What a replay came to."""

    IDENTICAL = "identical"
    """All that could be compared is the same; `notes` says what could not."""
    DIFFERENT = "different"
    INCONCLUSIVE = "inconclusive"
    """It could not be played to its end, or differs where that may be chance."""
    MISMATCHED = "mismatched"
    """This host resolves another episode than the record's, and nothing was played."""
    FAILED = "failed"
    """The platform could not play it."""


class StateStatus(StrEnum):
    """How the final states compare."""

    SAME = "same"
    DIFFERENT = "different"
    NOT_KEPT = "not_kept"
    NOT_COMPARED = "not_compared"


class _Contract(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Mismatch(_Contract):
    """A part of the identity that this host resolves otherwise than the record has it."""

    name: str
    recorded: str | None
    here: str | None


class Replay(_Contract):
    """One record's replay."""

    record: str = Field(description="The record's digest, or its file")
    scenario: str
    task_idx: int | None
    seed: int
    status: Status
    mismatches: tuple[Mismatch, ...] = ()
    difference: Difference | None = Field(default=None, description="The first")
    steps: int = Field(default=0, description="How many of the record's steps were played and compared")
    state: StateStatus = StateStatus.NOT_COMPARED
    notes: tuple[str, ...] = Field(default=(), description="What was not compared, and why")
    duration_ms: float = 0.0


@dataclass
class _Progress:
    """What a replay has found so far."""

    mismatches: tuple[Mismatch, ...] = ()
    difference: Difference | None = None
    doubt: str | None = None
    """Why what comes now may differ by chance."""
    steps: int = 0
    state: StateStatus = StateStatus.NOT_COMPARED
    notes: list[str] = field(default_factory=list)
    ended_early: bool = False

    @property
    def status(self) -> Status:
        if self.difference is not None:
            return Status.DIFFERENT if self.doubt is None else Status.INCONCLUSIVE
        return Status.INCONCLUSIVE if self.ended_early else Status.IDENTICAL

    def doubted(self, why: str) -> None:
        self.notes.append(why)
        self.doubt = self.doubt or why


class Replayer:
    """Replays records over rooms. Their ledger is not used: nothing that a replay verifies is a score."""

    def __init__(self, rooms: Rooms, redactor: Redactor | None = None, *, anyway: bool = False) -> None:
        """`anyway` plays also what this host resolves otherwise."""
        self._rooms = rooms
        self._comparer = StepComparer(redactor or Redactor())
        self._anyway = anyway

    async def replay(self, recorded: Recorded) -> Replay:
        """Play a record again; whatever goes wrong is told in what is returned."""
        started = time.perf_counter()
        progress = _Progress()
        try:
            status = await self._replayed(recorded, progress)
        except (QuintainError, OSError) as error:
            progress.notes.append(f"{type(error).__name__}: {error}")
            status = Status.FAILED
        record = recorded.record
        return Replay(
            record=recorded.name,
            scenario=record.scenario,
            task_idx=record.task_idx,
            seed=record.seed,
            status=status,
            mismatches=progress.mismatches,
            difference=progress.difference,
            steps=progress.steps,
            state=progress.state,
            notes=tuple(progress.notes),
            duration_ms=(time.perf_counter() - started) * 1000,
        )

    async def _replayed(self, recorded: Recorded, progress: _Progress) -> Status:
        record = recorded.record
        if record.episode_id is None or record.terminal_reason == TerminalReason.RECORD_LOST:
            progress.notes.append("there is nothing to play: its attempt did not begin, or its actions were lost")
            return Status.INCONCLUSIVE
        request, task = await asyncio.to_thread(self._request, record)
        progress.mismatches = tuple(self._mismatches(record, task))
        if progress.mismatches and not self._anyway:
            return Status.MISMATCHED
        with TemporaryDirectory(prefix="quintain_replay_", dir=self._rooms.scratch) as folder:
            kept = LocalArtifactStore(Path(folder))
            episode = Episode(replace(self._rooms, ledger=MemoryLedger(), states=kept), request)
            await episode.start()
            try:
                await self._steps(episode, record, progress)
                played = await episode.finish()
            except BaseException:
                await episode.abort(TerminalReason.PLATFORM_FAILED)
                raise
            if progress.difference is None and not progress.ended_early:
                await self._states(recorded, played, kept, progress)
        return progress.status

    def _request(self, record: EpisodeRecord) -> tuple[EpisodeRequest, ResolvedTask]:
        """What to ask for to get the record's episode: its task, or a text of its own in the task's place."""
        request = EpisodeRequest(
            scenario=record.scenario,
            task_idx=record.task_idx,
            seed=record.seed,
            model_digest=f"replay:{uuid4()}",
            verify=record.verify_policy,
        )
        task = resolve(self._rooms.source, request)
        if task.task_digest != record.task_payload_digest and record.task not in (None, task.task):
            own = request.model_copy(update={"task": record.task})
            other = resolve(self._rooms.source, own)
            if other.task_digest == record.task_payload_digest:
                return own, other
        return request, task

    def _mismatches(self, record: EpisodeRecord, task: ResolvedTask) -> list[Mismatch]:
        episode_class = self._rooms.kind(task.kind).episode_class
        named = descriptor(episode_class, task, record.seed)
        here: dict[str, str | None] = {
            "environment_class_id": named.environment_class_id,
            "task_payload_digest": task.task_digest,
            "dataset_digest": task.dataset_digest,
            "task_policy_digest": task.policy.digest if task.policy else None,
        }
        score = scored_step(record)
        if score is not None and argument(score, "verifier_mode") == "code" and "code" in task.verifiers:
            here["verifier_digest"] = self._rooms.verifier.digest("code", task.verifiers)
        here["episode_id"] = named.episode_id
        found = [
            Mismatch(name=name, recorded=getattr(record, name), here=value)
            for name, value in here.items()
            if getattr(record, name) != value
        ]
        if any(one.name == "environment_class_id" for one in found):
            versions = {name: episode_class.versions.get(name) for name in sorted(record.versions)}
            found += [
                Mismatch(name=f"version of {name}", recorded=record.versions[name], here=version)
                for name, version in versions.items()
                if version != record.versions[name]
            ]
        return found

    async def _steps(self, episode: Episode, record: EpisodeRecord, progress: _Progress) -> None:
        """Repeat the actions until one differs."""
        awm = record.reward_contract_digest == AWM.digest
        if not awm and record.steps:
            progress.notes.append("numbers of reward were not compared: the record's reward contract is not AWM's")
        for step in record.steps:
            if why := _unplayable(step):
                progress.notes.append(f"step {step.index}: {why}; it and what follows was not played")
                progress.ended_early = True
                return
            compare = await self._repeat(episode, step, progress)
            progress.steps += 1
            replayed = episode.last_step
            if compare and replayed is not None:
                progress.difference = self._comparer.difference(step, replayed, rewards=awm)
                if progress.difference is not None:
                    return

    async def _repeat(self, episode: Episode, step: StepRecord, progress: _Progress) -> bool:
        """Do once more what was done in a step; whether what came of it can be compared."""
        if step.action == "list_tools":
            episode.list_tools()
            return False
        if step.action == "verify":
            return await self._verify(episode, step, progress)
        if redacted_arguments(step):
            progress.doubted(f"step {step.index}: its arguments were redacted, and were played as the record has them")
        arguments = _REFUSED if step.arguments is None else step.arguments
        timed_out = step.reward_type == ToolStatus.TIMEOUT
        limit = max(CALL_TIMEOUT_S, 4 * step.duration_ms / 1000)
        if timed_out:
            limit = max(step.duration_ms / 1000, _MIN_TIMEOUT_S)
        outcome = await episode.call(step.tool_name or "", arguments, limit)
        if timed_out:
            progress.doubted(f"step {step.index}: it timed out in the record, so it was not compared")
        elif outcome.status is ToolStatus.TIMEOUT:
            progress.doubted(f"step {step.index}: it timed out now, after {limit:g} s, so it was not compared")
        elif Owner.INFRASTRUCTURE in (step.failure_owner, outcome.owner):
            progress.doubted(f"step {step.index}: the infrastructure failed, so it was not compared")
        elif step.arguments is None:
            progress.notes.append(f"step {step.index}: its arguments were no JSON; the reason given was not compared")
            return step.reward_type != outcome.status.value
        else:
            return True
        return False

    async def _verify(self, episode: Episode, step: StepRecord, progress: _Progress) -> bool:
        """Verify once more, where that asks nobody else and the verdict was of this attempt."""
        why = None
        if "arguments" in (step.omitted or {}):
            why = "its final answer is not in the record"
        elif argument(step, "verifier_mode") != "code" or not episode.verifiable("code"):
            why = "its verdict needs a judge, or a verifier that is not here"
        elif step.failure_owner is not None:
            why = "its verdict was uncertain"
        if why is None:
            scored = await episode.verify("code", argument(step, "final_answer"))
            if redacted_arguments(step):
                why = "its final answer was redacted"
            elif scored.owner is not None:
                why = f"its verdict is uncertain now: {scored.verdict.reason}"
            elif step.warning != scored.note:
                why = "its verdict was told from an earlier one"
        if why is not None:
            progress.notes.append(f"step {step.index}: {why}, so it was not compared")
        return why is None

    async def _states(
        self, recorded: Recorded, played: EpisodeRecord, kept: LocalArtifactStore, progress: _Progress
    ) -> None:
        """Compare the final states; files of equal digests are equal."""
        mine = played.states.final if played.states else None
        theirs = recorded.record.states.final if recorded.record.states else None
        if theirs is None and recorded.folder is None:
            progress.state = StateStatus.NOT_KEPT
            progress.notes.append("the final state was not compared: it was not kept")
            return
        try:
            if mine is None:
                problem = played.states.problem if played.states else None
                raise SandboxError(f"the final state of the replay could not be had: {problem}")
            if theirs is None:
                former = _kept_files(recorded.folder, [blob.name for blob in mine])
            elif [blob.digest for blob in theirs] == [blob.digest for blob in mine]:
                progress.state = StateStatus.SAME
                return
            else:
                former = recorded.files(theirs)
            found = await state_difference(self._rooms, former, state_files(mine, kept))
        except (SandboxError, VerifierError, ArtifactError, RecordUnreadable, OSError) as error:
            progress.notes.append(f"the final state was not compared: {error}")
            return
        progress.state = StateStatus.SAME if found is None else StateStatus.DIFFERENT
        if found is not None:
            progress.difference = Difference(step=None, field="state", recorded="", replayed="; ".join(found)[:500])


def _unplayable(step: StepRecord) -> str | None:
    """Why an action cannot be repeated from its record; None if it can."""
    if step.action == "call_tool" and "arguments" in (step.omitted or {}):
        return "its arguments are too large to be in the record"
    return None


def _kept_files(folder: Path | None, names: Sequence[str]) -> list[StateFile]:
    """A kept session's final state, under names of ours."""
    assert folder is not None
    first = names[0]
    own = own_name(first)
    side = ("", "-wal", "-journal")
    found = [StateFile(f"{own}{suffix}", folder / f"{first}{suffix}") for suffix in side]
    files = [file for file in found if file.path.is_file()]
    if not files or files[0].name != own:
        raise ArtifactError(f"{folder} has no file {first!r}")
    return files
