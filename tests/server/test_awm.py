"""Agent World Model's envelope, class of exchange by class of exchange: codes, field names, types, absent keys."""

import json
import sqlite3
import stat
from pathlib import Path
from typing import Any

import pytest

TOY = "Toy Notes 1"
TASK = "Do what verifier count looks for."


def parts(answer: Any) -> tuple[Any, Any, Any]:
    """Observation without what Quintain adds, reward, done; the envelope has these three keys and no other."""
    assert set(answer) == {"observation", "reward", "done"}
    observation = {key: value for key, value in answer["observation"].items() if key != "metadata"}
    return observation, answer["reward"], answer["done"]


def refused(answer: Any, reward_type: str, *, reward: float | None, done: bool = False, **fields: Any) -> str:
    """Check an observation of only reward_type, error and the given fields; returns the error."""
    observation, paid, ended = parts(answer)
    error = observation.pop("error")
    assert observation == {"reward_type": reward_type, **fields}
    assert (paid, ended) == (reward, done)
    assert isinstance(error, str)
    return error


# before a reset


def test_steps_before_a_reset(live: Any) -> None:
    with live.client() as client:
        assert client.state() == {"episode_id": None, "step_count": 0}
        refused(client.step("list_notes"), "server_error", reward=0.0, tool_name="list_notes")
        refused(client.step("verify", verifier_mode="code"), "server_error", reward=0.0)
        observation, reward, done = parts(client.list_tools())
        assert (observation["tools"], reward, done) == ([], None, False)
        assert "reset" in observation["error"]
        refused(client.step("done"), "server_error", reward=0.0, done=True)
        refused(client.step("list_notes"), "episode_already_done", reward=None, done=True)


def test_the_scenarios_can_be_listed_before_a_reset(live: Any) -> None:
    with live.client() as client:
        observation, reward, done = parts(client.step("__list_scenarios__"))
        assert (reward, done) == (None, False)
        assert set(observation) == {"reward_type", "scenarios", "total"}
        assert (observation["reward_type"], observation["total"]) == ("tool_call_ok", 4)
        first = observation["scenarios"][0]
        assert set(first) == {"name", "description", "num_tasks", "tasks"}
        assert (first["name"], first["num_tasks"], first["tasks"][0]) == ("toy_notes_1", 8, TASK)


# reset


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ({}, "scenario"),
        ({"scenario": None}, "scenario"),
        ({"scenario": ""}, "scenario"),
        ({"scenario": 7}, "scenario"),
        ({"scenario": "nowhere_9"}, "nowhere_9"),
        ({"scenario": TOY, "task_idx": 99}, "99"),
        ({"scenario": TOY, "task_idx": -1}, "-1"),
        ({"scenario": TOY, "task_idx": "0"}, "task_idx"),
        ({"scenario": TOY, "task_idx": True}, "task_idx"),
        ({"scenario": TOY, "seed": -1}, "seed"),
        ({"scenario": TOY, "seed": 2**53}, "seed"),
        ({"scenario": TOY, "seed": "7"}, "seed"),
        ({"scenario": TOY, "seed": 0.5}, "seed"),
        ({"scenario": TOY, "episode_id": 5}, "episode_id"),
        ({"scenario": TOY, "attempt": -1}, "attempt"),
        ({"scenario": TOY, "model_digest": ""}, "model_digest"),
        ({"scenario": TOY, "task": ["x"]}, "task"),
        ({"scenario": TOY, "reward_config": [1]}, "reward_config"),
        ({"scenario": TOY, "reward_config": {"complete": "1"}}, "complete"),
        ({"scenario": TOY, "reward_config": {"completed": 1}}, "completed"),
        ({"scenario": TOY, "reward_config": {"complete": float("nan")}}, "nan"),
        ({"scenario": TOY, "task": "half \ud83d"}, "surrogate"),
        ({"scenario": "broken_3"}, "cannot be loaded"),
    ],
)
def test_a_reset_that_cannot_be_met_says_why_and_the_session_goes_on(live: Any, data: Any, says: str) -> None:
    with live.client() as client:
        assert says in refused(client.reset(**data), "reset_error", reward=None)
        assert client.state() == {"episode_id": None, "step_count": 0}
        assert client.reset(scenario=TOY)["observation"]["reward_type"] == "reset_ok"


