"""Scoring: the first certain verdict is the score, whatever is done and asked afterwards."""

import pytest

from e2e.serving import Server
from e2e.wire import Wire

pytestmark = pytest.mark.xdist_group("e2e-pack")


def test_a_second_verify_returns_the_first_verdict(wire: Wire) -> None:
    wire.reset("outdoor_marketplace_1", 0)
    first = wire.call("verify", verifier_mode="code", final_answer="Nothing yet.")
    assert (first["reward"], first["observation"]["reward_type"], first["done"]) == (0.1, "incomplete", False)
    assert first["observation"]["verify_result"]["result"] == "others"
    wire.value("add_cart_item", product_id=3, quantity=2)
    second = wire.call("verify", verifier_mode="code", final_answer="Added.")
    assert (second["reward"], second["observation"]["reward_type"]) == (0.1, "incomplete")
    assert second["observation"]["verify_result"] == first["observation"]["verify_result"]
    assert second["observation"]["steps_taken"] == 3


def test_undoing_the_work_after_the_verdict_changes_nothing(wire: Wire) -> None:
    wire.reset("outdoor_marketplace_1", 0)
    added = wire.value("add_cart_item", product_id=3, quantity=2)
    assert wire.call("verify")["reward"] == 1.0
    wire.seen("remove_cart_item", cart_item_id=added["id"])
    assert wire.call("verify")["reward"] == 1.0


def test_an_sql_verify_needs_a_judge_and_says_so(wire: Wire) -> None:
    wire.reset("outdoor_marketplace_1", 0)
    wire.value("add_cart_item", product_id=3, quantity=2)
    judged = wire.call("verify", verifier_mode="sql")
    assert (judged["reward"], judged["observation"]["reward_type"]) == (0.0, "judge_error")
    assert judged["observation"]["metadata"]["reward_valid"] is False
    assert judged["observation"]["metadata"]["failure_owner"] == "verifier"
    assert "judge" in judged["observation"]["verify_result"]["error_message"]
    assert "before" not in str(judged["observation"]["verify_result"])  # no rows leak
    certain = wire.call("verify", verifier_mode="code")
    assert (certain["reward"], certain["observation"]["reward_type"]) == (1.0, "complete")
    assert "metadata" not in certain["observation"]


def test_rewards_may_be_set_in_part_at_reset(wire: Wire) -> None:
    wire.reset("outdoor_marketplace_1", 0, reward_config={"incomplete": 0.5, "format_error": -0.2})
    assert wire.call("no_such_tool")["reward"] == -0.2
    assert wire.call("verify")["reward"] == 0.5
    wire.reset("outdoor_marketplace_1", 0, reward_config={"complete": 5})
    wire.value("add_cart_item", product_id=3, quantity=2)
    assert wire.call("verify")["reward"] == 5.0
    wire.reset("outdoor_marketplace_1", 0)
    assert wire.call("no_such_tool")["reward"] == -1.0  # of the next episode nothing is left


def test_without_a_task_there_is_nothing_to_verify(wire: Wire) -> None:
    assert "has_verifier" not in wire.reset("outdoor_marketplace_1")
    assert wire.seen("verify")["reward_type"] == "no_verifier"
    observation = wire.reset("outdoor_marketplace_1", task="Buy something nice.")
    assert observation["task"] == "Buy something nice."
    assert wire.seen("verify")["reward_type"] == "no_verifier"
    wire.reset("outdoor_marketplace_1", 0)
    wrong = wire.call("verify", verifier_mode="maybe")
    assert (wrong["reward"], wrong["observation"]["reward_type"]) == (-1.0, "invalid_args")


def test_done_ends_and_never_scores(wire: Wire, server: Server) -> None:
    wire.reset("outdoor_marketplace_1", 0)
    wire.value("add_cart_item", product_id=3, quantity=2)
    done = wire.call("done")
    assert (done["reward"], done["done"], done["observation"]["reward_type"]) == (0.0, True, "episode_done")
    assert "verify_result" not in done["observation"]
    assert "trajectory_path" not in done["observation"]
    for tool in ("list_products", "verify", "done", "__list_scenarios__"):
        after = wire.call(tool)
        assert (after["reward"], after["done"]) == (None, True)
        assert after["observation"]["reward_type"] == "episode_already_done"
    listing = wire.ask({"type": "step", "data": {"type": "list_tools"}})["data"]
    assert listing["observation"]["reward_type"] == "episode_already_done"
    wire.reset("outdoor_marketplace_1", 0)
    assert wire.call("verify")["observation"]["reward_type"] == "incomplete"


def test_before_a_reset_every_step_says_what_to_do(wire: Wire) -> None:
    for tool in ("list_products", "verify"):
        answer = wire.call(tool)
        assert (answer["reward"], answer["done"]) == (0.0, False)
        assert answer["observation"]["reward_type"] == "server_error"
        assert "reset" in answer["observation"]["error"]
    listed = wire.call("__list_scenarios__")["observation"]
    assert listed["total"] == 5
    assert {one["name"]: one["num_tasks"] for one in listed["scenarios"]}["outdoor_marketplace_1"] == 10
