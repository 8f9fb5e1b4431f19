"""Runs in a peer's environment: plays whole episodes with one kind of client and prints what it saw as JSON.

python play.py URL {generic,public,own} {async,sync}
"""

import asyncio
import dataclasses
import inspect
import json
import sys
from collections.abc import Coroutine
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from openenv.core.env_server.mcp_types import CallToolAction
from openenv.core.generic_client import GenericEnvClient

sys.path.insert(0, str(Path(__file__).parent))

SCENARIO = "outdoor_marketplace_1"


async def settled(value: Any) -> Any:
    """An asynchronous client's answers have to be awaited, a synchronous one's are there."""
    return await value if inspect.isawaitable(value) else value


def without_a_loop(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine that awaits nothing real: a synchronous client must work where no event loop runs."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value
    raise AssertionError("a synchronous client gave something to await")


def plain(value: Any) -> Any:
    """Observations and results as JSON."""
    if hasattr(value, "model_dump"):
        return {key: plain(item) for key, item in value.model_dump().items() if item is not None}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return plain({field.name: getattr(value, field.name) for field in dataclasses.fields(value)})
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list | tuple) else value


def action(kind: str, tool: str, arguments: dict[str, Any]) -> Any:
    """A call of a tool as each client's `step` takes it."""
    if kind == "generic":
        return {"type": "call_tool", "tool_name": tool, "arguments": arguments}
    return CallToolAction(tool_name=tool, arguments=arguments)


async def play(env: Any, kind: str) -> dict[str, Any]:
    """One episode with everything a trainer does, and what comes after it."""

    async def step(tool: str, **arguments: Any) -> Any:
        return plain(await settled(env.step(action(kind, tool, arguments))))

    seen: dict[str, Any] = {}
    seen["reset"] = plain(await settled(env.reset(scenario=SCENARIO, task_idx=0, seed=7, episode_id="e-1")))
    if kind == "generic":
        seen["list"] = plain(await settled(env.step({"type": "list_tools"})))["observation"]["tools"]
    else:
        seen["list"] = plain(await settled(env.list_tools()))
        seen["called"] = plain(await settled(env.call_tool("list_products", search="Tarnlight")))
        seen["unknown"] = plain(await settled(env.call_tool("no_such_tool")))
    seen["add"] = await step("add_cart_item", product_id=3, quantity=2)
    seen["wrong"] = await step("add_cart_item", product_id="abc")
    seen["state"] = plain(await settled(env.state()))
    seen["verify"] = await step("verify", verifier_mode="code", final_answer="Added.")
    seen["done"] = await step("done")
    seen["after"] = await step("list_products")
    seen["again"] = plain(await settled(env.reset(scenario="Vet Clinic 1", task_idx=3)))
    seen["failed"] = await step("verify", verifier_mode="code")
    return seen


def client(kind: str, url: str) -> Any:
    """A client of that kind."""
    if kind == "generic":
        return GenericEnvClient(base_url=url)
    if kind == "public":
        from public_client import ScenarioClient

        return ScenarioClient(base_url=url)
    from quintain.clients import AWMEnv

    return AWMEnv(base_url=url)


async def asynchronous(kind: str, url: str) -> dict[str, Any]:
    """Play with `async with`."""
    async with client(kind, url) as env:
        return await play(env, kind)


def synchronous(kind: str, url: str) -> dict[str, Any]:
    """Play with `.sync()`."""
    with client(kind, url).sync() as env:
        seen: dict[str, Any] = without_a_loop(play(env, kind))
    return seen


def peer_version() -> str:
    """Which generation of OpenEnv this is."""
    try:
        return version("openenv")
    except PackageNotFoundError:
        return version("openenv-core")


def main() -> None:
    """Play every way asked for."""
    url, *ways = sys.argv[1:]
    played: dict[str, Any] = {"version": peer_version()}
    for way in ways:
        kind, manner = way.split("-")
        played[way] = asyncio.run(asynchronous(kind, url)) if manner == "async" else synchronous(kind, url)
    print(json.dumps(played))


if __name__ == "__main__":
    main()
