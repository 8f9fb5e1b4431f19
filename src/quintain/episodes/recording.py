"""From what is known of an episode to its record."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from quintain.contracts.descriptor import EnvironmentEpisode
from quintain.contracts.lifecycle import Lifecycle
from quintain.contracts.record import EpisodeRecord, KeptStates, KeptTurn, StepRecord
from quintain.contracts.terminal import TRUNCATED
from quintain.contracts.timing import ttfi_ms
from quintain.episodes.base import EpisodeRequest, ResolvedTask, Rooms
from quintain.episodes.scoring import Scoring
from quintain.errors import Owner


@dataclass
class Known:
    """What an episode has come to know of itself so far, beside its steps, scores and stages."""

    attempt: int | None
    task: ResolvedTask | None = None
    descriptor: EnvironmentEpisode | None = None
    failure_owner: Owner | None = None
    environment_failures: int = 0
    hibernations: int = 0
    start_kind: str | None = None
    segments: dict[str, float] = field(default_factory=dict)
    terminal_reason: str = ""
    turns: tuple[KeptTurn, ...] | None = None
    states: KeptStates | None = None

    def identity(self, model_digest: str, lifecycle: Lifecycle) -> Mapping[str, Any]:
        """Ids, attempt and model, as an observation's metadata carries them; empty before the task was resolved."""
        if self.descriptor is None:
            return {}
        return {
            "environment_class_id": self.descriptor.environment_class_id,
            "episode_id": self.descriptor.episode_id,
            "attempt": self.attempt,
            "model_digest": model_digest,
            "start_kind": self.start_kind,
            "ttfi_ms": ttfi_ms(lifecycle.stamps),
            "segments_ms": self.segments,
        }


def episode_record(
    rooms: Rooms,
    request: EpisodeRequest,
    known: Known,
    *,
    lifecycle: Lifecycle,
    scoring: Scoring,
    steps: Sequence[StepRecord],
    failure_owner: Owner | None,
) -> EpisodeRecord:
    """The record of an episode as far as it has come."""
    task, score, scored = known.task, scoring.score, scoring.scored
    return EpisodeRecord(
        environment_class_id=known.descriptor.environment_class_id if known.descriptor else None,
        episode_id=known.descriptor.episode_id if known.descriptor else None,
        client_episode_id=request.client_episode_id,
        scenario=task.scenario if task else request.scenario,
        task_idx=task.task_idx if task else request.task_idx,
        task=task.task if task else request.task,
        task_payload_digest=task.task_digest if task else None,
        dataset_digest=task.dataset_digest if task else rooms.source.dataset_digest,
        verifier_digest=score.key.verifier_digest if score else None,
        task_policy_digest=task.policy.digest if task and task.policy else None,
        seed=request.seed,
        attempt=known.attempt or 0,
        model_digest=request.model_digest,
        terminal_reason=known.terminal_reason,
        truncated=known.terminal_reason in TRUNCATED,
        failure_owner=failure_owner,
        environment_failures=known.environment_failures,
        hibernations=known.hibernations,
        reward_type=score.reward_type if score else None,
        reward=score.reward if score else None,
        reward_valid=score is not None and score.reward is not None,
        reward_contract_digest=request.contract.digest,
        reward_terms=scored.reward if scored else None,
        signals=scoring.signals,
        verify_policy=request.verify,
        start_kind=known.start_kind,
        stages=lifecycle.stamps,
        segments_ms=known.segments,
        steps=tuple(steps),
        turns=known.turns,
        states=known.states,
        versions=dict(rooms.kind(task.kind).episode_class.versions if task else rooms.versions),
    )