def test_a_refused_key_does_not_come_back_in_the_error(live: Any) -> None:
    with live.client() as client:
        error = refused(client.reset(scenario=TOY, llm_api_key=["sk-secret"]), "reset_error", reward=None)
        assert "llm_api_key" in error
        assert "secret" not in error


def test_reset_with_a_task(live: Any) -> None:
    with live.client() as client:
        answer = client.reset(scenario=TOY, task_idx=0, seed=7, episode_id="label", attempt=3, model_digest="model-a")
        observation, reward, done = parts(answer)
        assert observation == {
            "reward_type": "reset_ok",
            "scenario": "toy_notes_1",
            "task": TASK,
            "task_idx": 0,
            "has_verifier": {"sql": True, "code": True},
            "num_tools": 11,
        }
        assert (reward, done) == (None, False)
        metadata = answer["observation"]["metadata"]
        assert metadata["environment_class_id"].startswith("sha256:")
        assert metadata["episode_id"].startswith("sha256:")
        assert (metadata["attempt"], metadata["model_digest"], metadata["start_kind"]) == (3, "model-a", "cold")
        assert metadata["ttfi_ms"] > 0
        assert client.state() == {"episode_id": "label", "step_count": 0}


def test_reset_without_a_task_is_open_ended(live: Any) -> None:
    with live.client() as client:
        observation, _, _ = parts(client.reset(scenario=TOY))
        assert observation == {"reward_type": "reset_ok", "scenario": "toy_notes_1", "num_tools": 11}
        assert len(client.state()["episode_id"]) == 36
        refused(client.step("verify"), "no_verifier", reward=0.0)


def test_a_custom_task_has_no_verifier(live: Any) -> None:
    with live.client() as client:
        observation, _, _ = parts(client.reset(scenario=TOY, task="Do as you like.", task_idx=0))
        assert "no verifier" in observation.pop("warning")
        assert observation == {
            "reward_type": "reset_ok",
            "scenario": "toy_notes_1",
            "task": "Do as you like.",
            "task_idx": 0,
            "num_tools": 11,
        }
        refused(client.step("verify"), "no_verifier", reward=0.0)


def test_a_task_without_sql_verifier_and_one_without_any(live: Any) -> None:
    with live.client() as client:
        assert parts(client.reset(scenario=TOY, task_idx=1))[0]["has_verifier"] == {"sql": False, "code": True}
        shown = {"scenario": "toy_notes_1", "task": "Do what verifier crash looks for.", "task_idx": 1}
        refused(client.step("verify", verifier_mode="sql"), "no_verifier", reward=0.0, **shown)
        bare = parts(client.reset(scenario="bare_2", task_idx=0))[0]
        assert "has_verifier" not in bare
        assert (bare["reward_type"], bare["num_tools"]) == ("reset_warning", 0)
        assert "no tools" in bare["warning"]


def test_unknown_reset_parameters_are_ignored_with_a_warning_and_null_is_absent(live: Any) -> None:
    with live.client() as client:
        observation, _, _ = parts(
            client.reset(scenario=TOY, task_idx=None, seed=None, reward_config=None, colour="blue", llm_model="judge")
        )
        assert observation["warning"] == "unknown reset parameters were ignored: 'colour'"


def test_whole_numbers_may_be_written_with_a_point(live: Any) -> None:
    with live.client() as client:
        client.send('{"type": "reset", "data": {"scenario": "toy_notes_1", "task_idx": 0.0, "seed": 7.0}}')
        first = client.receive()["data"]["observation"]
        second = client.reset(scenario=TOY, task_idx=0, seed=7)["observation"]
        assert first["task_idx"] == 0
        assert first["metadata"]["episode_id"] == second["metadata"]["episode_id"]
        assert (first["metadata"]["attempt"], second["metadata"]["attempt"]) == (0, 1)


def test_models_that_name_themselves_share_attempts_over_sessions(live: Any) -> None:
    attempts = []
    for model in ("m", "m", None, None):
        with live.client() as client:
            metadata = client.reset(scenario=TOY, model_digest=model)["observation"]["metadata"]
            attempts.append((metadata["model_digest"].split(":")[0], metadata["attempt"]))
    assert attempts == [("m", 0), ("m", 1), ("unknown", 0), ("unknown", 0)]


# an episode


