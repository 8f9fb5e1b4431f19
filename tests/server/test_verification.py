"""Verify policies over the wire: what is told, when an episode ends, and what stays the reward."""

from typing import Any

import pytest

from quintain.contracts.verification import VerifyPolicy
from quintain.tasks.base import TaskPolicy

TOY = "toy_notes_1"


def solve(client: Any) -> None:
    client.step("add_note", text="buy milk")


def told(answer: Any) -> tuple[str, float, bool]:
    return answer["observation"]["reward_type"], answer["reward"], answer["done"]


def test_by_default_a_second_verify_tells_the_first_verdict(live: Any) -> None:
    with live.client() as client:
        client.reset(scenario=TOY, task_idx=0)
        assert told(client.step("verify")) == ("incomplete", 0.1, False)
        solve(client)
        assert told(client.step("verify")) == ("incomplete", 0.1, False)
        assert told(client.step("done")) == ("episode_done", 0.0, True)


def test_final_only_ends_the_episode_with_its_first_certain_verdict(live: Any) -> None:
    with live.client() as client:
        begun = client.reset(scenario=TOY, task_idx=0, verify="final_only")
        assert "agent_plane" in begun["observation"]["metadata"]
        judged = client.step("verify", verifier_mode="sql")  # no judge: uncertain, so it goes on
        assert told(judged) == ("judge_error", 0.0, False)
        solve(client)
        ended = client.step("verify")
        assert told(ended) == ("complete", 1.0, True)
        assert "session_dir" not in ended["observation"]
        assert told(client.step("list_notes"))[0] == "episode_already_done"
        assert live.post(begun["observation"]["metadata"]["agent_plane"]["path"], {}).status_code == 404
        assert told(client.reset(scenario=TOY, task_idx=0))[0] == "reset_ok"


def test_final_only_goes_on_while_a_verdict_does_not_count(live: Any) -> None:
    live.world.source.policies[TOY, 0] = TaskPolicy(writable_tables=("notes",))  # which the toy cannot look at
    with live.client() as client:
        client.reset(scenario=TOY, task_idx=0, verify="final_only")
        answer = client.step("verify")
        assert told(answer) == ("judge_error", 0.0, False)
        assert answer["observation"]["metadata"] == {"reward_valid": False, "failure_owner": "verifier"}
        assert "could not be measured" in answer["observation"]["verify_result"]["error_message"]
        assert told(client.step("list_notes"))[0] == "tool_call_ok"


def test_final_only_keeps_the_session_where_asked(live: Any) -> None:
    with live.client() as client:
        client.reset(scenario=TOY, task_idx=0, verify="final_only")
        ended = client.step("verify", keep_session=True)["observation"]
        assert ended["session_dir"].startswith(str(live.keep_dir))
        assert ended["trajectory_path"] == ended["session_dir"] + "/trajectory.json"


def test_open_tells_how_things_stand_and_the_ledger_keeps_the_first(live: Any) -> None:
    with live.client() as client:
        client.reset(scenario=TOY, task_idx=0, verify="open")
        assert told(client.step("verify")) == ("incomplete", 0.1, False)
        solve(client)
        again = client.step("verify")
        assert told(again) == ("complete", 1.0, False)
        assert "a probe" in again["observation"]["warning"]
    first, second = live.world.ledger.submitted
    assert (first.reward, second.reward, first.key) == (0.1, 1.0, second.key)


def test_the_server_says_what_holds_where_a_reset_does_not(serving: Any) -> None:
    with serving(verify=VerifyPolicy.FINAL_ONLY) as live, live.client() as client:
        client.reset(scenario=TOY, task_idx=0)
        assert told(client.step("verify")) == ("incomplete", 0.1, True)
        client.reset(scenario=TOY, task_idx=0, verify="control_only")
        assert told(client.step("verify")) == ("incomplete", 0.1, False)


@pytest.mark.parametrize("policy", ["never", "", 1, ["open"]])
def test_an_unknown_policy_is_a_reset_error(live: Any, policy: Any) -> None:
    with live.client() as client:
        answer = client.reset(scenario=TOY, task_idx=0, verify=policy)["observation"]
        assert answer["reward_type"] == "reset_error"
        assert "verify" in answer["error"]
        assert "control_only" in answer["error"]


def test_rewards_of_a_reset_are_another_contract(live: Any) -> None:
    with live.client() as client:
        for config in (None, {"complete": 2.0}):
            client.reset(scenario=TOY, task_idx=0, reward_config=config, model_digest="m", attempt=config and 5)
            solve(client)
            client.step("verify")
    usual, other = live.world.ledger.submitted
    assert (usual.reward, other.reward) == (1.0, 2.0)
    assert usual.contract_digest != other.contract_digest
    assert usual.key.episode_id == other.key.episode_id


def test_an_attempt_that_was_scored_before_is_told_its_score(live: Any) -> None:
    with live.client() as client:
        for solved in (False, True):
            client.reset(scenario=TOY, task_idx=0, model_digest="m", attempt=4)
            if solved:
                solve(client)
            answer = client.step("verify")
            assert told(answer) == ("incomplete", 0.1, False)
        assert "scored before" in answer["observation"]["warning"]
    assert len(live.world.ledger.submitted) == 1


def test_hybrid_without_an_sql_verifier_is_decided_by_the_code(live: Any) -> None:
    with live.client() as client:
        client.reset(scenario=TOY, task_idx=3)
        assert told(client.step("verify", verifier_mode="hybrid", final_answer="42")) == ("complete", 1.0, False)


def test_a_reset_names_its_own_judge_and_the_key_is_told_nowhere(live: Any) -> None:
    key = "sk-canary-0123456789"
    with live.client() as client:
        begun = client.reset(
            scenario=TOY, task_idx=0, llm_base_url="http://127.0.0.1:1/v1", llm_api_key=key, llm_model="judge"
        )
        answer = client.step("verify", verifier_mode="sql")
        assert told(answer) == ("judge_error", 0.0, False)
        bad = client.reset(scenario=TOY, task_idx=0, llm_base_url="not a url", llm_api_key=key, llm_model="judge")
        assert bad["observation"]["reward_type"] == "reset_error"
        assert "base_url" in bad["observation"]["error"]
    assert key not in str((begun, answer, bad, live.world.ledger.submitted, live.log.messages))
