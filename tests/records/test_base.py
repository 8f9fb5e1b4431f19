"""What a submission may hold, and how a verdict becomes one."""

import math
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from quintain.errors import Owner
from quintain.records import MAX_ATTEMPT, ScoreKey, Submission
from quintain.records.base import MAX_REASON_CHARS, MAX_VALUE_BYTES, MAX_WORD_CHARS
from quintain.verifiers.base import Certainty, Verdict
from records.making import certain, digest, key, uncertain


def verdict(**fields: Any) -> Verdict:
    plain = {"mode": "code", "reward_type": "complete", "status": Certainty.CERTAIN, "digest": digest(1)}
    return Verdict.model_validate(plain | fields)


def made(of: Verdict, reward: float | None = 1.0) -> Submission:
    return Submission.of(key(), of, submitted_at=2.0, run="r", reward=reward, contract_digest=digest(3))


def test_a_certain_verdict_keeps_its_word_value_and_reward() -> None:
    submission = made(verdict(result="complete", value={"result": "complete", "rows": [1, 2]}))
    assert (submission.word, submission.value) == ("complete", {"result": "complete", "rows": [1, 2]})
    assert (submission.reward, submission.contract_digest, submission.certain) == (1.0, digest(3), True)


def test_an_uncertain_verdict_has_no_reward_whatever_is_given_for_it() -> None:
    unsure = verdict(reward_type="judge_error", status=Certainty.UNCERTAIN, reason="no answer")
    submission = made(unsure, reward=0.0)
    assert (submission.reward, submission.failure_owner, submission.reason) == (None, Owner.VERIFIER, "no answer")


def test_a_large_value_is_told_of_by_digest_and_size() -> None:
    largest = "x" * (MAX_VALUE_BYTES - 2)
    assert made(verdict(value=largest)).value == largest
    submission = made(verdict(value=largest + "x"))
    assert submission.value is None
    assert submission.value_omitted is not None
    assert submission.value_omitted.size_bytes == MAX_VALUE_BYTES + 1
    assert submission.value_omitted != made(verdict(value=largest + "y")).value_omitted


@given(st.text(st.characters()), st.recursive(st.floats() | st.text(st.characters()) | st.none(), st.lists))
def test_whatever_a_verifier_says_can_be_submitted(said: str, value: Any) -> None:
    unsure = verdict(status=Certainty.UNCERTAIN, reason=said * 50, result=said * 50, value=value)
    submission = made(unsure)
    assert len(submission.reason or "") <= MAX_REASON_CHARS
    assert len(submission.word or "") <= MAX_WORD_CHARS
    assert Submission.model_validate_json(submission.model_dump_json()) == submission


@pytest.mark.parametrize("fields", [
    {"failure_owner": "agent"}, {"certain": False}, {"reward": math.nan}, {"reward": math.inf},
    {"value": "x" * MAX_VALUE_BYTES}, {"value": [math.nan]}, {"reason": "\ud800"}, {"word": "a\0b"},
    {"submitted_at": math.inf}, {"run": ""}, {"mode": "guess"}, {"contract_digest": "none"}, {"colour": "red"},
    {"value_omitted": {"digest": digest(1), "size_bytes": 3}},
], ids=str)  # fmt: skip
def test_what_contradicts_itself_or_cannot_be_stored_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        certain(**fields)


@pytest.mark.parametrize("fields", [{"reward": 0.0}, {"failure_owner": None}], ids=str)
def test_an_uncertain_submission_has_an_owner_and_no_reward(fields: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        uncertain(**fields)


@pytest.mark.parametrize("fields", [
    {"attempt": -1}, {"attempt": MAX_ATTEMPT + 1}, {"attempt": True}, {"attempt": "1"}, {"model_digest": ""},
    {"model_digest": "x" * 513}, {"model_digest": "a\0"}, {"model_digest": "\udfff"}, {"episode_id": "sha256:1"},
], ids=str)  # fmt: skip
def test_a_key_is_exact(fields: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        ScoreKey.model_validate(key().model_dump() | fields)


def test_importing_the_room_imports_no_database_library() -> None:
    code = "import sys, quintain.records; print([name for name in ('sqlalchemy', 'alembic') if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
