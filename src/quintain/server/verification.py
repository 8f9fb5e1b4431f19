"""The reserved tools `verify` and `done`, from their arguments to what is told."""

import json
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from quintain.contracts.observation import AwmObservation
from quintain.contracts.untrusted import json_problem
from quintain.episodes import Episode, Scored
from quintain.errors import Owner, QuintainError, UsageError
from quintain.sandboxes.scratch import provisional
from quintain.verifiers.base import VERDICT_MODES, VerdictMode

JsonObject = dict[str, Any]


@dataclass(frozen=True)
class Verification:
    """What a verify asks for."""

    mode: VerdictMode
    final_answer: str | None
    warning: str | None

    @classmethod
    def read(cls, arguments: JsonObject) -> "Verification":
        """The arguments of a verify.

        Raises:
            UsageError: an unknown mode, or an answer that is no JSON.
        """
        asked = arguments.get("verifier_mode", "code")
        mode = next((one for one in VERDICT_MODES if one == asked), None)
        if mode is None:
            raise UsageError(f"verifier_mode is {str(asked)[:80]!r}; give {', '.join(VERDICT_MODES)}")
        answer = arguments.get("final_answer")
        if problem := json_problem(answer):
            raise UsageError(f"final_answer was refused: {problem}")
        if answer is None or isinstance(answer, str):
            return cls(mode, answer, None)
        return cls(mode, json.dumps(answer), "final_answer is not a string; the verifier got its JSON text")


def verified(episode: Episode, asked: Verification, scored: Scored, steps_taken: int) -> AwmObservation:
    """What is told of a verdict."""
    verdict, reward = scored.verdict, episode.wire_reward(scored)
    owner = scored.owner or episode.failure_owner
    metadata: JsonObject = {}
    if not scored.counts or owner is not None:
        metadata = {"reward_valid": False, "failure_owner": owner.value if owner else None}
    if reward != episode.request.contract.rewards.value(verdict.reward_type):
        metadata["reward_reason"] = scored.reward.reason  # more than the verdict made it
    return AwmObservation(
        reward=reward,
        reward_type=verdict.reward_type,
        verify_result=verdict.verify_result,
        steps_taken=steps_taken,
        warning="; ".join(text for text in (asked.warning, scored.note) if text) or None,
        metadata=metadata,
        **shown(episode),
    )


def shown(episode: Episode) -> JsonObject:
    """What an observation tells of an episode's task."""
    task = episode.task
    return {"scenario": task.scenario, "task": task.task, "task_idx": task.task_idx}


@dataclass(frozen=True)
class Ended:
    """An episode that has ended, and where it was kept."""

    owner: Owner | None
    kept: Path | None
    warning: str | None


async def end(episode: Episode, keep: object, keep_dir: Path, scratch: Path, steps_taken: int) -> Ended:
    """End an episode, and keep it in a new directory under `keep_dir` where `keep` is true."""
    warning = None if isinstance(keep, bool) else "keep_session is not true or false; nothing was kept"
    kept: Path | None = None
    try:
        if keep is True:
            database = episode.state_file
            name = keep_dir / f"quintain_{episode.task.scenario[:80]}_{secrets.token_hex(6)}"
            with provisional(scratch, name) as kept:
                record = await episode.finish(kept, steps_taken)
            if not (kept / database).is_file():
                warning = f"no database was kept: at the end {database} was no file that can be copied"
        else:
            record = await episode.finish(None, steps_taken)
    except (QuintainError, OSError) as error:
        kept, warning = None, f"the session could not be kept: {error}"
        record = episode.record() if episode.lifecycle.ended else await episode.finish(None, steps_taken)
    return Ended(record.failure_owner, kept, warning)


def with_ending(observation: AwmObservation, ended: Ended) -> AwmObservation:
    """An observation that also tells that the episode has ended."""
    warning = "; ".join(text for text in (observation.warning, ended.warning) if text) or None
    return observation.model_copy(
        update={
            "done": True,
            "trajectory_path": None if ended.kept is None else str(ended.kept / "trajectory.json"),
            "session_dir": None if ended.kept is None else str(ended.kept),
            "warning": warning,
        }
    )
