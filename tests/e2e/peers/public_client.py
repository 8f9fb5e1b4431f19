"""An AWM client as a user of OpenEnv writes one: `MCPToolClient` with typed observations that refuse unknown fields."""

from typing import Any

from openenv.core.client_types import StepResult
from openenv.core.env_server.mcp_types import ListToolsObservation
from openenv.core.env_server.types import Observation
from openenv.core.mcp_client import MCPToolClient
from pydantic import ConfigDict


class ScenarioObservation(Observation):
    """Every field a scenario's observation may have, and none besides."""

    model_config = ConfigDict(extra="forbid")

    reward_type: str | None = None
    scenario: str | None = None
    task: str | None = None
    task_idx: int | None = None
    has_verifier: dict[str, bool] | None = None
    num_tools: int | None = None
    tool_name: str | None = None
    tool_result: Any = None
    error: str | None = None
    warning: str | None = None
    verify_result: dict[str, Any] | None = None
    steps_taken: int | None = None
    scenarios: list[Any] | None = None
    total: int | None = None
    trajectory_path: str | None = None
    session_dir: str | None = None


class ScenarioToolList(ListToolsObservation):
    """The tool list, which may carry an error."""

    model_config = ConfigDict(extra="forbid")

    error: str | None = None


class ScenarioClient(MCPToolClient):
    """Keeps every field of an observation."""

    def _parse_result(self, payload: dict[str, Any]) -> StepResult[Any]:
        fields = payload.get("observation", {})
        model = ScenarioToolList if "tools" in fields else ScenarioObservation
        return StepResult(observation=model(**fields), reward=payload.get("reward"), done=payload.get("done", False))