def test_listing_tools(live: Any) -> None:
    with live.client() as client:
        client.reset(scenario=TOY)
        answer = client.list_tools()
        assert (answer["reward"], answer["done"]) == (None, False)
        assert set(answer["observation"]) == {"tools", "error"}
        assert answer["observation"]["error"] is None
        assert [set(tool) for tool in answer["observation"]["tools"]] == [{"name", "description", "input_schema"}] * 11


def test_a_call_that_works(live: Any) -> None:
    with live.client() as client:
        client.reset(scenario=TOY)
        observation, reward, done = parts(client.step("add_note", text="a"))
        assert observation == {"reward_type": "tool_call_ok", "tool_name": "add_note", "tool_result": '{"id": 2}'}
        assert (reward, done) == (0.0, False)
        assert isinstance(reward, float)


@pytest.mark.parametrize(
    ("tool", "arguments", "reward_type", "reward", "owner"),
    [
        ("no_such_tool", {}, "tool_not_found", -1.0, None),
        ("add_note", {}, "invalid_args", -1.0, None),
        ("add_note", {"text": float("nan")}, "invalid_args", -1.0, None),
        ("add_note", {"text": None}, "invalid_args", -1.0, None),
        ("get_note", {"note_id": 99}, "tool_error", 0.0, None),
        ("boom", {}, "server_error", 0.0, "environment"),
        ("die", {}, "server_error", 0.0, "environment"),
        ("large", {"size": 11 * 2**20}, "tool_error", 0.0, None),
    ],
)
def test_calls_that_fail(
    live: Any, tool: str, arguments: dict[str, Any], reward_type: str, reward: float, owner: str | None
) -> None:
    with live.client() as client:
        client.reset(scenario=TOY)
        answer = client.step(tool, **arguments)
        refused(answer, reward_type, reward=reward, tool_name=tool)
        assert answer["observation"].get("metadata", {}).get("failure_owner") == owner
        assert parts(client.step("list_notes"))[0]["reward_type"] == "tool_call_ok"


def test_half_a_surrogate_pair_never_comes_back(live: Any) -> None:
    with live.client() as client:
        client.reset(scenario=TOY)
        error = refused(client.step("\ud83d"), "tool_not_found", reward=-1.0, tool_name="\ufffd")
        assert "\ud83d" not in error
        refused(client.step("add_note", text="\ud83d"), "invalid_args", reward=-1.0, tool_name="add_note")
        odd = parts(client.step("shout", half=True))[0]
        assert odd["tool_result"] == "\ufffd"
        kept = parts(client.step("done", keep_session=True))[0]
        assert len(json.loads(Path(kept["trajectory_path"]).read_text())["trajectory"]) == 3


def test_a_call_may_say_how_long_it_may_take(live: Any) -> None:
    with live.client() as client:
        client.reset(scenario=TOY)
        refused(client.step("slow", {"timeout_s": 0.2}, seconds=2), "timeout", reward=0.0, tool_name="slow")
        after = parts(client.step("list_notes"))[0]
        assert "last committed" in after["warning"]
        odd = parts(client.step("list_notes", {"timeout_s": "soon"}))[0]
        assert "timeout_s" in odd["warning"]


def test_a_name_that_no_tool_can_have_is_not_kept(live: Any) -> None:
    with live.client() as client:
        client.reset(scenario=TOY)
        name = "x" * 2**20
        error = refused(client.step(name), "tool_not_found", reward=-1.0, tool_name="x" * 512 + "...")
        assert len(error) < 1000
        kept = parts(client.step("done", keep_session=True))[0]
        assert Path(kept["trajectory_path"]).stat().st_size < 10_000


def test_a_call_may_not_ask_for_more_time_than_the_server_gives(serving: Any) -> None:
    with serving(call_timeout_s=0.1, max_call_timeout_s=0.5) as live, live.client() as client:
        client.reset(scenario=TOY)
        answer, reward, _ = parts(client.step("slow", {"timeout_s": 3000}, seconds=4))
        assert (answer["reward_type"], reward) == ("timeout", 0.0)
        assert "within 0.5 s" in answer["error"]
        assert "cut to 0.5 s" in answer["warning"]
        assert "QUINTAIN_MAX_CALL_TIMEOUT" in answer["warning"]
        client.step("list_notes")
        within = parts(client.step("slow", {"timeout_s": 0.4}, seconds=0.2))[0]
        assert (within["reward_type"], within.get("warning")) == ("tool_call_ok", None)


