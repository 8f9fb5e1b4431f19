"""One episode: reset, list the tools, call two of them, verify, done. Start `quintain serve` first."""

import asyncio
import os

from quintain.clients import AWMEnv

URL = os.environ.get("AWM_BASE_URL", "http://localhost:8899")


async def main() -> None:
    async with AWMEnv(base_url=URL) as env:
        result = await env.reset(scenario="outdoor_marketplace_1", task_idx=0)
        print("task:", result.observation.task)
        tools = await env.list_tools()
        print(len(tools), "tools, the first is", tools[0].name)
        await env.call_tool("list_products", search="Tarnlight")
        observation = await env.call_tool("add_cart_item", product_id=3, quantity=2)
        print("cart:", observation.tool_result)
        verdict = await env.verify(final_answer="Added.")
        print("verdict:", verdict.observation.reward_type, verdict.reward)
        result = await env.done()
        print("done:", result.done)


asyncio.run(main())
