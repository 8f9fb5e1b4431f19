"""Measure what the rollout engine adds to a step: `python benchmarks/rollout.py`, or as JSON too: `--json path`.

The same calls are made on a bare `DatabaseEnvironment` and by an agent in a rollout, in turn, round about, in one
process and on one sandbox at a time, so that both meet the same machine. What an attempt costs beside its steps
(start, verification, record) is told apart from what each step costs. Medians over `--repeat` runs; what is added to a
step is the median over the rounds of the difference within each. Nothing here is asserted.
"""

import argparse
import asyncio
import itertools
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import uvloop
from measuring import SCENARIO, Figures, calls, conditions, medians, percentile, report

from quintain.cli import options
from quintain.contracts.tools import CallToolAction, Tool
from quintain.environments.base import ToolOutcome
from quintain.episodes import Agent, Rooms
from quintain.episodes.assembly import open_rooms
from quintain.episodes.driving import WallTime
from quintain.records.recorder import Recorder
from quintain.records.redaction import Redactor
from quintain.records.spool import Spool
from quintain.rollout import AttemptLimits, EventLog, PlannedTask, Rollout, RolloutPlan, WorkItem
from quintain.tasks import open_pack


class Stopwatch:
    """An agent that makes the calls of the mix, and notes when it was asked for each."""

    def __init__(self, steps: int) -> None:
        self.final_answer: str | None = None
        self.asked: list[float] = []
        self.worked: list[float] = []
        self._steps = steps

    async def act(self, tools: Sequence[Tool], last: ToolOutcome | None) -> CallToolAction | None:
        """The next call."""
        self.asked.append(time.perf_counter())
        self.worked.append(time.process_time())
        if len(self.asked) > self._steps:
            return None
        name, arguments = calls(len(self.asked) - 1)
        return CallToolAction(tool_name=name, arguments=arguments)

    @property
    def steps_ms(self) -> list[float]:
        """From each question to the next: a step, with all that is done about it."""
        return _between(self.asked)

    @property
    def work_ms(self) -> list[float]:
        """The platform's processor time of each step; that of the sandbox is not in it."""
        return _between(self.worked)


def _between(moments: Sequence[float]) -> list[float]:
    return [(after - before) * 1e3 for before, after in itertools.pairwise(moments)]


class Watched:
    """Gives every attempt a stopwatch."""

    def __init__(self, steps: int) -> None:
        self.agents: list[Stopwatch] = []
        self._steps = steps

    def agent(self, item: WorkItem, task: str, episode: str, wall: WallTime) -> Agent:
        """A new agent."""
        self.agents.append(Stopwatch(self._steps))
        return self.agents[-1]


async def bare(rooms: Rooms, steps: int) -> Stopwatch:
    """The steps on an environment alone."""
    source = rooms.source
    kind = rooms.kind(source.scenario(SCENARIO).kind)
    prepared = await kind.prepare(source.payload_digest(SCENARIO), lambda: source.payload(SCENARIO))
    environment = prepared.environment()
    await environment.reset(0)
    agent = Stopwatch(steps)
    outcome: ToolOutcome | None = None
    while (action := await agent.act(environment.tools, outcome)) is not None:
        outcome = await environment.call(action.tool_name, action.arguments, 30.0)
    await environment.close()
    return agent


async def rolled(rooms: Rooms, folder: Path, steps: int, seed: int, attempts: int = 1) -> tuple[Stopwatch, float]:
    """The steps of the first attempt within a rollout, and the milliseconds of the rollout as a whole."""
    plan = RolloutPlan(
        tasks=(PlannedTask(scenario=SCENARIO, task_idx=0, seed=seed),),
        attempts=attempts,
        limits=AttemptLimits(max_steps=steps),
    )
    casting, spool = Watched(steps), Spool.open(folder / "spool")
    try:
        with EventLog(folder / "events.jsonl") as log:
            began = time.perf_counter()
            await Rollout(plan, rooms, casting, Recorder(spool, Redactor(), rooms.run), log.tell).run()
            whole = (time.perf_counter() - began) * 1e3
    finally:
        spool.close()
    return casting.agents[0], whole


async def measured(steps: int, rounds: int) -> Figures:
    """Both, in turn."""
    with open_pack() as source, tempfile.TemporaryDirectory() as folder:
        settings = replace(options.assembly(options.settings_with()), ledger=Path(folder) / "ledger.db")
        async with open_rooms(source, settings) as rooms:
            await bare(rooms, steps)
            await rolled(rooms, Path(folder), steps, 0)
            alone: list[float] = []
            within: list[float] = []
            added: list[float] = []
            worked: list[float] = []
            wholes: list[float] = []
            for number in range(rounds):
                without = await bare(rooms, steps)
                found, whole = await rolled(rooms, Path(folder), steps, number + 1)
                alone += without.steps_ms
                within += found.steps_ms
                added.append(statistics.median(found.steps_ms) - statistics.median(without.steps_ms))
                worked.append(statistics.median(found.work_ms) - statistics.median(without.work_ms))
                wholes.append(whole - sum(found.steps_ms))
            began = time.perf_counter()
            await rolled(rooms, Path(folder), 5, rounds + 1, attempts=4 * rounds)
            together = 4 * rounds / (time.perf_counter() - began)
    return {
        "a step on the bare environment p50 (ms)": statistics.median(alone),
        "a step in a rollout p50 (ms)": statistics.median(within),
        "what a rollout adds to a step p50 (ms)": statistics.median(added),
        "of it the platform's processor time p50 (ms)": statistics.median(worked),
        "what a rollout adds to a step p95 (ms)": percentile(within, 0.95) - percentile(alone, 0.95),
        "an attempt beside its steps p50 (ms)": statistics.median(wholes),
        "attempts of 5 steps a second, 16 at a time": together,
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=50, help="of one attempt")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--repeat", type=int, default=3, help="runs, of which the medians are told")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    described = conditions(steps=given.steps, rounds=given.rounds, runs=given.repeat, scenario=SCENARIO)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runs = [runner.run(measured(given.steps, given.rounds)) for _ in range(given.repeat)]
    report(medians(runs), described, {}, given.json, {"runs": runs})


if __name__ == "__main__":
    main()