def test_the_reward_config_of_a_reset_merges_and_does_not_outlive_the_episode(live: Any) -> None:
    with live.client() as client:
        client.reset(scenario=TOY, task_idx=0, reward_config={"format_error": -0.2, "incomplete": 0.5})
        assert client.step("no_such_tool")["reward"] == -0.2
        assert client.step("verify")["reward"] == 0.5
        client.reset(scenario=TOY, task_idx=0)
        assert client.step("no_such_tool")["reward"] == -1.0
        client.step("add_note", text="buy milk")
        assert client.step("verify")["reward"] == 1.0


# verify


def test_verify_and_its_steps(live: Any) -> None:
    with live.client() as client:
        client.reset(scenario=TOY, task_idx=0)
        client.list_tools()
        client.step("no_such_tool")
        client.step("add_note", text="buy milk")
        observation, reward, done = parts(client.step("verify", verifier_mode="code", final_answer="Done."))
        assert observation == {
            "reward_type": "complete",
            "scenario": "toy_notes_1",
            "task": TASK,
            "task_idx": 0,
            "verify_result": {
                "result": "complete",
                "execution_status": "success",
                "raw_result": {"result": "complete"},
            },
            "steps_taken": 4,
        }
        assert (reward, done) == (1.0, False)


def test_a_failed_verify_is_incomplete_keeps_its_word_and_cannot_be_raised(live: Any) -> None:
    with live.client() as client:
        client.reset(scenario=TOY, task_idx=0)
        observation, reward, _ = parts(client.step("verify"))
        assert (observation["reward_type"], reward) == ("incomplete", 0.1)
        assert observation["verify_result"]["result"] == "others"
        client.step("add_note", text="buy milk")
        again, reward, done = parts(client.step("verify", final_answer="Now?"))
        assert (again["reward_type"], reward, done, again["steps_taken"]) == ("incomplete", 0.1, False, 3)


def test_verify_in_a_mode_that_does_not_exist(live: Any) -> None:
    with live.client() as client:
        client.reset(scenario=TOY, task_idx=0)
        for mode in ("maybe", 5, None, ["code"]):
            refused(client.step("verify", verifier_mode=mode), "invalid_args", reward=-1.0)
        refused(client.step("verify", final_answer=float("nan")), "invalid_args", reward=-1.0)
        assert client.state()["step_count"] == 5


def test_sql_verification_is_a_judge_error_that_shows_no_rows(live: Any) -> None:
    with live.client() as client:
        client.reset(scenario=TOY, task_idx=0)
        client.step("add_note", text="buy milk")
        answer = client.step("verify", verifier_mode="sql")
        observation, reward, _ = parts(answer)
        assert (observation["reward_type"], reward) == ("judge_error", 0.0)
        assert set(observation["verify_result"]) == {"execution_status", "error_message"}
        assert "judge" in observation["verify_result"]["error_message"]
        assert answer["observation"]["metadata"] == {"reward_valid": False, "failure_owner": "verifier"}
        assert "milk" not in json.dumps(answer)
        assert parts(client.step("verify"))[1] == 1.0


@pytest.mark.parametrize("task_idx", [1, 2, 4, 5, 6, 7])
def test_a_verifier_that_fails_is_a_judge_error_and_the_reward_is_marked_invalid(live: Any, task_idx: int) -> None:
    with live.client() as client:
        client.reset(scenario=TOY, task_idx=task_idx)
        answer = client.step("verify")
        assert (answer["observation"]["reward_type"], answer["reward"]) == ("judge_error", 0.0)
        assert answer["observation"]["metadata"] == {"reward_valid": False, "failure_owner": "verifier"}


def test_a_final_answer_that_is_not_text_reaches_the_verifier_as_json(live: Any) -> None:
    with live.client() as client:
        client.reset(scenario=TOY, task_idx=3)
        observation, reward, _ = parts(client.step("verify", final_answer=42))
        assert (observation["reward_type"], reward) == ("complete", 1.0)
        assert "not a string" in observation["warning"]


# done


