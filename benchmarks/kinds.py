"""Each kind of environment beside the others: how soon an episode is ready, steps a second, memory of an idle one.

One scenario of each kind, of the shipped packs, in process and with a ledger in memory. A step is the first call of the
reference solution, again and again; time to first instruction is the lifecycle's, of episodes on a payload that is
ready, four attempts to each seed. What is verified has not been touched, a workspace with its hidden tests. Memory is
what is private to the processes of an idle episode, and what this process grows by. A workspace's start grows with its
tree: it is measured with larger ones too, made here.
"""

import argparse
import asyncio
import statistics
import tempfile
import time
from pathlib import Path

from measuring import Figures, conditions, episode_processes, percentile, private_mib, report

from quintain.cli import options
from quintain.contracts.timing import ttfi_ms
from quintain.episodes import Episode, EpisodeRequest, Rooms
from quintain.episodes.assembly import open_rooms
from quintain.tasks import shipped_packs

KINDS = ("mock", "simulator", "database", "python", "workspace")
ATTEMPTS = 4
"""Attempts at a task with one seed."""
VERIFIED = 15
"""Episodes of each kind that are verified."""
TREES = (100, 1000)
"""Files of the larger trees."""

_PACK = "apiVersion: quintain.dev/v1alpha1\nkind: Pack\nname: trees\ntitle: Trees\nlicence: Apache-2.0\n"
_TASKS = """
- name: look
  text: Look.
  solution: [{tool: read, arguments: {path: folder_0/file_0.txt}}]
  answer: Seen.
  verify: verify_look
"""
_VERIFIER = "def verify_look(final_answer):\n    return {'result': 'complete'}\n"


def pack_of_trees(folder: Path) -> Path:
    """A pack with a workspace for each of the larger trees, of files of 2 KB, twenty to a folder."""
    (folder / "pack.yaml").write_text(_PACK)
    for count in TREES:
        place = folder / f"tree_{count}"
        for number in range(count):
            file = place / "tree" / f"folder_{number // 20}" / f"file_{number}.txt"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(f"line of file {number}\n" * 100)
        (place / "environment.yaml").write_text(f"kind: workspace\ntitle: Tree of {count} files\n")
        (place / "tasks.yaml").write_text(_TASKS)
        (place / "verifier.py").write_text(_VERIFIER)
    return folder


def of_kind(rooms: Rooms, kind: str) -> str:
    """The first scenario of a kind whose first task has a reference solution."""
    source = rooms.source
    return next(one.name for one in source.scenarios() if one.kind == kind and source.solution(one.name, 0))


async def started(rooms: Rooms, scenario: str, seed: int) -> Episode:
    """A running episode of a scenario's first task."""
    episode = Episode(rooms, EpisodeRequest(scenario=scenario, task_idx=0, seed=seed, model_digest="bench"))
    await episode.start()
    return episode


async def verified(rooms: Rooms, scenario: str) -> float:
    """Milliseconds that the verification of an episode takes."""
    episode = await started(rooms, scenario, 0)
    began = time.perf_counter()
    await episode.verify("code", "")
    took = (time.perf_counter() - began) * 1e3
    await episode.finish()
    return took


async def measured_tree(rooms: Rooms, scenario: str, episodes: int) -> Figures:
    """How soon a workspace with a larger tree is ready."""
    ready = []
    for number in range(episodes + 3):
        episode = await started(rooms, scenario, 0)
        if number >= 3:
            ready.append(ttfi_ms(episode.lifecycle.stamps) or 0.0)
        await episode.finish()
    return {f"workspace, {scenario}: ttfi p50 (ms)": statistics.median(ready)}


async def measured(rooms: Rooms, kind: str, episodes: int, idle: int) -> Figures:
    """The figures of one kind."""
    scenario = of_kind(rooms, kind)
    solution = rooms.source.solution(scenario, 0)
    assert solution is not None
    first = solution.calls[0]
    for _ in range(3):
        await (await started(rooms, scenario, 0)).finish()
    ready, calls_ms = [], []
    for number in range(episodes):
        episode = await started(rooms, scenario, number // ATTEMPTS)
        ready.append(ttfi_ms(episode.lifecycle.stamps) or 0.0)
        for _ in range(10):
            began = time.perf_counter()
            await episode.call(first.name, first.arguments)
            calls_ms.append((time.perf_counter() - began) * 1e3)
        await episode.finish()
    verifying = [await verified(rooms, scenario) for _ in range(VERIFIED)]
    await rooms.disposal.drain()
    before = await settled(rooms)
    waiting = [await started(rooms, scenario, 0) for _ in range(idle)]
    grown = await settled(rooms) - before
    for episode in waiting:
        await episode.finish()
    return {
        f"{kind}: ttfi p50 (ms)": statistics.median(ready),
        f"{kind}: ttfi p95 (ms)": percentile(ready, 0.95),
        f"{kind}: step p50 (ms)": statistics.median(calls_ms),
        f"{kind}: steps a second, one after another": 1e3 / statistics.mean(calls_ms),
        f"{kind}: verification p50 (ms)": statistics.median(verifying),
        f"{kind}: memory of an idle episode (MiB)": grown / idle,
    }


async def settled(rooms: Rooms) -> float:
    """MiB that are private to this process and to the episodes' processes, when what stands by has gone."""
    stand_down = getattr(rooms.provider, "stand_down", None)
    if stand_down is not None:
        await stand_down()
    await asyncio.sleep(0.5)
    return private_mib("self") + sum(private_mib(pid) for pid in episode_processes())


async def run(episodes: int, idle: int) -> Figures:
    """All kinds, one after another."""
    figures: Figures = {}
    with tempfile.TemporaryDirectory() as folder:
        settings = options.settings_with(packs=(*shipped_packs(), str(pack_of_trees(Path(folder)))))
        with options.open_source(settings) as source:
            async with open_rooms(source, options.assembly(settings)) as rooms:
                for kind in KINDS:
                    figures |= await measured(rooms, kind, episodes, idle)
                for count in TREES:
                    figures |= await measured_tree(rooms, f"tree_{count}", episodes)
    return figures


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=60, help="episodes of each kind")
    parser.add_argument("--idle", type=int, default=20, help="idle episodes at once")
    parser.add_argument("--json", type=Path, help="write the figures here too")
    given = parser.parse_args()
    described = conditions(episodes=given.episodes, idle=given.idle)
    report(asyncio.run(run(given.episodes, given.idle)), described, {}, given.json)


if __name__ == "__main__":
    main()
