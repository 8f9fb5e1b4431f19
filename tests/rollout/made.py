"""An outcome as an attempt that was solved leaves it, with whatever differs."""

from typing import Any

from quintain.rollout import Outcome


def made(item: str, **fields: Any) -> Outcome:
    """The outcome of `s/0@0/a/<item>`, solved in two calls, with some fields replaced."""
    told = {
        "item": item, "scenario": "s", "task_idx": 0, "seed": 0, "agent": "a", "model_digest": "m", "attempt": 0,
        "episode_id": None, "record_digest": f"sha256:{0:064x}", "terminal_reason": "done", "truncated": False,
        "failure_owner": None, "reward_type": "complete", "reward": 1.0, "reward_valid": True, "calls": 2,
        "start_kind": "template_fork", "ttfi_ms": 3.0, "segments_ms": {"fork": 2.0}, "stages_ms": {"running": 5.0},
        "ended_at": 1.0,
    }  # fmt: skip
    return Outcome.model_validate({**told, **fields})
