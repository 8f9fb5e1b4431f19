"""Runs in a peer's environment: a client that outlives its server. Reads a line before it goes on.

python reconnect.py URL
"""

import asyncio
import json
import sys
from typing import Any

from openenv.core.generic_client import GenericEnvClient

from quintain.clients import AWMEnv


def tell(**what: Any) -> None:
    """Print one line of JSON."""
    print(json.dumps(what), flush=True)


async def reset(env: Any) -> str:
    """Reset and say how that went."""
    result = await env.reset(scenario="vet_clinic_1", task_idx=3)
    observation = result.observation
    return str(observation["reward_type"] if isinstance(observation, dict) else observation.reward_type)


async def main() -> None:
    """Reset, wait until the server was restarted, reset again: at the first try, or after the client was closed."""
    url = sys.argv[1]
    envs = {"generic": GenericEnvClient(base_url=url), "own": AWMEnv(base_url=url)}
    tell(**{kind: await reset(env) for kind, env in envs.items()})
    await asyncio.to_thread(sys.stdin.readline)
    second: dict[str, list[str]] = {}
    for kind, env in envs.items():
        second[kind] = []
        try:
            second[kind].append(await reset(env))
        except Exception as error:
            await env.close()
            second[kind] += [type(error).__name__, await reset(env)]
        await env.close()
    tell(**second)


if __name__ == "__main__":
    asyncio.run(main())
