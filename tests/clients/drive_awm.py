"""Runs in a peer's environment: drives `AWMEnv` and OpenEnv's own clients, prints what they saw as JSON.

python drive_awm.py URL {async,sync,generic,mcp}
"""

import asyncio
import json
import sys
from collections.abc import Callable
from typing import Any

from openenv.core.generic_client import GenericEnvClient

from quintain.clients import AWMEnv

SCENARIO = "toy_notes_1"


def seen(result: Any) -> dict[str, Any]:
    observation = result.observation
    return {"type": observation.reward_type, "reward": result.reward, "done": result.done, "error": observation.error}


async def asynchronous(url: str) -> Any:
    async with AWMEnv(base_url=url) as env:
        scenarios = await env.list_scenarios()
        started = await env.reset(scenario=SCENARIO, task_idx=0, episode_id="label")
        tools = await env.list_tools()
        bought = await env.act("add_note", text="buy milk")
        slow = await env.act("slow", timeout_s=0.2, seconds=2)
        observed = await env.call_tool("list_notes")
        verified = await env.verify(final_answer="Done.")
        state = await env.state()
        ended = await env.done()
        return {
            "scenarios": [scenario["name"] for scenario in scenarios],
            "started": seen(started),
            "metadata": started.observation.metadata,
            "tools": [tool.name for tool in tools],
            "steps": [seen(bought), seen(slow), seen(verified), seen(ended)],
            "warning": observed.warning,
            "notes": observed.tool_result,
            "valid": verified.observation.reward_valid,
            "state": [state.episode_id, state.step_count],
        }


def synchronous(url: str) -> Any:
    with AWMEnv(base_url=url).sync() as env:
        started = env.reset(scenario=SCENARIO, task_idx=1)
        tools = env.list_tools()
        verified = env.verify()
        ended = env.done()
        try:
            env.list_tools()
        except RuntimeError as error:
            refused = str(error)
        return {
            "tools": len(tools),
            "metadata": started.observation.metadata,
            "steps": [seen(started), seen(verified), seen(ended)],
            "valid": verified.observation.reward_valid,
            "refused": refused,
        }


def generic(url: str) -> Any:
    with GenericEnvClient(base_url=url).sync() as env:
        started = env.reset(scenario=SCENARIO, task_idx=0)
        tools = env.step({"type": "list_tools"})
        called = env.step({"type": "call_tool", "tool_name": "add_note", "arguments": {"text": "buy milk"}})
        verified = env.step({"type": "call_tool", "tool_name": "verify", "arguments": {}})
        state = env.state()
        try:
            env.step({"type": "dance"})
        except RuntimeError as error:
            refused = str(error)
        ended = env.step({"type": "call_tool", "tool_name": "done", "arguments": {}})
        return {
            "started": started.observation["reward_type"],
            "tools": len(tools.observation["tools"]),
            "called": [called.observation["reward_type"], called.reward, called.done],
            "verified": [verified.observation["reward_type"], verified.reward],
            "state": state["step_count"],
            "refused": refused,
            "ended": ended.done,
        }


async def over_mcp(url: str) -> Any:
    from openenv.core.client_types import StepResult
    from openenv.core.mcp_client import MCPToolClient

    class Thin(MCPToolClient):
        """Keeps observations as they travel, as a subclass for this environment would."""

        def _parse_result(self, payload: dict[str, Any]) -> Any:
            return StepResult(payload["observation"], payload.get("reward"), payload.get("done", False))

    async with Thin(base_url=url) as env:
        started = await env.reset(scenario=SCENARIO, task_idx=0)
        tools = await env.list_tools()
        called = await env.call_tool("add_note", text="buy milk")
        missing = await env.call_tool("no_such_tool")
        verified = await env.call_tool("verify")
        scenarios = await env.call_tool("__list_scenarios__")
        ended = await env.call_tool("done")
        return {
            "started": started.observation["reward_type"],
            "tools": [tool.name for tool in tools],
            "schema": tools[1].input_schema,
            "called": called,
            "missing": missing["reward"],
            "verified": [verified["reward_type"], verified["reward"], verified["steps_taken"]],
            "total": scenarios["total"],
            "ended": [ended["reward_type"], ended["done"]],
        }


def main() -> None:
    url, *ways = sys.argv[1:]
    known: dict[str, Callable[[], Any]] = {
        "async": lambda: asyncio.run(asynchronous(url)),
        "sync": lambda: synchronous(url),
        "generic": lambda: generic(url),
        "mcp": lambda: asyncio.run(over_mcp(url)),
    }
    print(json.dumps({way: known[way]() for way in ways}))


if __name__ == "__main__":
    main()
