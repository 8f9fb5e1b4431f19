"""One unprivileged user id per zygote, when the platform is run by root.

Ids come from a range without accounts; a locked file per id keeps two servers on one host apart.
"""

import fcntl
import os
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from quintain.errors import IsolationError

_FOLDERS = ("/run/quintain-users", "/tmp/quintain-users")  # the same for every server, whatever its TMPDIR
FIRST, LAST = 61500, 61999  # inside systemd's range for dynamic users: no account has one


@dataclass
class UserSlot:
    """A user id held until released; None when the platform is an ordinary user and drops to nobody."""

    uid: int | None
    _guard: IO[bytes] | None = None

    def release(self) -> None:
        """Give the id back. Idempotent."""
        if self._guard is not None:
            self._guard.close()
            self._guard = None


def take_user() -> UserSlot:
    """Hold a user id of its own for a zygote.

    Raises:
        IsolationError: all are taken.
    """
    if os.geteuid() != 0:
        return UserSlot(None)
    if not _mapped(FIRST, LAST):
        raise IsolationError(
            f"this root has no user ids {FIRST} to {LAST} to drop to: it is the root of a user namespace without them; "
            "run the server as an ordinary user there"
        )
    folder = _shared_folder()
    for uid in range(FIRST, LAST + 1):
        guard = (folder / str(uid)).open("wb")
        try:
            fcntl.flock(guard, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            guard.close()
            continue
        return UserSlot(uid, guard)
    raise IsolationError(f"all sandbox user ids from {FIRST} to {LAST} are in use on this host")


def _shared_folder() -> Path:
    for name in _FOLDERS:
        folder = Path(name)
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
        except OSError:
            continue  # read-only here, as /run is in some containers
        if folder.is_dir() and not folder.is_symlink() and folder.stat().st_uid == 0:
            return folder
    raise IsolationError(f"no folder for locks on user ids: neither of {', '.join(_FOLDERS)} can be made by this root")


def _mapped(first: int, last: int) -> bool:
    """Whether all these ids exist in this process's user namespace."""
    for line in Path("/proc/self/uid_map").read_text().splitlines():
        inside, _, count = map(int, line.split())
        if inside <= first and last < inside + count:
            return True
    return False
