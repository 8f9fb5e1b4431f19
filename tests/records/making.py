"""Keys and submissions for the ledger's tests."""

from typing import Any

from quintain.records import ScoreKey, Submission


def digest(number: int) -> str:
    return f"sha256:{number:064x}"


def key(attempt: int = 0, *, episode: int = 1, model: str = "model", verifier: int = 1) -> ScoreKey:
    return ScoreKey(
        episode_id=digest(episode), model_digest=model, attempt=attempt, verifier_digest=digest(1000 + verifier)
    )


def certain(of: ScoreKey | None = None, word: str = "complete", **fields: Any) -> Submission:
    return Submission.model_validate({
        "key": of or key(), "mode": "code", "certain": True, "reward_type": word, "word": word,
        "value": {"result": word}, "reward": 1.0 if word == "complete" else 0.1, "submitted_at": 1.5, "run": "test",
    } | fields)  # fmt: skip


def uncertain(of: ScoreKey | None = None, **fields: Any) -> Submission:
    return Submission.model_validate({
        "key": of or key(), "mode": "code", "certain": False, "reward_type": "judge_error", "reason": "it crashed",
        "failure_owner": "verifier", "submitted_at": 1.5, "run": "test",
    } | fields)  # fmt: skip
