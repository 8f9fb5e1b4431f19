"""The plain HTTP routes."""

from collections.abc import Callable
from typing import Any

import pytest

from quintain import __version__


def test_health_metadata_and_state(live: Any) -> None:
    assert live.get("/health").json() == {"status": "healthy"}
    metadata = live.get("/metadata").json()
    assert set(metadata) == {"name", "description", "readme_content", "version", "author", "documentation_url"}
    assert (type(metadata["name"]), type(metadata["description"]), metadata["version"]) == (str, str, __version__)
    assert live.get("/state").json() == {"episode_id": None, "step_count": 0}


@pytest.mark.parametrize("path", ["/reset", "/step"])
@pytest.mark.parametrize("body", [{}, "{bad", {"action": {"type": "list_tools"}}])
def test_episodes_are_not_played_over_http(live: Any, path: str, body: Any) -> None:
    response = live.post(path, body)
    assert response.status_code == 400
    answer = response.json()
    assert set(answer) == {"error", "reason", "solution", "examples"}
    assert "/ws" in answer["solution"]
    assert all(isinstance(example, str) for example in answer["examples"])


def test_schema(live: Any) -> None:
    schema = live.get("/schema").json()
    assert set(schema) == {"action", "observation", "state"}
    action = schema["action"]
    assert action["discriminator"]["propertyName"] == "type"
    assert set(action["$defs"]) == {"CallToolAction", "ListToolsAction"}
    assert action["$defs"]["CallToolAction"]["required"] == ["tool_name"]
    assert action["$defs"]["CallToolAction"]["additionalProperties"] is False
    observation = schema["observation"]
    assert (observation["title"], observation["additionalProperties"]) == ("AWMObservation", False)
    assert list(observation["properties"]) == [
        *["done", "reward", "metadata", "reward_type", "scenario", "task", "task_idx", "has_verifier", "num_tools"],
        *["tool_name", "tool_result", "error", "warning", "verify_result", "steps_taken", "scenarios", "total"],
        *["trajectory_path", "session_dir"],
    ]
    assert [part["type"] for part in observation["properties"]["reward"]["anyOf"]] == [
        *["boolean", "integer", "number", "null"]
    ]
    assert [part["type"] for part in observation["properties"]["has_verifier"]["anyOf"]] == [
        *["object", "boolean", "null"]
    ]
    assert all("description" in field for field in observation["properties"].values())
    state = schema["state"]
    assert (state["additionalProperties"], set(state["properties"])) == (True, {"episode_id", "step_count"})
    assert state["properties"]["step_count"]["minimum"] == 0


def test_openapi_names_every_route_once(live: Any) -> None:
    document = live.get("/openapi.json").json()
    assert isinstance(document["info"]["version"], str)
    assert sorted(document["paths"]) == [
        *["/health", "/list_environments", "/mcp", "/metadata", "/metrics", "/reset", "/schema", "/state", "/stats"],
        *["/step", "/{env_name}/num_tasks", "/{env_name}/splits", "/{env_name}/task", "/{env_name}/task_range"],
        "/{env_name}/tasks",
    ]
    operations = [operation for path in document["paths"].values() for operation in path.values()]
    assert len({operation["operationId"] for operation in operations}) == len(operations)


def test_stats_count_running_episodes(serving: Callable[..., Any]) -> None:
    with serving(max_idle_time_s=60.0, allowed_idle_sessions=5, cleanup_interval_s=2.0) as live:
        empty = live.get("/stats").json()
        assert set(empty.pop("quintain")) == {
            *["sessions", "live", "hibernated", "queued", "available_memory_bytes"],
            *["hibernations", "failed_hibernations", "counts", "timings_ms", "records"],
        }
        assert empty == {
            "total_sessions": 0,
            "max_idle_time_config": 60.0,
            "cleanup_interval_config": 2.0,
            "allowed_idle_sessions_config": 5,
            "max_idle_s": 0,
            "scenarios": {},
        }
        with live.client(), live.client() as client:
            client.reset(scenario="toy_notes_1")
            stats = live.get("/stats").json()
            assert (stats["total_sessions"], stats["scenarios"]) == (1, {"toy_notes_1": 1})
            assert 0 <= stats["max_idle_s"] < 60
            assert (stats["quintain"]["sessions"], stats["quintain"]["live"]) == (2, 1)


def test_what_is_not_there(live: Any) -> None:
    assert live.get("/nothing").status_code == 404
    assert live.get("/reset").status_code == 405
