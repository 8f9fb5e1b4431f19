"""Processes that use a registry and are killed: run as `python registry_child.py JOB ROOT ...`."""

import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from quintain.tasks.pools import Pool
from quintain.tasks.registry import TaskRegistry

STEPS = ("fsync", "replace", "write", "ftruncate")
"""What a registry changes a disk by."""


def shuttle(root: Path, tasks: list[str]) -> None:
    """Move tasks to and fro until killed; each move that is done is told by its record's number."""
    registry = TaskRegistry.open(root)
    while True:
        for to in (Pool.REGRESSION, Pool.DEV):
            record = registry.move(tasks, to, by="child", why="to and fro")
            print(record.sequence, flush=True)


def once(root: Path, tasks: list[str]) -> None:
    """Move each task to train, one at a time, in company of others who do so."""
    registry = TaskRegistry.open(root)
    for task in tasks:
        registry.move([task], Pool.TRAIN, by=f"child {os.getpid()}", why="mine")


def die_at(step: int) -> None:
    """Have this process killed when it is about to take a step, counted from 0."""
    count = 0

    def dying(call: Callable[..., Any]) -> Callable[..., Any]:
        def stepped(*arguments: Any) -> Any:
            nonlocal count
            if count == step:
                os.kill(os.getpid(), signal.SIGKILL)
            count += 1
            return call(*arguments)

        return stepped

    for name in STEPS:
        setattr(os, name, dying(getattr(os, name)))


def killed_at_each_step(base: Path, task: str) -> None:
    """For n = 0, 1, ... copy a registry, move a task in a process that is killed at its nth step, until none is.

    The copy `<base>-<n>` is left as the process left it. Prints how many steps there were.
    """
    step = 0
    while True:
        root = base.with_name(f"{base.name}-{step}")
        shutil.copytree(base, root)
        child = os.fork()
        if child == 0:
            die_at(step)
            TaskRegistry.open(root).move([task], Pool.TRAIN, by="child", why="killed")
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if os.WIFEXITED(status):
            assert os.WEXITSTATUS(status) == 0
            print(step, flush=True)
            return
        assert os.WTERMSIG(status) == signal.SIGKILL
        step += 1


if __name__ == "__main__":
    job, root, *names = sys.argv[1:]
    if job == "shuttle":
        shuttle(Path(root), names)
    elif job == "once":
        once(Path(root), names)
    else:
        killed_at_each_step(Path(root), names[0])
