"""`AWMEnv` over OpenEnv's client plays calls that it is given: python play_calls.py URL JSON."""

import asyncio
import json
import sys

from quintain.clients import AWMEnv


async def main() -> None:
    url, asked = sys.argv[1], json.loads(sys.argv[2])
    async with AWMEnv(base_url=url) as env:
        started = await env.reset(**asked["reset"])
        for name, arguments in asked["calls"]:
            await env.call_tool(name, **arguments)
        verified = await env.verify(final_answer=asked["answer"])
        await env.done()
    told = verified.observation
    print(json.dumps({"task": started.observation.task, "verdict": told.reward_type, "reward": verified.reward}))


asyncio.run(main())
