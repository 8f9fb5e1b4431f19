"""A client for Agent World Model environments over OpenEnv, asynchronous and `.sync()`; needs the extra `[openenv]`.

    async with AWMEnv(base_url="http://127.0.0.1:8899") as env:
        result = await env.reset(scenario="outdoor_marketplace_1", task_idx=0)
        tools = await env.list_tools()
        result = await env.act("list_products", search="tent")
        verdict = await env.verify(final_answer="Done.")
        await env.done()

The same code works with openenv 0.10 and openenv-core 0.3. Everything goes over the WebSocket, so that a session
has one channel and its answers one order.
"""

import os
from typing import Any

from openenv.core.client_types import StepResult  # type: ignore[import-not-found, unused-ignore]
from openenv.core.env_client import EnvClient  # type: ignore[import-not-found, unused-ignore]
from openenv.core.env_server.mcp_types import (  # type: ignore[import-not-found, unused-ignore]
    CallToolAction,
    ListToolsAction,
    Tool,
)
from openenv.core.env_server.types import Observation, State  # type: ignore[import-not-found, unused-ignore]
from pydantic import ConfigDict

_LLM_VARIABLES = {
    "llm_base_url": "OPENENV_AWM_LLM_BASE_URL",
    "llm_api_key": "OPENENV_AWM_LLM_API_KEY",
    "llm_model": "OPENENV_AWM_LLM_MODEL",
}


class AWMObservation(Observation):  # type: ignore[misc, unused-ignore]
    """What a reset or a step shows. A field that does not apply is None; `tools` is set after `list_tools` alone."""

    model_config = ConfigDict(extra="allow")

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
    scenarios: list[dict[str, Any]] | None = None
    total: int | None = None
    trajectory_path: str | None = None
    session_dir: str | None = None
    tools: list[Tool] | None = None

    @property
    def reward_valid(self) -> bool:
        """False when the reward says nothing of the agent, because the verifier or the platform failed."""
        return bool(self.metadata.get("reward_valid", True))


class AWMEnv(EnvClient[Any, AWMObservation, State]):  # type: ignore[misc, unused-ignore]
    """One session with a server. Takes the arguments of OpenEnv's `EnvClient`."""

    def __init__(self, base_url: str | None = None, **options: Any) -> None:
        """`base_url` defaults to AWM_BASE_URL, then to http://127.0.0.1:8899."""
        address = base_url or os.environ.get("AWM_BASE_URL") or "http://127.0.0.1:8899"
        super().__init__(base_url=address, **options)

    def reset(self, **parameters: Any) -> Any:
        """Begin an episode: scenario, task_idx, task, seed, episode_id, model_digest, attempt, reward_config.

        OPENENV_AWM_LLM_BASE_URL, _API_KEY and _MODEL of this process go with it where the call names none.
        """
        return super().reset(**_with_llm(parameters))

    async def _reset_async(self, **parameters: Any) -> Any:
        # openenv 0.10's synchronous wrapper calls this and not `reset`
        return await super()._reset_async(**_with_llm(parameters))

    async def list_tools(self) -> list[Tool]:
        """The tools of the running episode.

        Raises:
            RuntimeError: no episode is running.
        """
        result = await self._act(ListToolsAction())
        if result.observation.tools is None or result.observation.error:
            raise RuntimeError(result.observation.error or "the server gave no list of tools; reset the session")
        return list(result.observation.tools)

    async def act(self, tool_name: str, timeout_s: float | None = None, **arguments: Any) -> Any:
        """Call a tool: a StepResult. `timeout_s` is how long it may take on the server.

        An argument of the tool that is itself called tool_name or timeout_s goes through `step`.
        """
        metadata = {} if timeout_s is None else {"timeout_s": timeout_s}
        return await self._act(CallToolAction(tool_name=tool_name, arguments=arguments, metadata=metadata))

    async def call_tool(self, name: str, **arguments: Any) -> Any:
        """Call a tool: its observation."""
        return (await self._act(CallToolAction(tool_name=name, arguments=arguments))).observation

    async def verify(self, mode: str = "code", final_answer: str | None = None) -> Any:
        """Score the episode: a StepResult with reward, reward_type and verify_result. Does not end it."""
        arguments = {"verifier_mode": mode} | ({} if final_answer is None else {"final_answer": final_answer})
        return await self._act(CallToolAction(tool_name="verify", arguments=arguments))

    async def done(self, keep_session: bool = False) -> Any:
        """End the episode: a StepResult; with keep_session its observation says where the files are."""
        return await self._act(CallToolAction(tool_name="done", arguments={"keep_session": keep_session}))

    async def list_scenarios(self) -> list[dict[str, Any]]:
        """Every scenario of the server: name, description, num_tasks, tasks."""
        result = await self._act(CallToolAction(tool_name="__list_scenarios__"))
        return list(result.observation.scenarios or [])

    async def _act(self, action: ListToolsAction | CallToolAction) -> Any:
        answer = await self._send_and_receive({"type": "step", "data": self._step_payload(action)})
        return self._parse_result(answer.get("data", {}))

    def _step_payload(self, action: Any) -> dict[str, Any]:
        if isinstance(action, dict):
            return action
        payload: dict[str, Any] = action.model_dump()
        return payload

    def _parse_result(self, payload: dict[str, Any]) -> Any:
        fields = payload.get("observation", {})
        reward, done = payload.get("reward"), bool(payload.get("done", False))
        observation = AWMObservation(**{**fields, "reward": reward, "done": done})
        return StepResult(observation=observation, reward=reward, done=done)

    def _parse_state(self, payload: dict[str, Any]) -> State:
        return State(**payload)


def _with_llm(parameters: dict[str, Any]) -> dict[str, Any]:
    """The parameters, with the judge's settings of this process where they are set and not given."""
    given = {name: os.environ[variable] for name, variable in _LLM_VARIABLES.items() if os.environ.get(variable)}
    return given | parameters
