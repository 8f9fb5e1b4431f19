"""How much memory is left for more episodes: the host's, or less where a control group limits this process."""

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

FRESH_S: Final = 0.1
"""How long a reading counts; resets come in hundreds a second, and a reading costs as much as a small call."""

_NO_LIMIT: Final = 2**60
"""Control groups of version 1 write a number near 2^63 for no limit."""


@dataclass(frozen=True)
class _Group:
    """A control group with a memory limit: its folder, limit, and the names of what tells its use."""

    folder: Path
    limit: int
    usage: str
    reclaimable: str

    def available(self) -> int:
        """What may still be used. Pages of files that nobody uses count as free: the kernel drops them at need."""
        used = int((self.folder / self.usage).read_text())
        lines = (self.folder / "memory.stat").read_text().splitlines()
        inactive = next((int(line.split()[1]) for line in lines if line.startswith(self.reclaimable + " ")), 0)
        return self.limit - used + inactive


class Memory:
    """Memory that is available to this process and its sandboxes."""

    def __init__(self, root: Path = Path("/"), now: Callable[[], float] = time.monotonic) -> None:
        """`root` is where `proc` and `sys` are found."""
        self._root = root
        self._now = now
        self._read_at = float("-inf")
        self._available = 0
        self._groups = list(_limited_groups(root))

    def available(self) -> int:
        """Bytes, as they were at most `FRESH_S` ago."""
        now = self._now()
        if now - self._read_at > FRESH_S:
            self._read_at = now
            self._available = min([_host_available(self._root), *self._left_in_groups()])
        return self._available

    def _left_in_groups(self) -> Iterator[int]:
        for group in self._groups:
            with contextlib.suppress(OSError, ValueError):  # it was taken away, with its limit
                yield group.available()


def _host_available(root: Path) -> int:
    for line in (root / "proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    raise OSError("/proc/meminfo has no MemAvailable; set QUINTAIN_MIN_FREE_MEMORY=0 on this host")


def _limited_groups(root: Path) -> Iterator[_Group]:
    """The control groups of this process, from its own upwards, that limit memory."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            yield from _groups(root / "sys/fs/cgroup", path, "memory.max", "memory.current", "inactive_file")
        elif "memory" in controllers.split(","):
            mount = root / "sys/fs/cgroup/memory"
            yield from _groups(mount, path, "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")


def _groups(mount: Path, path: str, limit: str, usage: str, reclaimable: str) -> Iterator[_Group]:
    # within a container the path may be the host's; then only the mount itself is there
    parts = [part for part in path.split("/") if part not in ("", "..")]
    for length in range(len(parts), -1, -1):
        folder = mount.joinpath(*parts[:length])
        try:
            text = (folder / limit).read_text().strip()
            if text != "max" and int(text) < _NO_LIMIT:
                group = _Group(folder, int(text), usage, reclaimable)
                group.available()  # one that cannot be read is none that can be kept
                yield group
        except (OSError, ValueError):
            continue
