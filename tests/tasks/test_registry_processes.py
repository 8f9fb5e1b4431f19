"""Several processes on one registry, and processes killed in the middle of a move."""

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from quintain.tasks.pools import Pool
from quintain.tasks.registry import TaskRegistry
from served import ROOT
from tasks.shelf import Shelf

CHILD = Path(__file__).with_name("registry_child.py")
TASKS = [f"lamps/{index}" for index in range(6)]


def child(*arguments: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    return subprocess.Popen(
        [sys.executable, str(CHILD), *arguments], env=environment, stdout=subprocess.PIPE, text=True
    )


@pytest.fixture
def registry(tmp_path: Path) -> TaskRegistry:
    made = TaskRegistry.create(tmp_path / "registry")
    made.import_tasks(Shelf(lamps=range(6), chairs=range(10, 40)), Pool.DEV, by="ann")
    return made


def placed(registry: TaskRegistry) -> dict[str, list[Pool]]:
    """The pools in whose manifests each task is."""
    manifests = {pool: registry.manifest(pool) for pool in (Pool.TRAIN, Pool.DEV, Pool.REGRESSION)}
    return {task: [pool for pool, manifest in manifests.items() if task in manifest.by_task] for task in TASKS}


def test_a_move_killed_at_any_step_is_before_or_after(registry: TaskRegistry) -> None:
    done = child("killed_at_each_step", str(registry.root), "lamps/0")
    told, _ = done.communicate(timeout=100)
    assert done.returncode == 0
    steps = int(told)
    assert steps >= 8, "two manifests, the journal and the pools' files are each brought to disk"
    seen = []
    for step in range(steps + 1):
        left = TaskRegistry.open(registry.root.with_name(f"registry-{step}"))
        left.check()
        (pool,) = placed(left)["lamps/0"]
        assert pool is left.pool_of("lamps/0")
        seen.append(pool)
        if pool is Pool.DEV:
            left.move(["lamps/0"], Pool.TRAIN, by="bob", why="again")
        left.move(["lamps/1"], Pool.TRAIN, by="bob", why="it goes on")
        after = TaskRegistry.open(left.root)
        after.check()
        assert placed(after)["lamps/0"] == placed(after)["lamps/1"] == [Pool.TRAIN]
        assert [record.sequence for record in after.journal()] == [1, 2, 3]
    assert seen[0] is Pool.DEV
    assert seen[-1] is Pool.TRAIN
    assert seen == sorted(seen), "before up to some step, and after from there on"


def test_a_process_killed_at_any_moment_loses_nothing_it_told(registry: TaskRegistry) -> None:
    chance = random.Random(7)
    for _ in range(8):
        process = child("shuttle", str(registry.root), *TASKS)
        assert process.stdout is not None
        told = [process.stdout.readline()]
        time.sleep(chance.uniform(0, 0.05))
        process.kill()
        told += process.stdout.readlines()
        process.wait()
        process.stdout.close()
        acknowledged = max(int(line) for line in told if line.endswith("\n"))
        left = TaskRegistry.open(registry.root)
        left.check()
        assert acknowledged <= left.sequence <= acknowledged + 1
        pools = {tuple(pools) for pools in placed(left).values()}
        assert pools in ({(Pool.DEV,)}, {(Pool.REGRESSION,)}), "all of a move or none"
        if left.pool_of("lamps/0") is Pool.REGRESSION:
            left.move(TASKS, Pool.DEV, by="ann", why="again")


def test_processes_take_turns(registry: TaskRegistry) -> None:
    shares = [[f"chairs/{index}" for index in range(share, 30, 3)] for share in range(3)]
    processes = [child("once", str(registry.root), *share) for share in shares]
    for process in processes:
        process.communicate(timeout=60)
        assert process.returncode == 0
    left = TaskRegistry.open(registry.root)
    left.check()
    assert sorted(left.tasks(Pool.TRAIN)) == sorted(f"chairs/{index}" for index in range(30))
    assert left.tasks(Pool.DEV) == tuple(TASKS)
    records = left.journal()
    assert [record.sequence for record in records] == list(range(1, 32))
    assert len({record.by for record in records}) == 4
    assert len(left.versions(Pool.TRAIN)) == 30
