"""Observations as they travel over OpenEnv: the fields of Agent World Model's environment, and the state.

Source: the exchanges of Agent World Model's public server. A field that does not apply is absent, not null,
because OpenEnv's generic client chooses how to read an observation by which keys are there.
"""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from quintain.contracts.tools import Tool

JsonObject = dict[str, Any]


class AwmObservation(BaseModel):
    """What a reset or a step shows. Fields that are None do not travel."""

    model_config = ConfigDict(frozen=True, extra="forbid", title="AWMObservation")

    done: bool = Field(default=False, description="Whether the episode is over")
    reward: bool | int | float | None = Field(default=None, description="Reward of this step, null when it has none")
    metadata: JsonObject = Field(
        default_factory=dict,
        description="What Quintain adds: ids, attempt, start kind, times, agent_plane, reward_valid, failure_owner",
    )
    reward_type: str | None = Field(default=None, description="What happened, in one word; the reward map reads it")
    scenario: str | None = Field(default=None, description="Normalised name of the episode's scenario")
    task: str | None = Field(default=None, description="Text of the task to be done")
    task_idx: int | None = Field(default=None, description="Index of the task within its scenario")
    has_verifier: JsonObject | bool | None = Field(
        default=None,
        description="Which verifier modes the task has: {sql: bool, code: bool}",
    )
    num_tools: int | None = Field(default=None, description="How many tools the episode offers")
    tool_name: str | None = Field(default=None, description="The tool that was called")
    tool_result: Any = Field(default=None, description="What the tool answered, as text")
    error: str | None = Field(default=None, description="What went wrong and what to do")
    warning: str | None = Field(default=None, description="What the caller should know though nothing failed")
    verify_result: JsonObject | None = Field(default=None, description="The verifier's result, with its own word")
    steps_taken: int | None = Field(default=None, description="Step messages since the reset, failed ones included")
    scenarios: list[Any] | None = Field(default=None, description="Every scenario with its description and tasks")
    total: int | None = Field(default=None, description="How many scenarios there are")
    trajectory_path: str | None = Field(default=None, description="File with the kept trajectory")
    session_dir: str | None = Field(default=None, description="Directory with what was kept of the episode")

    def envelope(self) -> JsonObject:
        """`{observation, reward, done}`, as it travels."""
        fields = {
            name: value
            for name in _OBSERVATION_FIELDS
            if (value := getattr(self, name)) is not None and not (name == "metadata" and not value)
        }
        return {"observation": fields, "reward": self.reward, "done": self.done}


_OBSERVATION_FIELDS = tuple(name for name in AwmObservation.model_fields if name not in ("done", "reward"))


class AwmListToolsObservation(BaseModel):
    """The tools of an episode. `error` is null when there is none: here the key always travels."""

    model_config = ConfigDict(frozen=True, extra="forbid", title="AWMListToolsObservation")

    done: bool = Field(default=False, description="Whether the episode is over")
    reward: bool | int | float | None = Field(default=None, description="Always null: listing tools pays nothing")
    metadata: JsonObject = Field(default_factory=dict, description="What Quintain adds, when there is something")
    tools: tuple[Tool, ...] = Field(description="The tools with their descriptions and input schemas")
    error: str | None = Field(default=None, description="Why there is no list")

    def envelope(self) -> JsonObject:
        """`{observation, reward, done}`, as it travels."""
        tools = [
            {
                "name": tool.name,
                "description": tool.description,
                "input_schema": tool.input_schema,
            }
            for tool in self.tools
        ]
        fields: JsonObject = {"tools": tools, "error": self.error}
        if self.metadata:
            fields["metadata"] = self.metadata
        return {"observation": fields, "reward": self.reward, "done": self.done}


class State(BaseModel):
    """OpenEnv's state of a session. Other environments may add fields, so readers must bear them."""

    model_config = ConfigDict(frozen=True, extra="allow")

    episode_id: str | None = Field(default=None, description="The client's label of the episode, echoed")
    step_count: int = Field(default=0, ge=0, description="Step messages since the reset")
