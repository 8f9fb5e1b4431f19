"""Verdicts as observations carry them."""

import json

from quintain.verifiers.base import MAX_VERIFY_RESULT_BYTES, Certainty, Verdict


def verdict(value: object) -> Verdict:
    return Verdict(
        mode="code",
        reward_type="complete",
        status=Certainty.CERTAIN,
        result="complete",
        value=value,
        digest="sha256:" + "0" * 64,
    )


def test_a_small_result_is_told_whole() -> None:
    value = {"result": "complete", "rows": [1, 2]}
    assert verdict(value).verify_result == {"result": "complete", "execution_status": "success", "raw_result": value}


def test_of_a_large_result_only_the_word_is_told_and_why() -> None:
    told = verdict({"result": "complete", "rows": ["\u2028" * MAX_VERIFY_RESULT_BYTES]}).verify_result
    assert set(told) == {"result", "execution_status", "omitted"}
    assert (told["result"], told["execution_status"]) == ("complete", "success")
    assert "raw_result" in told["omitted"]
    assert str(MAX_VERIFY_RESULT_BYTES) in told["omitted"]
    assert len(json.dumps(told)) < 1000
