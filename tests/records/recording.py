"""Records of made-up episodes, for the tests of what keeps them."""

import json
from typing import Any

from quintain.contracts.lifecycle import Stage, StageStamp
from quintain.contracts.record import EpisodeRecord, StepRecord
from quintain.contracts.reward import AWM
from quintain.records.recorder import Sealed, seal
from quintain.records.redaction import Redactor
from records.making import digest

_STAGES = (Stage.ACCEPTED, Stage.RESOLVING, Stage.FIRST_COMMAND_OK, Stage.RUNNING, Stage.COMPLETED, Stage.CLEANING,
           Stage.DELETED)  # fmt: skip


def a_step(index: int, **fields: Any) -> StepRecord:
    return StepRecord.model_validate({
        "index": index, "action": "call_tool", "tool_name": "get_product", "arguments": {"product_id": index},
        "reward_type": "tool_call_ok", "reward": 0.0,
        "result": json.dumps({"id": index, "name": f"Lamp {index}", "price": 12.5 + index, "tags": ["a", "é"]}),
        "started": 1.79e9 + index * 0.123456, "duration_ms": 0.7654321 + index,
    } | fields)  # fmt: skip


def a_record(attempt: int = 0, *, steps: int = 3, episode: int = 1, **fields: Any) -> EpisodeRecord:
    return EpisodeRecord.model_validate({
        "environment_class_id": digest(77), "episode_id": digest(episode), "client_episode_id": "mine",
        "scenario": "outdoor_marketplace_1", "task_idx": 3, "task": "Find a lamp.", "task_payload_digest": digest(78),
        "dataset_digest": digest(79), "verifier_digest": digest(1001), "seed": 5, "attempt": attempt,
        "model_digest": "model", "terminal_reason": "done", "reward_type": "complete", "reward": 1.0,
        "reward_valid": True, "reward_contract_digest": AWM.digest, "start_kind": "template_fork",
        "stages": tuple(StageStamp(stage=stage, wall=1.79e9 + place, monotonic=10.0 + place)
                        for place, stage in enumerate(_STAGES)),
        "segments_ms": {"claim": 1.25}, "steps": tuple(a_step(number) for number in range(1, steps + 1)),
        "versions": {"quintain": "0.1.0"},
    } | fields)  # fmt: skip


def sealed(attempt: int = 0, *, run: str = "test", **fields: Any) -> Sealed:
    return seal(a_record(attempt, **fields), Redactor(), run, 1.79e9)


def payload(attempt: int = 0, **fields: Any) -> bytes:
    return sealed(attempt, **fields).payload()
