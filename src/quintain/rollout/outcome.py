"""What one attempt came to, as a run's events and report have it: the record in short."""

from enum import StrEnum
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from quintain.contracts.identity import Digest
from quintain.contracts.record import EpisodeRecord
from quintain.contracts.timing import stages_ms, ttfi_ms
from quintain.errors import Owner

JsonObject = dict[str, Any]


class Fate(StrEnum):
    """What became of an attempt: solved, or whose failure it is that it was not."""

    SOLVED = "solved"
    AGENT = "agent"
    ENVIRONMENT = "environment"
    VERIFIER = "verifier"
    INFRASTRUCTURE = "infrastructure"
    UNSCORED = "unscored"


class Outcome(BaseModel):
    """One attempt's terminal record in short."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    item: str
    scenario: str
    task_idx: int | None
    seed: int
    agent: str
    model_digest: str
    attempt: int
    episode_id: Digest | None
    record_digest: Digest
    terminal_reason: str
    truncated: bool
    failure_owner: Owner | None
    reward_type: str | None
    reward: float | None
    reward_valid: bool
    cause: str | None = Field(default=None, description="Of the failure, where there was one")
    retried: int = Field(default=0, ge=0, description="How often it was begun or verified again")
    calls: int = Field(ge=0)
    tokens: int | None = Field(default=None, description="That the model wrote, where that was told")
    start_kind: str | None
    ttfi_ms: float | None
    segments_ms: dict[str, float]
    stages_ms: dict[str, float] = Field(description="Time in each stage; of those entered twice, together")
    ended_at: float = Field(description="Seconds since 1970 (UTC)")

    @property
    def group(self) -> str:
        """Which attempts it belongs with: those of the same agent at the same task and seed."""
        return self.item.rpartition("/")[0]

    @property
    def fate(self) -> Fate:
        """Solved, or whose failure."""
        if self.failure_owner is not None:
            return Fate(self.failure_owner)
        if not self.reward_valid:
            return Fate.UNSCORED
        return Fate.SOLVED if self.reward_type == "complete" else Fate.AGENT


def outcome_of(record: EpisodeRecord, digest: str) -> Outcome:
    """A record of a rollout in short. `digest` is the record's, as it was sealed."""
    item = record.rollout_item or ""
    return Outcome(
        item=item,
        scenario=record.scenario,
        task_idx=record.task_idx,
        seed=record.seed,
        agent=item.split("/")[-2] if item.count("/") >= 3 else "",
        model_digest=record.model_digest,
        attempt=record.attempt,
        episode_id=record.episode_id,
        record_digest=digest,
        terminal_reason=record.terminal_reason,
        truncated=bool(record.truncated),
        failure_owner=record.failure_owner,
        reward_type=record.reward_type,
        reward=record.reward,
        reward_valid=record.reward_valid,
        cause=record.failure.cause if record.failure else None,
        retried=len(record.retried or ()),
        calls=sum(step.action == "call_tool" for step in record.steps),
        tokens=_tokens(record),
        start_kind=record.start_kind,
        ttfi_ms=ttfi_ms(record.stages),
        segments_ms=record.segments_ms,
        stages_ms=stages_ms(record.stages),
        ended_at=record.stages[-1].wall,
    )


def _tokens(record: EpisodeRecord) -> int | None:
    told = [turn.usage.completion_tokens for turn in record.turns or ()]
    counted = [count for count in told if count is not None]
    return sum(counted) if counted else None
