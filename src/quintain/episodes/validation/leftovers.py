"""What destroyed episodes leave: processes, mounts, files and descriptors, counted before and after a few of them.

It is counted while nothing else runs and nothing stands by, and what is left is given time to go: sandboxes are
destroyed behind whoever lets them go. Looked at are this process, all below it, and its control groups.
"""

import asyncio
import gc
import os
import re
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

SETTLE_S: Final = 5.0
"""How long what is left has to go."""

_LOOK_EVERY_S = 0.02
_STEADY_LOOKS = 3
_GROUP = "quintain-"
_PROC = Path("/proc")

Play = Callable[[], Awaitable[None]]


@dataclass(frozen=True)
class Footprint:
    """What there is at a moment. Mounts and descriptors are by process, those of processes that last included."""

    processes: Mapping[str, int]
    """How many there are of each name, this one and all below it."""
    grouped: int
    """Processes in this platform's control groups, and the groups within them."""
    files: Mapping[str, int]
    """How many entries directories in the scratch directory have; those that differ by their numbers count as one."""
    mounts: Mapping[int, int]
    descriptors: Mapping[int, int]

    @classmethod
    def now(cls, scratch: Path, ignored: Path) -> "Footprint":
        """Look. `ignored` is a directory in the scratch directory that is not counted."""
        names = dict(_descendants(os.getpid()))
        return cls(
            processes=Counter(names.values()),
            grouped=_grouped(names),
            files=Counter(_place(path, scratch) for path in _below(scratch, ignored)),
            mounts=_counted(names, lambda pid: len((_PROC / str(pid) / "mountinfo").read_bytes().splitlines())),
            descriptors=_counted(names, lambda pid: len(os.listdir(_PROC / str(pid) / "fd"))),
        )

    def more_than(self, before: "Footprint") -> dict[str, str]:
        """What there is more of, by kind, in words."""
        found = {}
        if more := Counter(self.processes) - Counter(before.processes):
            found["processes"] = _listed(more)
        if self.grouped > before.grouped:
            found["control group"] = f"{self.grouped - before.grouped} more in it"
        if more := Counter(self.files) - Counter(before.files):
            found["files"] = _listed(more, "in")
        for kind, mine, then in (
            ("mounts", self.mounts, before.mounts),
            ("descriptors", self.descriptors, before.descriptors),
        ):
            grown = {pid: mine[pid] - then[pid] for pid in mine.keys() & then.keys() if mine[pid] > then[pid]}
            if grown:
                found[kind] = _listed({f"process {pid}": number for pid, number in grown.items()})
        return found


class Meter:
    """Counts around plays."""

    def __init__(
        self, scratch: Path, ignored: Path, drained: Callable[[], Awaitable[None]], settle_s: float = SETTLE_S
    ) -> None:
        """`drained` waits until what was let go has been destroyed; `settle_s` is given to what goes behind that."""
        self._scratch = scratch
        self._ignored = ignored
        self._drained = drained
        self._settle_s = settle_s

    async def left_by(self, play: Play) -> str:
        """What a play leaves behind, in words; empty for nothing.

        It counts only when two more plays leave something as well: what is opened or started once and kept, a cache's
        file or a class's zygote, is none of an episode's.
        """
        before = await self._steady()
        await play()
        left = await self._left_since(before)
        for _ in range(2):
            if not left:
                break
            before = await self._steady()
            await play()
            left = await self._left_since(before)
        return "; ".join(f"{kind}: {what}" for kind, what in left.items())

    async def _left_since(self, before: Footprint) -> dict[str, str]:
        await self._gone()
        deadline = time.monotonic() + self._settle_s
        while left := (await self._look()).more_than(before):
            if time.monotonic() > deadline:
                return left
            await asyncio.sleep(_LOOK_EVERY_S)
        return {}

    async def _steady(self) -> Footprint:
        """What there is once it has stopped changing, or after a while."""
        await self._gone()
        deadline = time.monotonic() + self._settle_s
        steady, last = 0, await self._look()
        while steady < _STEADY_LOOKS and time.monotonic() < deadline:
            await asyncio.sleep(_LOOK_EVERY_S)
            look = await self._look()
            steady = steady + 1 if look == last else 0
            last = look
        return last

    async def _gone(self) -> None:
        await self._drained()
        gc.collect()  # what only waits for the collector is not left behind

    async def _look(self) -> Footprint:
        return Footprint.now(self._scratch, self._ignored)


def _descendants(root: int) -> Iterator[tuple[int, str]]:
    """Process ids and names of a process and all below it; those that have ended and wait to be reaped included."""
    children: dict[int, list[tuple[int, str]]] = {}
    for pid in _pids():
        try:
            before, _, after = (_PROC / str(pid) / "stat").read_text(errors="replace").rpartition(")")
        except OSError:
            continue
        name = before.partition("(")[2]
        children.setdefault(int(after.split()[1]), []).append((pid, name))
        if pid == root:
            yield pid, name
    pending = [root]
    while pending:
        for pid, name in children.get(pending.pop(), ()):
            yield pid, name
            pending.append(pid)


def _pids() -> Iterator[int]:
    return (int(name) for name in os.listdir(_PROC) if name.isdigit())


def _grouped(pids: Iterable[int]) -> int:
    """Members and children of the control groups that a process below this one is in and that are this platform's."""
    own = f"{_GROUP}{os.getpid()}-"
    folders = {folder for pid in pids for folder in _groups(pid) if folder.name.startswith(own)}
    total = 0
    for folder in folders:
        try:
            total += len((folder / "cgroup.procs").read_text().split()) + sum(one.is_dir() for one in folder.iterdir())
        except OSError:
            continue
    return total


def _groups(pid: int) -> Iterator[Path]:
    try:
        lines = (_PROC / str(pid) / "cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        yield Path("/sys/fs/cgroup", controllers) / path.lstrip("/")


def _place(path: Path, scratch: Path) -> str:
    return re.sub("[0-9]+", "*", str(Path("scratch") / path.parent.relative_to(scratch)))


def _below(folder: Path, ignored: Path) -> Iterator[Path]:
    try:
        entries = list(folder.iterdir())
    except OSError:
        return
    for entry in entries:
        if entry != ignored:
            yield entry
            if entry.is_dir() and not entry.is_symlink():
                yield from _below(entry, ignored)


def _counted(pids: Iterable[int], count: Callable[[int], int]) -> dict[int, int]:
    found = {}
    for pid in pids:
        try:
            found[pid] = count(pid)
        except OSError:
            continue  # it has ended, or it is another user's and nobody may look
    return found


def _listed(counts: Mapping[str, int], joined: str = "of") -> str:
    return ", ".join(f"{number} {joined} {name}" for name, number in sorted(counts.items()))
