"""A judge with its own clock and sleeps, before an endpoint that a test scripts."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from quintain.verifiers.judge import Judge
from quintain.verifiers.judging import Case, JudgeSettings, Judgment, NoJudgment
from verifiers.judge_server import MODEL, JudgeServer

KEY = "sk-canary-0f7d2c9a41b8"


@dataclass
class Bench:
    """An endpoint and a judge; `slept` are the waits between attempts, in which no time passes but the clock's."""

    server: JudgeServer
    judge: Judge
    slept: list[float] = field(default_factory=list)
    now: float = 1000.0

    def settings(self, **options: Any) -> JudgeSettings:
        return JudgeSettings(**{"base_url": self.server.url, "api_key": KEY, "model": MODEL, **options})

    async def ask(self, case: Case | None = None, **options: Any) -> Judgment | NoJudgment:
        return await self.judge.judge(self.settings(**options), case or a_case())

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds
        await asyncio.sleep(0)


def a_case(**fields: Any) -> Case:
    return Case(**{"task": "Add two sleeping bags.", "evidence": {"cart_after": [[3, 2]]}, **fields})


@asynccontextmanager
async def open_bench(**options: Any) -> AsyncIterator[Bench]:
    async with JudgeServer() as server:
        bench = Bench(server, None)  # type: ignore[arg-type]
        bench.judge = Judge(clock=lambda: bench.now, sleep=bench.sleep, rng=random.Random(7), **options)
        try:
            yield bench
        finally:
            await bench.judge.aclose()
