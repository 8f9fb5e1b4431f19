"""Stopping a process tree, so that what it writes can be copied whole."""

import logging
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

_STOP_TIMEOUT_S = 2.0
_LOOKS_AT_ONCE = 20  # one that waits for its next call stops within microseconds
_log = logging.getLogger(__name__)


@contextmanager
def stopped(pid: int) -> Iterator[None]:
    """Every process of a tree is stopped inside the block, and goes on after it."""
    held = _stop_all(pid)
    try:
        yield
    finally:
        for one in held:
            _signal(one, signal.SIGCONT)


def _stop_all(pid: int) -> list[int]:
    """Stop a tree; returns who was stopped once none of them runs and no new one has appeared."""
    held: list[int] = []
    while fresh := [one for one in _tree(pid) if one not in held]:
        for one in fresh:
            _signal(one, signal.SIGSTOP)
            _await_stopped(one)
        held += fresh
    return held


def _tree(pid: int) -> Iterator[int]:
    yield pid
    try:
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                yield from _tree(int(child))
    except OSError:
        return  # gone in the meantime, or a kernel without children lists: then only the first process is known


def _await_stopped(pid: int) -> None:
    deadline, looks = time.monotonic() + _STOP_TIMEOUT_S, count()
    while time.monotonic() < deadline:
        try:
            tasks = [(task / "stat").read_text() for task in Path(f"/proc/{pid}/task").iterdir()]
        except OSError:
            return  # gone
        if all(line.rpartition(")")[2].split()[0] in "TtZX" for line in tasks):
            return
        time.sleep(0 if next(looks) < _LOOKS_AT_ONCE else 0.0002)
    _log.error("process %d of a sandbox did not stop within %g s; its snapshot may be torn", pid, _STOP_TIMEOUT_S)


def _signal(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except OSError:
        pass  # gone already
