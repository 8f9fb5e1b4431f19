"""What a trajectory keeps, within its budget."""

import json
from typing import Any

import pytest

from quintain.contracts.identity import sha256
from quintain.contracts.record import Omitted
from quintain.contracts.reward import AWM
from quintain.contracts.turns import TokenTrace, TurnRecord
from quintain.environments import ToolOutcome, ToolStatus
from quintain.episodes.scoring import Scored
from quintain.episodes.trajectory import BUDGET_BYTES, Trajectory
from quintain.errors import Owner
from quintain.verifiers.base import Certainty, Verdict
from quintain.verifiers.signals import signals_of

MIB = 2**20
REFUSED = ToolOutcome(status=ToolStatus.INVALID_ARGS, error="no", owner=Owner.AGENT)
DIGEST = "sha256:" + "0" * 64


def size(trajectory: Trajectory) -> int:
    return sum(len(step.model_dump_json()) for step in trajectory.steps)


@pytest.mark.parametrize(
    "arguments", [{"a": "y" * 5 * MIB}, {"k" * 5 * MIB: 1}, {"a": [["y" * 1000] * 10] * 500}, {"a": ["y" * 5 * MIB]}]
)
def test_arguments_are_kept_within_the_budget_and_then_by_digest(arguments: dict[str, Any]) -> None:
    trajectory = Trajectory()
    for _ in range(12):
        trajectory.called("nope", arguments, REFUSED, -1.0)
    assert size(trajectory) < BUDGET_BYTES + MIB
    first, last = trajectory.steps[0], trajectory.steps[-1]
    assert (first.arguments, first.omitted, last.arguments, last.error) == (arguments, None, None, "no")
    text = json.dumps(arguments, sort_keys=True).encode()
    assert last.omitted is not None
    assert set(last.omitted) == {"arguments"}
    assert (last.omitted["arguments"].digest, last.omitted["arguments"].size_bytes) == (sha256(text), len(text))


def test_many_small_values_weigh_what_they_take() -> None:
    trajectory = Trajectory()
    trajectory.called("nope", {"a": [[] for _ in range(BUDGET_BYTES // 32)]}, REFUSED, -1.0)
    assert trajectory.steps[0].arguments is None


def test_errors_names_and_final_answers_are_bounded_too() -> None:
    trajectory = Trajectory()
    failed = ToolOutcome(status=ToolStatus.TOOL_ERROR, error="e" * 64 * 1024, owner=Owner.AGENT)
    verdict = Verdict(mode="code", reward_type="incomplete", status=Certainty.CERTAIN, result="no", digest=DIGEST)
    scored = Scored(verdict, AWM.reward(signals_of(verdict, ())))
    for _ in range(300):
        trajectory.called("x" * MIB, {}, failed, 0.0)
    for _ in range(20):
        trajectory.verified(scored, "z" * 5 * MIB, 0.1, 1.0)
    assert size(trajectory) < BUDGET_BYTES + 2 * MIB
    assert len(str(trajectory.steps[0].tool_name)) < 600
    assert trajectory.steps[-1].omitted is not None
    assert trajectory.steps[-1].omitted["arguments"].size_bytes > 5 * MIB


def test_turns_over_the_budget_are_kept_by_digest_and_their_tokens_first() -> None:
    def turn(index: int, text: str) -> TurnRecord:
        return TurnRecord(
            index=index,
            messages=({"role": "user", "content": text},),
            prompt_messages=index,
            reply={"role": "assistant", "content": "yes"},
            tokens=TokenTrace(token_ids=(1, 2), logprobs=(-0.5, -0.25)),
            started=1.0,
            latency_ms=2.0,
        )

    half = "x" * (BUDGET_BYTES * 2 // 3)
    first, second = Trajectory().kept([turn(1, half), turn(2, half)])
    assert (first.messages[0]["content"], first.omitted) == (half, None)
    assert second.messages == ()
    assert second.tokens.token_ids == (1, 2)
    assert second.reply == {"role": "assistant", "content": "yes"}
    assert second.omitted is not None
    text = json.dumps([{"content": half, "role": "user"}]).encode()
    assert second.omitted == {"messages": Omitted(digest=sha256(text), size_bytes=len(text))}
