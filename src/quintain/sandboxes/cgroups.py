"""A control group around everything sandboxed, where the host offers one: a bound on the sum.

Each episode is bounded by limits of its own process (memory, processes, time) and by the size of its file system.
The group bounds what all of them take together, so that a thousand well-behaved episodes cannot take the host down
either, and shares the processors between them and the platform, which is one process beside a thousand. A group per
episode would cost more than it gives: joining one, tried by hand, stalled for 17 ms in one case out of ten (ADR 14).
Only instances that may start processes have one each: the memory of these adds up, and nothing else bounds it.

Version 2 (one hierarchy) and version 1 (one for each controller; hybrid hosts are that) are both used as they are
found, by trying: a limit counts only if it reads back as written.
"""

import contextlib
import logging
import os
import time
from dataclasses import dataclass, field
from pathlib import Path

_ROOT = Path("/sys/fs/cgroup")
_PREFIX = "quintain-"
_EMPTY_TIMEOUT_S = 5.0
_WEIGHT_OF_ONE, _MOST_WEIGHT = 100, 10_000  # version 2; the weight of a process outside
_SHARES_OF_ONE, _MOST_SHARES = 1024, 2**18  # version 1
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class GroupLimits:
    """What everything in a group may take together."""

    memory_bytes: int
    pids: int
    cpu_processes: int = field(default_factory=lambda: os.cpu_count() or 1)
    """Its share of the processors, where others want them too: as much as so many processes outside it have."""


class ControlGroup:
    """Directories of one group: one under version 2, one for each controller under version 1."""

    def __init__(self, folders: tuple[Path, ...], version: int) -> None:
        self.folders = folders
        self.version = version

    @property
    def doors(self) -> list[Path]:
        """The files into which a process writes 0 to join, with all it will start."""
        return [folder / "cgroup.procs" for folder in self.folders]

    def admit(self, pid: int) -> None:
        """Move a process into it; what it starts from then on is in it too.

        Raises:
            OSError: it has ended, or may not be moved.
        """
        for door in self.doors:
            door.write_text(str(pid))

    def remove(self) -> None:
        """Remove the group once its last process has gone; what cannot be removed is reported."""
        deadline = time.monotonic() + _EMPTY_TIMEOUT_S
        left = [folder for folder in self.folders if folder.exists()]
        while left and time.monotonic() < deadline:
            for folder in list(left):
                try:
                    folder.rmdir()
                    left.remove(folder)
                except FileNotFoundError:
                    left.remove(folder)
                except OSError:
                    time.sleep(0.02)
        if left:
            _log.error("control groups could not be removed: %s", ", ".join(map(str, left)))


def make_group(name: str, limits: GroupLimits, root: Path = _ROOT) -> ControlGroup | None:
    """A new group with these limits, or None where the host offers none that holds them."""
    sweep(root)
    own = f"{_PREFIX}{os.getpid()}-{name}"
    if (root / "cgroup.controllers").exists():
        return _version_2(_own_folder(root) / own, limits)
    return _version_1(root, own, limits)


def make_inner(outer: ControlGroup, name: str, limits: GroupLimits) -> ControlGroup | None:
    """A group for one sandbox whose processes take memory together, or None where it cannot be had.

    Under version 1 it lies within the outer one. Under version 2 a group that has processes has none within it that are
    bounded, so it lies beside it.
    """
    if outer.version == 2:
        folder = outer.folders[0]
        return _version_2(folder.with_name(f"{folder.name}-{name}"), limits)
    memory, pids = (folder / name for folder in outer.folders[:2])
    return _limited(
        ControlGroup((memory, pids), 1),
        {memory / "memory.limit_in_bytes": limits.memory_bytes, pids / "pids.max": limits.pids},
    )


def offered(root: Path = _ROOT) -> str:
    """What the host offers, in words, for the doctor."""
    group = make_group("doctor", GroupLimits(2**30, 1024), root)
    if group is None:
        return "none that this user may make"
    group.remove()
    return f"version {group.version}"


def sweep(root: Path = _ROOT) -> int:
    """Remove empty groups of platforms that are gone; returns how many."""
    swept = 0
    for folder in (*root.glob(f"{_PREFIX}*"), *root.glob(f"*/{_PREFIX}*"), *root.glob(f"*/*/{_PREFIX}*")):
        owner = folder.name.removeprefix(_PREFIX).partition("-")[0]
        if owner.isdigit() and not os.path.exists(f"/proc/{owner}"):
            for inner in folder.glob("*/"):
                with contextlib.suppress(OSError):
                    inner.rmdir()
            with contextlib.suppress(OSError):
                folder.rmdir()
                swept += 1
    return swept


def _own_folder(root: Path) -> Path:
    """The group this process is in, under version 2: new groups belong below it."""
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return root
    own = next((line.removeprefix("0::") for line in lines if line.startswith("0::")), "/")
    return root / own.lstrip("/")


def _version_2(folder: Path, limits: GroupLimits) -> ControlGroup | None:
    for controllers in ("+memory +pids", "+cpu"):
        with contextlib.suppress(OSError):  # refused where processes sit in the parent: then only what is on already
            (folder.parent / "cgroup.subtree_control").write_text(controllers)
    group = _limited(
        ControlGroup((folder,), 2), {folder / "memory.max": limits.memory_bytes, folder / "pids.max": limits.pids}
    )
    weight = folder / "cpu.weight"
    if group is not None and weight.exists():
        with contextlib.suppress(OSError):  # the other bounds hold without it
            weight.write_text(str(min(_WEIGHT_OF_ONE * limits.cpu_processes, _MOST_WEIGHT)))
    return group


def _version_1(root: Path, name: str, limits: GroupLimits) -> ControlGroup | None:
    memory, pids = root / "memory" / name, root / "pids" / name
    if not memory.parent.is_dir() or not pids.parent.is_dir():
        return None
    group = _limited(
        ControlGroup((memory, pids), 1),
        {memory / "memory.limit_in_bytes": limits.memory_bytes, pids / "pids.max": limits.pids},
    )
    cpu = root / "cpu" / name
    if group is None or not cpu.parent.is_dir():
        return group
    shares = {cpu / "cpu.shares": min(_SHARES_OF_ONE * limits.cpu_processes, _MOST_SHARES)}
    by_share = _limited(ControlGroup((cpu,), 1), shares)
    return group if by_share is None else ControlGroup((*group.folders, cpu), 1)


def _limited(group: ControlGroup, wanted: dict[Path, int]) -> ControlGroup | None:
    """The group with its limits written and read back; None, and nothing left, where one does not hold."""
    try:
        for folder in group.folders:
            folder.mkdir()
        for file, value in wanted.items():
            file.write_text(str(value))
            found = int(file.read_text())
            if not value * 0.99 <= found <= value:  # the kernel rounds to pages
                raise OSError(f"{file} reads {found}, not {value}")
    except (OSError, ValueError) as error:
        _log.debug("no control group: %s", error)
        group.remove()
        return None
    return group
