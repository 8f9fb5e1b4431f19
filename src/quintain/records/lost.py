"""The record of a try whose own record never came: what the ledger and its siblings still know of it."""

from typing import Any

from quintain.contracts.lifecycle import Stage, StageStamp
from quintain.contracts.record import EpisodeRecord
from quintain.contracts.reward import AWM
from quintain.contracts.terminal import Failure
from quintain.errors import Owner
from quintain.records.base import Submission
from quintain.records.index import LOST

UNKNOWN_SCENARIO = "unknown"
"""What stands for the scenario where no other record of the episode names it."""


def lost_record(score: Submission, like: dict[str, Any] | None) -> EpisodeRecord:
    """A record that says the infrastructure ended the try. The same score always gives the same record.

    Args:
        score: the try's reward in the ledger, which stays what it is there.
        like: the index row of another try of the same episode, which has the same scenario, task, seed and class.
    """
    like = like or {}
    return EpisodeRecord(
        environment_class_id=like.get("environment_class_id"),
        episode_id=score.key.episode_id,
        scenario=like.get("scenario") or UNKNOWN_SCENARIO,
        task_idx=like.get("task_idx"),
        verifier_digest=score.key.verifier_digest,
        seed=like.get("seed") or 0,
        attempt=score.key.attempt,
        model_digest=score.key.model_digest,
        terminal_reason=LOST,
        failure_owner=Owner.INFRASTRUCTURE,
        failure=Failure(
            cause=LOST,
            owner=Owner.INFRASTRUCTURE,
            component="worker",
            stage=Stage.VERIFYING,
            message=f"run {score.run} scored this try and never sent its record",
            at=score.submitted_at,
        ),
        reward_type=score.reward_type,
        reward=None,
        reward_valid=False,
        reward_contract_digest=score.contract_digest or AWM.digest,
        stages=(StageStamp(stage=Stage.FAILED, wall=score.submitted_at, monotonic=0.0),),
        steps=(),
    )