def test_done_ends_the_episode_and_leaves_nothing(live: Any) -> None:
    with live.client() as client:
        client.reset(scenario=TOY, task_idx=0, episode_id="e")
        client.list_tools()
        observation, reward, done = parts(client.step("done"))
        assert observation == {
            "reward_type": "episode_done",
            "scenario": "toy_notes_1",
            "task": TASK,
            "task_idx": 0,
            "steps_taken": 2,
        }
        assert (reward, done) == (0.0, True)
        assert live.world.provider.live == 0
        for answer in (client.step("list_notes"), client.list_tools(), client.step("done"), client.step("verify")):
            refused(answer, "episode_already_done", reward=None, done=True)
        assert client.state() == {"episode_id": "e", "step_count": 2}
        assert client.reset(scenario=TOY)["observation"]["reward_type"] == "reset_ok"
        assert client.state()["step_count"] == 0


def test_done_of_an_open_ended_episode(live: Any) -> None:
    with live.client() as client:
        client.reset(scenario=TOY)
        assert parts(client.step("done"))[0] == {
            "reward_type": "episode_done",
            "scenario": "toy_notes_1",
            "steps_taken": 1,
        }


def test_done_keeps_the_session_where_it_says(live: Any) -> None:
    with live.client() as client:
        client.reset(scenario=TOY, task_idx=0)
        client.step("add_note", text="buy milk")
        client.step("verify")
        observation, _, done = parts(client.step("done", keep_session=True))
        directory = Path(observation["session_dir"])
        assert (done, observation["steps_taken"]) == (True, 3)
        assert directory.parent == live.keep_dir
        assert stat.S_IMODE(directory.stat().st_mode) == 0o700
        assert observation["trajectory_path"] == str(directory / "trajectory.json")
        kept = json.loads((directory / "trajectory.json").read_text())
        assert (kept["scenario"], kept["task_idx"], kept["steps"]) == ("toy_notes_1", 0, 3)
        assert [step["action"] for step in kept["trajectory"]] == ["call_tool", "verify"]
        db = sqlite3.connect(directory / "toy_notes_1.db")
        assert ("buy milk",) in db.execute("SELECT text FROM notes").fetchall()
        db.close()
        assert {path.name for path in directory.iterdir()} == {
            *["server.log", "server.py", "toy_notes_1.db", "toy_notes_1_initial.db", "trajectory.json"]
        }


def test_a_database_that_became_a_link_is_not_kept_and_the_answer_says_so(live: Any) -> None:
    with live.client() as client:
        client.reset(scenario=TOY)
        client.step("shout", link=True)
        observation, _, done = parts(client.step("done", keep_session=True))
        assert done
        assert "no database was kept" in observation["warning"]
        assert "toy_notes_1.db" in observation["warning"]
        assert "toy_notes_1.db" not in {path.name for path in Path(observation["session_dir"]).iterdir()}


def test_keep_session_must_be_true_or_false(live: Any) -> None:
    with live.client() as client:
        client.reset(scenario=TOY)
        observation, _, done = parts(client.step("done", keep_session="false"))
        assert done
        assert "nothing was kept" in observation["warning"]
        assert "session_dir" not in observation


def test_when_nothing_can_be_kept_the_episode_ends_and_says_so(live: Any) -> None:
    with live.client() as client:
        live.keep_dir.write_text("a file stands where the directory should be")
        client.reset(scenario=TOY)
        observation, _, done = parts(client.step("done", keep_session=True))
        assert done
        assert "could not be kept" in observation["warning"]
        assert "session_dir" not in observation
        assert live.world.provider.live == 0


def test_a_reset_ends_the_episode_before_it(live: Any) -> None:
    with live.client() as client:
        client.reset(scenario=TOY)
        client.step("add_note", text="from the first episode")
        client.reset(scenario=TOY)
        assert live.world.provider.live == 1
        assert "first episode" not in client.step("list_notes")["observation"]["tool_result"]
        client.reset(scenario="nowhere")
        assert live.world.provider.live == 0
        refused(client.step("list_notes"), "server_error", reward=0.0, tool_name="list_notes")


def test_a_scenarios_own_tool_with_a_reserved_name_cannot_be_called_and_the_reset_says_so(live: Any) -> None:
    with live.client() as client:
        assert "done" in client.reset(scenario="reserved_4")["observation"]["warning"]
        assert [tool["name"] for tool in client.list_tools()["observation"]["tools"]] == ["echo", "done"]
        assert client.step("done")["observation"]["reward_type"] == "episode_done"
